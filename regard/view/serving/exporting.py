"""A trace as something to take away: a picture, a page, its numbers."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy

from regard.view.arcs import arcs
from regard.view.colours import Scale
from regard.view.files import save
from regard.view.planes import plane
from regard.view.plots import matrix, ribbons, wall
from regard.view.printing import printed
from regard.view.serving.refusing import TooLargeError
from regard.view.standalone import page_at
from regard.view.tapes import tape
from regard.view.trace import Map, Trace, described
from regard.view.words import by_words

if TYPE_CHECKING:
    import matplotlib.figure

Kind = Literal["png", "svg", "pdf", "html", "npz", "json", "safetensors"]
# The views of the page; `matrix` is what Python calls `heads`.
View = Literal["matrix", "heads", "wall", "ribbons", "arcs", "tape", "plane", "image"]
KINDS: tuple[str, ...] = get_args(Kind)
VIEWS: tuple[str, ...] = get_args(View)
# Beyond this a file of JSON is no way to hand over numbers.
MOST_NUMBERS = 2**21
# Weights that a file of each kind holds at most: what making it takes stays below some 250 MB.
MAX_CELLS = {"png": 2**21, "svg": 2**20, "pdf": 2**19, "html": 2**24}
MAX_CELLS |= {"npz": 2**26, "safetensors": 2**26}
# Heads of a wall, weights in each of them, and weights that are lines and not pixels.
MAX_WALL_HEADS = 1024
MAX_POOLED_WEIGHTS = 2**24
MAX_DRAWN_LINES = 2**18
_WAY_OUT = "Take another kind of file, or a part of the trace in Python."
_PICTURE_KINDS = ("png", "svg", "pdf")
_TYPES = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}


@dataclass(frozen=True)
class Shown:
    """What of a trace is on the screen, and how wide it is to be printed, in millimetres."""

    view: View = "matrix"
    map: str | None = None
    layer: int = 0
    head: int = 0
    step: int | None = None
    query: int | None = None
    scale: Scale = "linear"
    words: bool = False
    width: int = 178

    def place(self) -> dict[str, str]:
        """The same as the page's address says it."""
        given = {"view": "heads" if self.view == "matrix" else self.view, "map": self.map}
        given |= {name: getattr(self, name) for name in ("layer", "head", "step", "scale")}
        return {name: str(value) for name, value in given.items() if value not in (None, 0)}


def refuse_large(trace: Trace, kind: Kind, shown: Shown) -> None:
    """Refuse what would take too much memory or time to make, before anything is made.

    Raises:
        TooLargeError: in one line that says what can be had instead.
        ValueError: the trace has no such map.
    """
    count, most, what = _count_and_limit(trace, kind, shown)
    if count > most:
        raise TooLargeError(
            f"{kind}: {count} {what}, but such a file takes {most} at most. {_WAY_OUT}"
        )


def _count_and_limit(trace: Trace, kind: Kind, shown: Shown) -> tuple[int, int, str]:
    """The count of what would be made, its limit, and the noun of what is counted."""
    everything = sum(m.layers * m.heads * math.prod(m.sizes or ()) for m in trace.maps)
    if kind == "json":  # which counts by itself
        return 0, MOST_NUMBERS, "numbers"
    if kind not in _PICTURE_KINDS:
        return everything, MAX_CELLS[kind], "weights"
    if shown.words and everything > MAX_CELLS["html"]:
        return everything, MAX_CELLS["html"], "weights to join by words"
    if shown.view in ("tape", "plane"):
        numbers = sum(math.prod(m.sizes or ()) for m in trace.maps)
        numbers += sum(series.values.numel() for series in trace.series)
        return numbers, MAX_DRAWN_LINES, "numbers"
    if shown.view == "wall":
        of = trace.many_headed() if shown.map is None else trace.map(shown.map)
        if math.prod(of.sizes or ()) > MAX_POOLED_WEIGHTS:
            return math.prod(of.sizes or ()), MAX_POOLED_WEIGHTS, "weights in a head"
        return of.layers * of.heads, MAX_WALL_HEADS, "heads"
    cells = math.prod(trace.map(shown.map).sizes or ())
    if shown.view in ("arcs", "ribbons"):
        return cells, MAX_DRAWN_LINES, "weights"
    return cells, MAX_CELLS[kind], "weights"


