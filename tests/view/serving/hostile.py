"""Who means a server harm: connections that ask nothing, all on 127.0.0.1, so many and so long."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

# How half a request looks: nothing, some of its headers, or a body that does not come.
HALVES = (
    b"",
    b"GET / HT",
    b"GET /api/about HTTP/1.1\r\nHost: 127.0.0.1\r\nA",
    b"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 100\r\n\r\n{",
)


def half_open(port: int, number: int) -> socket.socket:
    """A connection that begins a request, in one of several ways, and leaves it there."""
    line = socket.create_connection(("127.0.0.1", port), 20)
    line.sendall(HALVES[number % len(HALVES)].replace(b"PORT", str(port).encode()))
    return line


@contextmanager
def held_open(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many of them at a time, as long as this is open."""
    with ExitStack() as stack:
        yield [stack.enter_context(half_open(port, number)) for number in range(count)]


@dataclass
class Client:
    """Somebody who uses the page meanwhile, each time over a connection of its own."""

    port: int
    secret: str
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def ask(self, path: str) -> None:
        """Ask once, and note how long it took or what went wrong."""
        began = time.perf_counter()
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            line.request("GET", path, headers={"Authorization": f"Bearer {self.secret}"})
            answer = line.getresponse()
            answer.read()
            if answer.status != 200:
                self.errors.append(f"{path}: {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            self.errors.append(f"{path}: {error!r}")
        finally:
            line.close()
        self.seconds.append(time.perf_counter() - began)

    @contextmanager
    def asking(self, pause: float = 0.02) -> Iterator[None]:
        """Inside, it asks again and again."""
        done = Event()

        def go() -> None:
            while not done.wait(pause):
                self.ask("/")
                self.ask("/api/about")

        thread = Thread(target=go, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(60)
