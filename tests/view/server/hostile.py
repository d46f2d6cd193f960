"""Who means a server harm, on 127.0.0.1 alone: silent connections, strange traces and cards."""

import http.client
import json
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

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


def hostile_cards(runs: Path, count: int, *, seed: int) -> None:
    """So many folders of runs, each with the card of a zoo model that was changed at random."""
    luck, zoo = random.Random(seed), Path(__file__).parents[3] / "regard" / "zoo"
    cards = [path.read_bytes() for path in sorted(zoo.glob("*/card.json"))]
    for number in range(count):
        folder = runs / f"{number:05d}"
        folder.mkdir(parents=True)
        data = CARDS[number % len(CARDS)](luck, luck.choice(cards))
        (folder / "card.json").write_bytes(data)


def _changed_bytes(luck: random.Random, card: bytes) -> bytes:
    data = bytearray(card)
    for _ in range(luck.randint(1, 8)):
        data[luck.randrange(len(data))] = luck.randrange(256)
    return bytes(data)


def _changed_value(luck: random.Random, card: bytes) -> bytes:
    """One value anywhere becomes another, or goes."""
    told = json.loads(card)
    at: Any = told
    while True:
        key = luck.choice(list(at) if isinstance(at, dict) else range(len(at)))
        inner = at[key]
        if not isinstance(inner, dict | list) or not inner or luck.random() < 0.3:
            break
        at = inner
    at[key] = luck.choice(STRANGE)
    return json.dumps(told).encode()


def _grown(luck: random.Random, card: bytes) -> bytes:
    """Large in length, in depth or in what it takes to read."""
    kind = luck.randrange(4)
    if kind == 0:
        return b'{"a": ' + b"[" * luck.randrange(1, 200_000)
    if kind == 1:
        return card[:-2] + b', "x": [' + b"[]," * luck.randrange(1, 300_000) + b"[]]}"
    if kind == 2:
        return card[:-2] + b', "x": "' + b"x" * luck.randrange(1, 2_000_000) + b'"}'
    return card[: luck.randrange(len(card))]


CARDS = (_changed_bytes, _changed_value, _changed_value, _grown)
STRANGE = (
    None,
    True,
    -1,
    10**400,
    1e308,
    2**63,
    "",
    "\ud800",
    "x" * 10_000,
    [],
    {},
    [[1]],
    0,
    "../x",
)


def hostile_traces(count: int, *, seed: int) -> Iterator[bytes]:
    """So many files of traces, in turns of each kind below."""
    luck = random.Random(seed)
    for number in range(count):
        yield TRACES[number % len(TRACES)](luck)