def exported(
    trace: Trace, kind: Kind, shown: Shown, told: Mapping[str, Any] | None = None
) -> tuple[bytes, str, str]:
    """The bytes of a download, their media type and the name of its file.

    Args:
        told: how the trace came about: `asked`, `python` and `seconds`.

    Raises:
        ValueError: this trace has no such picture, in one line.
    """
    trace = by_words(trace) if shown.words else trace
    if kind == "html":
        data = page_at(trace, shown.place(), told).encode()
    else:
        data = _WRITTEN[kind](trace, kind, shown)
    return data, _TYPES.get(kind, "application/octet-stream"), f"{_named(trace)}.{kind}"


def _named(trace: Trace) -> str:
    """A file's name out of the model's, of letters that every file system takes."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", trace.header.model).strip("-")[:60] or "trace"


def _picture(trace: Trace, kind: Literal["png", "svg", "pdf"], shown: Shown) -> bytes:
    figure = _FIGURES[shown.view](trace, shown)
    return printed(figure, kind, width=shown.width, header=trace.header)


def _matrix(trace: Trace, shown: Shown) -> "matplotlib.figure.Figure":
    where = {"map": shown.map, "layer": shown.layer, "head": shown.head}
    return matrix(trace, scale=shown.scale, **where)  # type: ignore[arg-type]


def _ribbons(trace: Trace, shown: Shown) -> "matplotlib.figure.Figure":
    return ribbons(trace, map=shown.map, layer=shown.layer, head=shown.head)


def _arcs(trace: Trace, shown: Shown) -> "matplotlib.figure.Figure":
    where = {"map": shown.map, "layer": shown.layer, "head": shown.head}
    return arcs(trace, query=shown.query, **where)  # type: ignore[arg-type]


def _wall(trace: Trace, shown: Shown) -> "matplotlib.figure.Figure":
    return wall(trace, map=shown.map, scale=shown.scale)


def _tape(trace: Trace, shown: Shown) -> "matplotlib.figure.Figure":
    return tape(trace, step=shown.step, head=shown.head)


def _plane(trace: Trace, shown: Shown) -> "matplotlib.figure.Figure":
    return plane(trace, step=shown.step)


def _arrays(trace: Trace, kind: str, shown: Shown) -> bytes:
    """Every map and every series by its id, and where they come from; nothing is pickled."""
    arrays = {f"maps.{map.id}": map.whole().float().cpu().numpy() for map in trace.maps}
    arrays |= {f"series.{one.id}": one.values.float().cpu().numpy() for one in trace.series}
    arrays["header"] = numpy.array(json.dumps(described(trace.header), ensure_ascii=True))
    with TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "arrays.npz"
        numpy.savez_compressed(path, **arrays)  # type: ignore[arg-type]
        return path.read_bytes()


def _numbers(trace: Trace, kind: str, shown: Shown) -> bytes:
    """What is seen, in numbers: one head, all heads of a wall, all of a machine or a pointer."""
    whole = shown.view in ("tape", "plane")
    maps = list(trace.maps) if whole else [trace.map(shown.map)]
    one = None if whole or shown.view == "wall" else (shown.layer, shown.head)
    counts = [math.prod(m.sizes or ()) * (1 if one else m.layers * m.heads) for m in maps]
    counts += [series.values.numel() for series in trace.series if whole]
    if sum(counts) > MOST_NUMBERS:
        raise ValueError(f"json: {sum(counts)} numbers, but a file has {MOST_NUMBERS}. Take npz.")
    told: dict[str, Any] = {"header": described(trace.header), "outputs": trace.outputs}
    if one:
        told |= _told(trace, maps[0]) | {"layer": one[0], "head": one[1]}
        told["weights"] = maps[0].weights(*one).float().tolist()
    else:
        told["maps"] = [_told(trace, m) | {"weights": m.whole().float().tolist()} for m in maps]
        told["series"] = {s.id: s.values.float().tolist() for s in trace.series if whole}
    return json.dumps(told, allow_nan=False, ensure_ascii=False).encode()


def _told(trace: Trace, map: Map) -> dict[str, Any]:
    labels = {"queries": trace.axis(map.query).labels, "keys": trace.axis(map.key).labels}
    return {"map": map.id} | labels


def _trace(trace: Trace, kind: str, shown: Shown) -> bytes:
    with TemporaryDirectory(prefix="regard-") as folder:
        return save(trace, Path(folder) / "one.safetensors").read_bytes()


_FIGURES = {
    "matrix": _matrix,
    "heads": _matrix,
    "image": _matrix,
    "ribbons": _ribbons,
    "arcs": _arcs,
    "wall": _wall,
    "tape": _tape,
    "plane": _plane,
}
_WRITTEN: dict[str, Callable[..., bytes]] = {
    "png": _picture,
    "svg": _picture,
    "pdf": _picture,
    "npz": _arrays,
    "json": _numbers,
    "safetensors": _trace,
}
