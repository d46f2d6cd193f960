"""The server under attack: silent connections, hostile traces and model cards.

All of it on 127.0.0.1, in a folder of its own, bounded in number and time; it stops by itself.
"""

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from benchmarks.measure import Row, in_words
from tests.browser import entered
from tests.view.server.hostile import Client, half_open, hostile_cards, hostile_traces

ROOT = Path(__file__).parent.parent
CONNECTIONS, TRACES, CARDS, BUDGET = 2000, 50, 5000, 512
# What is asked for of each trace that is kept.
EXPORTS = ("png?view=wall", "png", "pdf", "svg?view=arcs", "html", "npz", "json?view=wall")
# No more time than this for all of it, in seconds.
MOST_SECONDS = 900.0


def rows() -> Iterator[Row]:
    """The claim about hostile clients."""
    yield measured(CONNECTIONS, TRACES, CARDS)


def measured(connections: int, traces: int, cards: int) -> Row:
    """All attacks at once, beside an ordinary client."""
    with TemporaryDirectory(prefix="regard-hostile-") as folder:
        hostile_cards(Path(folder) / "runs", cards, seed=0)
        with _served(Path(folder)) as (process, link):
            origin, secret = entered(link)
            port = urlsplit(origin).port or 0
            client, stop = Client(port, secret), threading.Event()
            flood = threading.Thread(target=_flood, args=(port, connections, stop), daemon=True)
            counts: dict[str, int] = {}
            end = time.monotonic() + MOST_SECONDS
            with client.asking():
                flood.start()
                for number, data in enumerate(hostile_traces(traces, seed=0)):
                    if time.monotonic() < end:
                        _attack(port, secret, data, counts)
                    print(f"  trace {number + 1} of {traces}", file=sys.stderr, flush=True)
                _run_all(port, secret, counts, end)
                stop.set()
                flood.join(60)
            return _row((connections, traces, cards), client, counts, _peak(process.pid))


@contextmanager
def _served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`regard serve` in a folder with hostile runs, and a link to it."""
    command = [sys.executable, "-m", "regard", "serve", "--no-browser", "--budget", str(BUDGET)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait()


def _flood(port: int, count: int, stop: threading.Event) -> None:
    """Hold so many connections half open; the oldest is opened anew, a hundred a second."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 256)), hard))
    lines = [_opened(port, number) for number in range(count)]
    number = 0
    while not stop.wait(0.01):
        lines[number % count].close()
        lines[number % count] = _opened(port, number)
        number += 1
    for line in lines:
        line.close()


def _opened(port: int, number: int) -> socket.socket:
    """A half-open connection; one that was closed at once counts too."""
    try:
        return half_open(port, number)
    except OSError:
        return socket.socket()


def _asked(port: int, secret: str, method: str, path: str, body: bytes | None = None) -> bytes:
    """The status, as three digits, and the body of an answer."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        line.request(method, path, body, {"Authorization": f"Bearer {secret}"})
        answer = line.getresponse()
        return str(answer.status).encode() + answer.read()
    except (OSError, http.client.HTTPException) as error:
        return b"ERR" + repr(error).encode()
    finally:
        line.close()


def _attack(port: int, secret: str, data: bytes, counts: dict[str, int]) -> None:
    """Send a trace, and ask for all that can be had of it."""
    answer = _counted(counts, _asked(port, secret, "POST", "/api/traces", data))
    if not answer.startswith(b"201"):
        return
    at = f"/api/traces/{json.loads(answer[3:])['id']}"
    manifest = json.loads(_counted(counts, _asked(port, secret, "GET", at))[3:] or b"{}")
    for map in manifest.get("maps", [])[:1]:
        for part in ("thumbs/{}", "cells/{}/0/0", "rows/{}/0/0/0"):
            path = f"{at}/{part.format(map['id'])}"
            _counted(counts, _asked(port, secret, "GET", path))
    for kind in EXPORTS:
        _counted(counts, _asked(port, secret, "GET", f"{at}/export/{kind}"))


def _run_all(port: int, secret: str, counts: dict[str, int], end: float) -> None:
    """Run some of the models of the hostile cards, as a page would."""
    offers = json.loads(_asked(port, secret, "GET", "/api/models")[3:])
    for offer in [one for one in offers if one["run"]][:20]:
        body = {"model": offer["name"], "input": offer["input"]["example"]}
        answer = _asked(port, secret, "POST", "/api/runs", json.dumps(body).encode())
        state = {"state": "waiting", **json.loads(answer[3:])}
        while state["state"] in ("waiting", "running") and time.monotonic() < end:
            if "id" not in state:
                break
            time.sleep(0.05)
            state = json.loads(_asked(port, secret, "GET", f"/api/runs/{state['id']}")[3:])
        name = f"runs {state['state']}"
        counts[name] = counts.get(name, 0) + 1


def _counted(counts: dict[str, int], answer: bytes) -> bytes:
    status = answer[:3].decode()
    if status in ("ERR", "500"):
        print(f"  {answer[:300]!r}", file=sys.stderr, flush=True)
    counts[status] = counts.get(status, 0) + 1
    return answer


def _peak(process: int) -> float:
    """The MB that a process held at its most."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def _row(sizes: tuple[int, int, int], client: Client, counts: dict[str, int], peak: float) -> Row:
    times = sorted(client.seconds)
    late = times[int(0.95 * len(times))]
    for error in client.errors[:5]:
        print(f"  {error}", file=sys.stderr, flush=True)
    told = ", ".join(f"{count} × {status}" for status, count in sorted(counts.items()))
    measured = (
        f"{len(client.errors)} of {len(times)} requests of an ordinary client failed; median "
        f"{in_words(times[len(times) // 2])}, 95 % within {in_words(late)}, longest "
        f"{in_words(times[-1])}; other responses: {told}; peak {peak:.0f} MB"
    )
    broken = counts.get("ERR", 0) + counts.get("500", 0)
    met = not client.errors and not broken and times[-1] <= 5 and peak <= BUDGET + 500
    return Row(
        f"{sizes[0]:,} half-open connections, {sizes[1]} hostile traces, {sizes[2]:,} hostile "
        f"model cards at once, beside an ordinary client; budget {BUDGET} MB",
        "all answered, none over 5 s; at most 500 MB beyond the budget",
        "",
        measured,
        met,
    )
