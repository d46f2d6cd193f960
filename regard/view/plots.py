"""Pictures of a trace for papers and notebooks: functions from a `Trace` to a matplotlib figure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.check import Number
from regard.view.axes import Axis
from regard.view.figures import blank, drawing, measured
from regard.view.labels import shortened, visible
from regard.view.trace import Map, Trace
from regard.view.words import by_words

if TYPE_CHECKING:
    import matplotlib.figure

Scale = Literal["linear", "sqrt", "log"]

# Inches.
_MARGIN, _GAP, _BAR = 0.12, 0.06, 0.11
_LARGEST_CELL, _SMALLEST_CELL, _LARGEST_SIDE = 0.36, 0.115, 16.0
# Points.
_LARGEST_FONT, _SMALLEST_FONT = 10.0, 6.0
_INK, _FAINT, _BLUE = "#222222", "#666666", "#1d4f91"
_TILE = 64
# The font has no pictures of control characters; here they are spelled as in Python.
_SPELLED = {0x2400 + code: repr(chr(code))[1:-1] for code in range(32)} | {0x2421: r"\x7f"}


@dataclass(frozen=True)
class _Tile:
    """One head of a wall, and the words around all of them: inches, and points."""

    wide: Number
    high: Number
    cell: Number
    size: Number
    left: Number = 0.0
    above: Number = 0.0
    queries: Sequence[str] = ()
    keys: Sequence[str] = ()


def matrix(
    trace: Trace,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    scale: Scale = "linear",
    words: bool = False,
) -> "matplotlib.figure.Figure":
    """The weights of one head: keys along the top, queries down the left.

    Args:
        map: the map to draw; the first one if none is named.
        scale: how a weight becomes a colour; `sqrt` and `log` show what is small.
        words: whether the tokens of a word are drawn as one.
    """
    trace = by_words(trace) if words else trace
    chosen = trace.map(map)
    w = chosen.weights(layer, head).float().cpu()
    with drawing():
        return _matrix(trace, chosen, w, _title(trace, chosen, layer, head), scale)


def wall(
    trace: Trace, *, map: str | None = None, scale: Scale = "sqrt"
) -> "matplotlib.figure.Figure":
    """Every head of a map in small, layers down and heads across, all in one scale of colour.

    Words stand at the edges where there is room for them. A head of more than 64 queries or keys
    is shown by the greatest weight of each patch.

    Args:
        map: the map to draw; the first one of many heads if none is named.
    """
    chosen = trace.many_headed() if map is None else trace.map(map)
    layers, heads = range(chosen.layers), range(chosen.heads)
    tiles = [[_pooled(chosen.weights(i, j)) for j in heads] for i in layers]
    with drawing():
        return _wall(trace, chosen, tiles, scale)


def ribbons(
    trace: Trace,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    least: Number = 0.05,
    words: bool = False,
) -> "matplotlib.figure.Figure":
    """Keys on the left, queries on the right; the more a key is read, the thicker the ribbon.

    Args:
        least: weights below it are not drawn.
    """
    if not 0 < least <= 1:
        raise ValueError(f"ribbons: expected least above 0 and up to 1, got {least!r}")
    trace = by_words(trace) if words else trace
    chosen = trace.map(map)
    w = chosen.weights(layer, head).float().cpu()
    with drawing():
        return _ribbons(trace, chosen, w, _title(trace, chosen, layer, head), float(least))


def _matrix(
    trace: Trace, map: Map, w: Tensor, title: tuple[str, str], scale: Scale
) -> "matplotlib.figure.Figure":
    Q, K = w.shape
    cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, 9 / max(Q, K)), _LARGEST_SIDE / max(Q, K))
    size = _font(cell)
    queries, keys = (_shown(trace.axis(id)) for id in (map.query, map.key))
    left, across = max(measured(queries, size)), measured(keys, size)
    line = 1.3 * size / 72
    angle = _angle(max(across), cell, line)
    above = max(across) * math.sin(math.radians(angle)) + line * math.cos(math.radians(angle))
    # a label that leans to the right may stand out over the last column
    over = max(0.0, max(across) * math.cos(math.radians(angle)) - cell / 2) if angle == 45 else 0.0
    x = _MARGIN + 0.22 + left + _GAP
    y = _MARGIN + 0.26 + 0.20 + above + _GAP
    wide, high = K * cell, Q * cell
    asks = f"queries · {map.query}"
    # the name of a short axis stands out at both ends
    below = max(0.0, (measured([asks], 9)[0] - high) / 2)
    width = x + wide + max(over, 0.18 + _BAR + 0.62) + _MARGIN
    width = max(width, _room(title))
    figure = blank(width, y + high + below + 1.5 * _MARGIN)
    axes = _placed(figure, x, y, wide, high)
    image = axes.imshow(
        w.numpy(),
        cmap="cividis",
        norm=_norm(w, scale),
        aspect="auto",
        # one pixel a cell, enlarged by the viewer; below a pixel or two, cells must be blended
        interpolation="none" if cell > 0.02 else None,
    )
    _name_places(axes, keys, queries, cell, size, line, angle)
    _rule_cells(axes, Q, K, cell)
    axes.set_xlabel(f"keys · {map.key}", size=9, color=_FAINT)
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_label_coords(0.5, 1 + (above + _GAP + 0.06) / high)
    axes.set_ylabel(asks, size=9, color=_FAINT)
    axes.yaxis.set_label_coords(-(left + _GAP + 0.08) / wide, 0.5)
    bar = _placed(figure, x + wide + 0.18, y, _BAR, high)
    _colour_bar(figure, image, bar, high)
    _entitle(figure, title)
    return figure


def _wall(
    trace: Trace, map: Map, tiles: list[list[Tensor]], scale: Scale
) -> "matplotlib.figure.Figure":
    tile = _tile(trace, map)
    wide, high, gap = tile.wide, tile.high, 0.08
    x, y = _MARGIN + 0.65 + tile.left, _MARGIN + 0.30 + 0.25 + tile.above
    right, below = x + map.heads * (wide + gap), y + map.layers * (high + gap)
    title, what = _title(trace, map), f"each: queries · {map.query} down, keys · {map.key} across"
    width = max(right + 0.8, _room(title))
    width = max(width, x + measured([what], 8)[0] + _MARGIN)
    figure = blank(width, below + 0.2 + _MARGIN)
    norm = _norm(torch.stack([each.max() for row in tiles for each in row]), scale)
    for i, row in enumerate(tiles):
        for j, weights in enumerate(row):
            axes = _placed(figure, x + j * (wide + gap), y + i * (high + gap), wide, high)
            image = axes.imshow(
                weights.numpy(), cmap="cividis", norm=norm, aspect="auto", interpolation="none"
            )
            axes.spines[:].set(color=_FAINT, linewidth=0.4)
            keys, queries = tile.keys if i == 0 else (), tile.queries if j == 0 else ()
            _name_places(axes, keys, queries, tile.cell, tile.size, 0, 90)
            if i == 0:
                name = f"head {j}" if wide > 0.5 else f"{j}"
                axes.set_title(name, size=8, color=_INK, pad=4 + 72 * tile.above)
            if j == 0:
                axes.set_ylabel(f"layer {i}", size=8, color=_INK, rotation=0, ha="right")
                axes.yaxis.set_label_coords(-(0.08 + tile.left) / wide, 0.44)
    tall = min(below - gap - y, 2.5)
    _colour_bar(figure, image, _placed(figure, right + 0.1, y, _BAR, tall), tall)
    _write(figure, x, below + 0.12, what, size=8, color=_FAINT, va="center")
    _entitle(figure, title)
    return figure


def _tile(trace: Trace, map: Map) -> _Tile:
    """How large a head of a wall is, and the words at its edges where they can be read."""
    Q, K = map.sizes or (1, 1)
    cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, 1.1 / max(Q, K)))
    size = _font(cell)
    if cell * max(map.heads * K, map.layers * Q) <= _LARGEST_SIDE:
        queries, keys = (_shown(trace.axis(id)) for id in (map.query, map.key))
        left, above = (max(measured(words, size)) + _GAP for words in (queries, keys))
        return _Tile(K * cell, Q * cell, cell, size, left, above, queries, keys)
    side = min(1.1, _LARGEST_SIDE / max(map.layers, map.heads))
    # a tile keeps its shape as long as it can be seen
    wide, high = side * min(1, max(0.3, K / Q)), side * min(1, max(0.3, Q / K))
    return _Tile(wide, high, cell, size)


def _ribbons(
    trace: Trace, map: Map, w: Tensor, title: tuple[str, str], least: Number
) -> "matplotlib.figure.Figure":
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    n = max(w.shape)
    pitch = min(0.3, max(0.13, 9 / n), 40 / n)
    size = min(_LARGEST_FONT, max(_SMALLEST_FONT, 0.6 * pitch * 72))
    keys, queries = (_shown(trace.axis(id)) for id in (map.key, map.query))
    left, right = max(measured(keys, size)), max(measured(queries, size))
    high, wide = n * pitch, min(3.2, max(1.4, 0.35 * n * pitch))
    x, y = _MARGIN + max(left, 0.8) + _GAP, _MARGIN + 0.30 + 0.28
    beside = x + _GAP + max(right, 0.8) + _MARGIN
    width = max(beside + wide, _room(title))
    # where the title is wider, there is room to see ribbons apart
    wide = max(wide, min(width - beside, high))
    figure = blank(width, y + high + 0.3 + _MARGIN)
    axes = _placed(figure, x, y, wide, high)
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(1, 0))
    at_key, at_query = ([(i + 0.5) / m for i in range(m)] for m in (len(keys), len(queries)))
    for weight, q, k in sorted((float(w[q, k]), q, k) for q, k in (w >= least).nonzero().tolist()):
        points = [(0, at_key[k]), (0.45, at_key[k]), (0.55, at_query[q]), (1, at_query[q])]
        path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        thick, dark = 0.55 * 72 * pitch * weight, min(1, 0.12 + 0.75 * weight)
        ribbon = PathPatch(path, fc="none", ec=_BLUE, lw=thick, alpha=dark, capstyle="butt")
        axes.add_patch(ribbon)
    _list_words(axes, keys, at_key, -_GAP / wide, size, "right")
    _list_words(axes, queries, at_query, 1 + _GAP / wide, size, "left")
    _write(figure, x - _GAP, y - 0.1, f"keys · {map.key}", size=8, color=_FAINT, ha="right")
    _write(figure, x + wide + _GAP, y - 0.1, f"queries · {map.query}", size=8, color=_FAINT)
    note = f"weights below {least:g} are not drawn"
    _write(figure, x + wide / 2, y + high + 0.18, note, size=7, color=_FAINT, ha="center")
    _entitle(figure, title)
    return figure


def _pooled(w: Tensor) -> Tensor:
    """The greatest weight of each patch, at most 64 × 64 of them."""
    Q, K = w.shape
    w = w.float().cpu()
    if max(Q, K) <= _TILE:
        return w
    return F.adaptive_max_pool2d(w[None], (min(Q, _TILE), min(K, _TILE)))[0]


def _title(
    trace: Trace, map: Map, layer: int | None = None, head: int | None = None
) -> tuple[str, str]:
    """What may be cut, the name of the trace, and what may not, the place in the model."""
    name = shortened(visible(trace.header.title or trace.header.model), 90) + " · "
    return name.removeprefix("∅ · "), map.at(layer, head)


def _room(title: tuple[str, str]) -> float:
    """How wide a figure must be for its title; a long name is cut before it makes it wider."""
    whole, place = measured(["".join(title), title[1]], 11)
    return 2 * _MARGIN + max(place, min(6, whole))


def _shown(axis: Axis) -> list[str]:
    return [shortened(visible(label).translate(_SPELLED), 20) for label in axis.labels]


def _font(cell: Number) -> float:
    """The size of words beside cells, in points."""
    return float(min(_LARGEST_FONT, max(_SMALLEST_FONT, 0.72 * cell * 72)))


def _angle(widest: Number, cell: Number, line: Number) -> int:
    """Lying if the labels fit side by side, leaning if lines of them do, else upright."""
    if widest < 0.9 * cell:
        return 0
    return 45 if line < cell * math.sin(math.radians(45)) else 90


def _norm(w: Tensor, scale: Scale) -> Any:
    from matplotlib.colors import LogNorm, Normalize, PowerNorm

    most = max(float(w.max()), 1e-6)
    if scale == "linear":
        return Normalize(0, most)
    if scale == "sqrt":
        return PowerNorm(0.5, 0, most)
    if scale == "log":
        # four decades; what is smaller, or nothing, has the darkest colour
        return LogNorm(most * 1e-4, most, clip=True)
    raise ValueError(f"plots: expected scale linear, sqrt or log, got {scale!r}")


def _placed(
    figure: "matplotlib.figure.Figure", x: Number, y: Number, width: Number, height: Number
) -> Any:
    """Axes at a place in inches, counted from the upper left corner."""
    W, H = figure.get_size_inches()
    return figure.add_axes((x / W, 1 - (y + height) / H, width / W, height / H))


def _write(
    figure: "matplotlib.figure.Figure", x: Number, y: Number, text: str, **style: Any
) -> None:
    """Text at a place in inches, counted from the upper left corner."""
    W, H = figure.get_size_inches()
    figure.text(x / W, 1 - y / H, text, **style)


def _entitle(figure: "matplotlib.figure.Figure", title: tuple[str, str]) -> None:
    name, place = title
    room = figure.get_size_inches()[0] - 2 * _MARGIN + 0.01
    while len(name) > 5 and measured([name + place], 11)[0] > room:
        name = name.removesuffix("… · ").removesuffix(" · ")[:-1] + "… · "
    _write(figure, _MARGIN, _MARGIN, name + place, size=11, color=_INK, va="top")


def _name_places(
    axes: Any,
    keys: Sequence[str],
    queries: Sequence[str],
    cell: Number,
    size: Number,
    line: Number,
    angle: int,
) -> None:
    step = max(1, math.ceil(0.8 * line / cell))  # where there is no room for all, every so many
    axes.set_xticks(range(0, len(keys), step), keys[::step], size=size, color=_INK)
    axes.set_yticks(range(0, len(queries), step), queries[::step], size=size, color=_INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=72 * _GAP * 0.7)
    for label in axes.get_xticklabels():
        leaning = {"ha": "left", "rotation_mode": "anchor"} if angle == 45 else {}
        label.set(rotation=angle, **leaning)


def _rule_cells(axes: Any, Q: int, K: int, cell: Number) -> None:
    axes.spines[:].set_visible(False)
    if cell >= 0.2:
        axes.set_xticks([k - 0.5 for k in range(1, K)], minor=True)
        axes.set_yticks([q - 0.5 for q in range(1, Q)], minor=True)
        axes.grid(which="minor", color="white", linewidth=0.5)
        axes.tick_params(which="minor", length=0)


def _colour_bar(figure: "matplotlib.figure.Figure", image: Any, axes: Any, high: Number) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    bar = figure.colorbar(image, cax=axes)
    if not isinstance(bar.norm, LogNorm):
        bar.locator = MaxNLocator(max(1, min(5, int(high / 0.3))))
    bar.minorlocator = NullLocator()
    bar.formatter = StrMethodFormatter("{x:.3g}")
    bar.update_ticks()
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=7, length=2, color=_FAINT, labelcolor=_FAINT)
    axes.set_ylabel("weight", size=8, color=_FAINT)


def _list_words(
    axes: Any, words: list[str], places: list[float], x: Number, size: Number, side: str
) -> None:
    for word, y in zip(words, places, strict=True):
        axes.text(x, y, word, size=size, color=_INK, ha=side, va="center_baseline")