def trace_file(manifest: Any, tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """The bytes of a safetensors file with this manifest and these tensors: type, shape, data."""
    entries, start = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        end = start + len(data)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    head = json.dumps({"__metadata__": {"regard.trace": text}} | entries).encode()
    data = b"".join(data for _, _, data in tensors.values())
    return struct.pack("<Q", len(head)) + head + data


def _manifest(axes: list[Any], maps: list[Any], **more: Any) -> dict[str, Any]:
    words = dict.fromkeys(("model", "family", "title", "run_id", "dtype", "device"), "x")
    lists = {"notes": [], "edits": [], "series": []}
    rest = {"seed": None, "versions": {}, "schema": 1, "outputs": {}}
    return words | lists | rest | {"axes": axes, "maps": maps} | more


def _map(heads: int = 1, layers: int = 1, id: str = "m") -> dict[str, Any]:
    names = {"id": id, "query": "q", "key": "k", "causal": False, "names": []}
    return names | {"layers": layers, "heads": heads}


def _slots(queries: int, keys: int) -> list[Any]:
    return [{"kind": "slots", "id": i, "count": n} for i, n in (("q", queries), ("k", keys))]


def _one(queries: int, keys: int, heads: int = 1, **more: Any) -> bytes:
    """Legal: zeros in float16."""
    shape = [1, heads, queries, keys]
    data = bytes(2 * heads * queries * keys)
    manifest = _manifest(_slots(queries, keys), [_map(heads)], **more)
    return trace_file(manifest, {"maps.m": ("F16", shape, data)})


def _large(luck: random.Random) -> bytes:
    """Legal, near the bound of 256 MB: one head of very many cells."""
    return _one(11_400, 11_400)


def _tall(luck: random.Random) -> bytes:
    """Legal: as many queries as an axis may have."""
    return _one(2**15, luck.randint(1, 400))


def _many_heads(luck: random.Random) -> bytes:
    """Legal and small: as many heads as a trace may have."""
    return _one(1, 2, 2**14)


def _more_heads(luck: random.Random) -> bytes:
    return _one(1, 1, 2**14 + 1)


def _costly_outputs(luck: random.Random) -> bytes:
    """A few bytes each, which take many times as many once they are read."""
    value = luck.choice(["[],", "{},", '{"a":1},', "1,", "0.5,", '"",'])
    text = json.dumps(_manifest(_slots(1, 1), [_map()]))
    many = value * (luck.choice([10, 30]) * 2**20 // len(value))
    text = text.replace('"outputs": {}', f'"outputs": {{"x": [{many[:-1]}]}}')
    return trace_file(text, {"maps.m": ("F16", [1, 1, 1, 1], bytes(2))})


def _wide_text(luck: random.Random) -> bytes:
    """One long text, of characters of four bytes."""
    manifest = _manifest(_slots(1, 1), [_map()], title="\U0001f600" * 2_000_000)
    text = json.dumps(manifest, ensure_ascii=False)
    return trace_file(text, {"maps.m": ("F16", [1, 1, 1, 1], bytes(2))})


def _many_parts(luck: random.Random) -> bytes:
    """Very many tiny maps of different names."""
    count = luck.choice([4000, 40_000])
    maps = [_map(id=f"m{n}") for n in range(count)]
    tensors = {f"maps.m{n}": ("F16", [1, 1, 1, 1], bytes(2)) for n in range(count)}
    return trace_file(_manifest(_slots(1, 1), maps), tensors)


def _many_axes(luck: random.Random) -> bytes:
    axes = [{"kind": "slots", "id": f"a{n}", "count": 1} for n in range(200_000)]
    return trace_file(_manifest(axes, []), {})


def _strange_numbers(luck: random.Random) -> bytes:
    strange = luck.choice(["1" + "0" * 400, "1" * 5000, "NaN", "1e999", "-Infinity"])
    text = json.dumps(_manifest(_slots(1, 1), [_map()])).replace("{}", f'{{"x": {strange}}}')
    return trace_file(text, {"maps.m": ("F16", [1, 1, 1, 1], bytes(2))})


def _deep(luck: random.Random) -> bytes:
    depth = luck.choice([40, 100_000])
    text = json.dumps(_manifest(_slots(1, 1), [])).replace("{}", "[" * depth + "]" * depth, 1)
    return trace_file(text, {})


def _long_labels(luck: random.Random) -> bytes:
    """Legal: labels of which a picture would be metres wide."""
    labels = ["w" * luck.randint(1, 3000) for _ in range(200)]
    axes = [{"kind": "tokens", "id": i, "labels": labels} for i in ("q", "k")]
    axes = [axis | {"words": None, "special": [], "names": None} for axis in axes]
    tensors = {"maps.m": ("F16", [1, 1, 200, 200], bytes(80_000))}
    return trace_file(_manifest(axes, [_map()]), tensors)


def _damaged(luck: random.Random) -> bytes:
    data = bytearray(_one(20, 20, 4))
    for _ in range(luck.randint(1, 20)):
        data[luck.randrange(len(data))] = luck.randrange(256)
    return bytes(data[: luck.randint(1, len(data))] if luck.random() < 0.3 else data)


TRACES = (
    *(_large, _many_heads, _costly_outputs, _tall, _wide_text, _many_parts, _many_axes),
    *(_more_heads, _strange_numbers, _deep, _long_labels, _damaged),
)
