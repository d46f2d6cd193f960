"""How much one may send, ask for and keep."""

from dataclasses import asdict, dataclass

from regard.view.server.connections import HEADER_SECONDS


@dataclass(frozen=True)
class Limits:
    """The bounds of a server; bytes, where nothing else is said.

    Args:
        text: a body of JSON.
        image: the file of an image.
        pixels: how many an image may have.
        trace: the file of a trace.
        tokens: how long an axis of a trace may be.
        heads: how many heads all maps of a trace may have together.
        waiting: how many runs may wait for the one that goes on.
        lessons: how many lessons may wait.
        run_seconds: how long a run may take.
        render_seconds: how many seconds a file to take away may be made.
        header_seconds: how many seconds the headers of a request may take to arrive.
        upload_seconds: how many seconds a body may take to arrive.
        max_requests: how many requests with the secret may be in the house.
    """

    text: int = 32 * 2**10
    image: int = 8 * 2**20
    pixels: int = 16_000_000
    trace: int = 256 * 2**20
    tokens: int = 2**15
    heads: int = 2**14
    waiting: int = 4
    lessons: int = 128
    run_seconds: float = 300.0
    render_seconds: float = 60.0
    header_seconds: float = HEADER_SECONDS
    upload_seconds: float = 60.0
    max_requests: int = 256

    def to_json(self) -> dict[str, int]:
        """What a page should know of them."""
        named = ("text", "image", "pixels", "trace", "tokens", "waiting")
        return {name: value for name, value in asdict(self).items() if name in named}
