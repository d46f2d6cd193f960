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

from regard.view.export.paper import render_for_paper
from regard.view.export.standalone import page_at
from regard.view.figures.arcs import arcs
from regard.view.figures.colours import Scale
from regard.view.figures.planes import plane
from regard.view.figures.plots import matrix, ribbons, wall
from regard.view.figures.tapes import tape
from regard.view.server.errors import TooLargeError
from regard.view.traces.files import save
from regard.view.traces.trace import Map, Trace, fields_to_json
from regard.view.traces.words import by_words

if TYPE_CHECKING:
    import matplotlib.figure

ExportKind = Literal["png", "svg", "pdf", "html", "npz", "json", "safetensors"]
# The views of the page; `matrix` is what Python calls `heads`.
View = Literal["matrix", "heads", "wall", "ribbons", "arcs", "tape", "plane", "image"]
KINDS: tuple[str, ...] = get_args(ExportKind)
VIEWS: tuple[str, ...] = get_args(View)
# Beyond this a file of JSON is no way to hand over numbers.
MAX_JSON_NUMBERS = 2**21
# Weights that a file of each kind holds at most: what making it takes stays below some 250 MB.
MAX_WEIGHTS = {"png": 2**21, "svg": 2**20, "pdf": 2**19, "html": 2**24}
MAX_WEIGHTS |= {"npz": 2**26, "safetensors": 2**26}
# Heads of a wall, weights in each of them, and weights that are lines and not pixels.
MAX_WALL_HEADS = 1024
MAX_POOLED_WEIGHTS = 2**24
MAX_DRAWN_LINES = 2**18
_WAY_OUT = "Take another kind of file, or a part of the trace in Python."
_PICTURE_KINDS = ("png", "svg", "pdf")
_MEDIA_TYPES = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}


@dataclass(frozen=True)
class ExportOptions:
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

    def address_params(self) -> dict[str, str]:
        """The same as the page's address says it."""
        given = {"view": "heads" if self.view == "matrix" else self.view, "map": self.map}
        given |= {name: getattr(self, name) for name in ("layer", "head", "step", "scale")}
        return {name: str(value) for name, value in given.items() if value not in (None, 0)}


def check_export_size(trace: Trace, kind: ExportKind, options: ExportOptions) -> None:
    """Refuse what would take too much memory or time to make, before anything is made.

    Raises:
        TooLargeError: in one line that says what can be had instead.
        ValueError: the trace has no such map.
    """
    count, most, what = _count_and_limit(trace, kind, options)
    if count > most:
        raise TooLargeError(
            f"{kind}: {count} {what}, but such a file takes {most} at most. {_WAY_OUT}"
        )


def _count_and_limit(
    trace: Trace, kind: ExportKind, options: ExportOptions
) -> tuple[int, int, str]:
    """The count of what would be made, its limit, and the noun of what is counted."""
    everything = sum(m.layers * m.heads * math.prod(m.sizes or ()) for m in trace.maps)
    if kind == "json":  # which counts by itself
        return 0, MAX_JSON_NUMBERS, "numbers"
    if kind not in _PICTURE_KINDS:
        return everything, MAX_WEIGHTS[kind], "weights"
    if options.words and everything > MAX_WEIGHTS["html"]:
        return everything, MAX_WEIGHTS["html"], "weights to join by words"
    if options.view in ("tape", "plane"):
        numbers = sum(math.prod(m.sizes or ()) for m in trace.maps)
        numbers += sum(series.values.numel() for series in trace.series)
        return numbers, MAX_DRAWN_LINES, "numbers"
    if options.view == "wall":
        of = trace.multi_head_map() if options.map is None else trace.map(options.map)
        if math.prod(of.sizes or ()) > MAX_POOLED_WEIGHTS:
            return math.prod(of.sizes or ()), MAX_POOLED_WEIGHTS, "weights in a head"
        return of.layers * of.heads, MAX_WALL_HEADS, "heads"
    cells = math.prod(trace.map(options.map).sizes or ())
    if options.view in ("arcs", "ribbons"):
        return cells, MAX_DRAWN_LINES, "weights"
    return cells, MAX_WEIGHTS[kind], "weights"


def export_trace(
    trace: Trace,
    kind: ExportKind,
    options: ExportOptions,
    provenance: Mapping[str, Any] | None = None,
) -> tuple[bytes, str, str]:
    """The bytes of a download, their media type and the name of its file.

    Args:
        provenance: how the trace came about: `asked`, `python` and `seconds`.

    Raises:
        ValueError: this trace has no such picture, in one line.
    """
    trace = by_words(trace) if options.words else trace
    if kind == "html":
        data = page_at(trace, options.address_params(), provenance).encode()
    else:
        data = _WRITERS[kind](trace, kind, options)
    return data, _MEDIA_TYPES.get(kind, "application/octet-stream"), f"{_file_stem(trace)}.{kind}"


