"""The server under load: many clients at once, and the latency of a lesson and of a wall."""

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import torch

from benchmarks import hostile
from benchmarks.measure import Row, in_words
from regard.view import Header, Map, Tokens, Trace
from tests.browser import entered

CLIENTS, REQUESTS = 50, 200
LAYERS, HEADS, TOKENS = 12, 12, 512
LESSONS = ("softmax", "dictionary", "scoring", "masking")


def house() -> None:
    """A server with one trace of 12 × 12 × 512 × 512, and the lessons; prints where it is."""
    from regard.view.lessons import LESSONS
    from regard.view.server.app_state import AppState
    from regard.view.server.start import serve

    state = AppState({}, LESSONS, lambda line: print(line, file=sys.stderr, flush=True))
    place = f"#/t/{state.store_trace(_walled(), {})}"
    serve(state, fragment=place, on_ready=lambda link, _: print(link(), flush=True))


@dataclass
class Server:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    secret: str
    trace: str

    def resident(self) -> float:
        """The MB that it holds."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@dataclass
class Client:
    """One line to a server that is kept open; what it met is counted."""

    server: Server
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.line = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)

    def ask(self, path: str, body: str | None = None) -> bytes:
        """The body of an answer."""
        began = time.perf_counter()
        try:
            headers = {"Authorization": f"Bearer {self.server.secret}"}
            self.line.request("GET" if body is None else "POST", path, body, headers)
            answer = self.line.getresponse()
            data = answer.read()
            if answer.status != 200:
                self.errors.append(f"{path}: {answer.status} {data[:200]!r}")
        except OSError as error:
            self.errors.append(f"{path}: {error!r}")
            self.line.close()
            data = b""
        self.seconds.append(time.perf_counter() - began)
        return data


def rows() -> Iterator[Row]:
    """The claims about serving."""
    with served() as server:
        yield _lessons(server)
        yield _wall(server)
        yield _many(server)
    yield from hostile.rows()


@contextmanager
def served() -> Iterator[Server]:
    """A server that runs."""
    code = "from benchmarks.serving import house; house()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        origin, secret = entered(link)
        yield Server(process, urlsplit(origin).port or 0, secret, link.rpartition("/t/")[2])
    finally:
        process.kill()
        process.wait()


def _walled() -> Trace:
    torch.manual_seed(0)
    weights = torch.randn(LAYERS, HEADS, TOKENS, TOKENS).mul(4).softmax(-1)
    axis = Tokens("text", [f"w{n}" for n in range(TOKENS)])
    return Trace([axis], [Map("own", "text", "text", weights, LAYERS, HEADS)], header=Header())


def _mix(client: Client, n: int) -> bytes:
    """One of what a page asks for, in turns."""
    at = f"/api/traces/{client.server.trace}"
    layer, head, query = n % LAYERS, n % HEADS, n % TOKENS
    lesson = f"/api/lessons/{LESSONS[n % len(LESSONS)]}"
    asked: tuple[Callable[[], bytes], ...] = (
        lambda: client.ask("/"),
        lambda: client.ask(at),
        lambda: client.ask(f"{at}/thumbs/own"),
        lambda: client.ask(f"{at}/cells/own/{layer}/{head}"),
        lambda: client.ask(f"{at}/rows/own/{layer}/{head}/{query}"),
        lambda: client.ask(lesson, "{}"),
        lambda: client.ask("/api/about"),
    )
    return asked[n % len(asked)]()


def _many(server: Server) -> Row:
    first = Client(server)
    for n in range(REQUESTS):
        _mix(first, n)
    before = server.resident()
    clients = [Client(server) for _ in range(CLIENTS)]

    def run(client: Client, start: int) -> None:
        for n in range(REQUESTS):
            _mix(client, start + n)

    began = time.perf_counter()
    threads = [threading.Thread(target=run, args=one) for one in zip(clients, range(CLIENTS))]  # noqa: B905
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, after = time.perf_counter() - began, server.resident()
    errors = [error for client in [first, *clients] for error in client.errors]
    times = sorted(seconds for client in clients for seconds in client.seconds)
    for error in errors[:5]:
        print(error, file=sys.stderr)
    median = in_words(statistics.median(times))
    measured = (
        f"{len(errors)} errors, longest {in_words(times[-1])}, median {median}, "
        f"{len(times) / took:.0f} requests a second, {before:.0f} → {after:.0f} MB"
    )
    met = not errors and times[-1] <= 2 and after - before <= 0.1 * before
    return Row(
        f"{CLIENTS} clients × {REQUESTS} requests on loopback: page, manifest, thumbnails, cells, "
        "rows, lessons",
        "no error, no stall over 2 s, memory flat (10 %)",
        "",
        measured,
        met,
    )


def _lessons(server: Server) -> Row:
    client = Client(server)
    for n in range(50):
        client.ask(f"/api/lessons/{LESSONS[n % len(LESSONS)]}", "{}")
    client.seconds.clear()
    for n in range(400):
        numbers = {"scores": [2.0, n / 100, 0.0]} if n % len(LESSONS) == 0 else {}
        client.ask(f"/api/lessons/{LESSONS[n % len(LESSONS)]}", json.dumps(numbers))
    median, late = _median_and_late(client.seconds)
    return Row(
        "the answer of a lesson, one client",
        "≤ 100 ms",
        "50 ms",
        f"median {in_words(median)}, 95 % within {in_words(late)}; {len(client.errors)} errors",
        late <= 0.1 and not client.errors,
    )


def _wall(server: Server) -> Row:
    client, took, size = Client(server), [], 0
    for _ in range(30):
        began = time.perf_counter()
        at = f"/api/traces/{server.trace}"
        size = len(client.ask(at)) + len(client.ask(f"{at}/thumbs/own"))
        took.append(time.perf_counter() - began)
    median, late = _median_and_late(took)
    return Row(
        f"all requests of a page for the wall of {LAYERS} × {HEADS} heads × {TOKENS} tokens",
        "≤ 600 kB, ≤ 150 ms",
        "≤ 80 ms",
        f"{size / 1000:.0f} kB, median {in_words(median)}, 95 % within {in_words(late)}",
        size <= 600_000 and late <= 0.15 and not client.errors,
    )


def _median_and_late(seconds: list[float]) -> tuple[float, float]:
    """The median, and within what 95 % were."""
    return statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