def _file_stem(trace: Trace) -> str:
    """A file's name out of the model's, of letters that every file system takes."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", trace.header.model).strip("-")[:60] or "trace"


def _figure_bytes(
    trace: Trace, kind: Literal["png", "svg", "pdf"], options: ExportOptions
) -> bytes:
    figure = _FIGURES[options.view](trace, options)
    return render_for_paper(figure, kind, width=options.width, header=trace.header)


def _matrix_figure(trace: Trace, options: ExportOptions) -> "matplotlib.figure.Figure":
    where = {"map": options.map, "layer": options.layer, "head": options.head}
    return matrix(trace, scale=options.scale, **where)  # type: ignore[arg-type]


def _ribbons_figure(trace: Trace, options: ExportOptions) -> "matplotlib.figure.Figure":
    return ribbons(trace, map=options.map, layer=options.layer, head=options.head)


def _arcs_figure(trace: Trace, options: ExportOptions) -> "matplotlib.figure.Figure":
    where = {"map": options.map, "layer": options.layer, "head": options.head}
    return arcs(trace, query=options.query, **where)  # type: ignore[arg-type]


def _wall_figure(trace: Trace, options: ExportOptions) -> "matplotlib.figure.Figure":
    return wall(trace, map=options.map, scale=options.scale)


def _tape_figure(trace: Trace, options: ExportOptions) -> "matplotlib.figure.Figure":
    return tape(trace, step=options.step, head=options.head)


def _plane_figure(trace: Trace, options: ExportOptions) -> "matplotlib.figure.Figure":
    return plane(trace, step=options.step)


def _npz_bytes(trace: Trace, kind: str, options: ExportOptions) -> bytes:
    """Every map and every series by its id, and where they come from; nothing is pickled."""
    arrays = {f"maps.{map.id}": map.all_weights().float().cpu().numpy() for map in trace.maps}
    arrays |= {f"series.{one.id}": one.values.float().cpu().numpy() for one in trace.series}
    arrays["header"] = numpy.array(json.dumps(fields_to_json(trace.header), ensure_ascii=True))
    with TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "arrays.npz"
        numpy.savez_compressed(path, **arrays)  # type: ignore[arg-type]
        return path.read_bytes()


def _json_bytes(trace: Trace, kind: str, options: ExportOptions) -> bytes:
    """What is seen, in numbers: one head, all heads of a wall, all of a machine or a pointer."""
    whole = options.view in ("tape", "plane")
    maps = list(trace.maps) if whole else [trace.map(options.map)]
    one = None if whole or options.view == "wall" else (options.layer, options.head)
    counts = [math.prod(m.sizes or ()) * (1 if one else m.layers * m.heads) for m in maps]
    counts += [series.values.numel() for series in trace.series if whole]
    if sum(counts) > MAX_JSON_NUMBERS:
        raise ValueError(
            f"json: {sum(counts)} numbers, but a file has {MAX_JSON_NUMBERS}. Take npz."
        )
    told: dict[str, Any] = {"header": fields_to_json(trace.header), "outputs": trace.outputs}
    if one:
        told |= _map_to_json(trace, maps[0]) | {"layer": one[0], "head": one[1]}
        told["weights"] = maps[0].weights(*one).float().tolist()
    else:
        told["maps"] = [
            _map_to_json(trace, m) | {"weights": m.all_weights().float().tolist()} for m in maps
        ]
        told["series"] = {s.id: s.values.float().tolist() for s in trace.series if whole}
    return json.dumps(told, allow_nan=False, ensure_ascii=False).encode()


def _map_to_json(trace: Trace, map: Map) -> dict[str, Any]:
    labels = {"queries": trace.axis(map.query).labels, "keys": trace.axis(map.key).labels}
    return {"map": map.id} | labels


def _safetensors_bytes(trace: Trace, kind: str, options: ExportOptions) -> bytes:
    with TemporaryDirectory(prefix="regard-") as folder:
        return save(trace, Path(folder) / "one.safetensors").read_bytes()


_FIGURES = {
    "matrix": _matrix_figure,
    "heads": _matrix_figure,
    "image": _matrix_figure,
    "ribbons": _ribbons_figure,
    "arcs": _arcs_figure,
    "wall": _wall_figure,
    "tape": _tape_figure,
    "plane": _plane_figure,
}
_WRITERS: dict[str, Callable[..., bytes]] = {
    "png": _figure_bytes,
    "svg": _figure_bytes,
    "pdf": _figure_bytes,
    "npz": _npz_bytes,
    "json": _json_bytes,
    "safetensors": _safetensors_bytes,
}
