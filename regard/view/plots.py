"""Pictures of a trace for papers and notebooks: functions from a `Trace` to a matplotlib figure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional as F

from regard.check import Number
from regard.view.colours import Scale, colours, norm
from regard.view.figures import blank, drawing, measured
from regard.view.panels import (
    BAR,
    FAINT,
    GAP,
    INK,
    MARGIN,
    colour_bar,
    draw_curve,
    entitle,
    placed,
    room,
    shown,
    titled,
    write,
)
from regard.view.trace import Map, Trace
from regard.view.words import by_words

if TYPE_CHECKING:
    import matplotlib.figure

# Inches.
_LARGEST_CELL, _SMALLEST_CELL, _LARGEST_SIDE = 0.36, 0.115, 16.0
# Points.
_LARGEST_FONT, _SMALLEST_FONT = 10.0, 6.0
_TILE = 64


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
        return _matrix(trace, chosen, w, titled(trace, chosen.at(layer, head)), scale)


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
        return _ribbons(trace, chosen, w, titled(trace, chosen.at(layer, head)), float(least))


def _matrix(
    trace: Trace, map: Map, w: Tensor, title: tuple[str, str], scale: Scale
) -> "matplotlib.figure.Figure":
    Q, K = w.shape
    cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, 9 / max(Q, K)), _LARGEST_SIDE / max(Q, K))
    size = _font(cell)
    queries, keys = (shown(trace.axis(id)) for id in (map.query, map.key))
    left, across = max(measured(queries, size)), measured(keys, size)
    line = 1.3 * size / 72
    angle = _angle(max(across), cell, line)
    above = max(across) * math.sin(math.radians(angle)) + line * math.cos(math.radians(angle))
    # a label that leans to the right may stand out over the last column
    over = max(0.0, max(across) * math.cos(math.radians(angle)) - cell / 2) if angle == 45 else 0.0
    x = MARGIN + 0.22 + left + GAP
    y = MARGIN + 0.26 + 0.20 + above + GAP
    wide, high = K * cell, Q * cell
    asks = f"queries · {map.query}"
    # the name of a short axis stands out at both ends
    below = max(0.0, (measured([asks], 9)[0] - high) / 2)
    width = x + wide + max(over, 0.18 + BAR + 0.62) + MARGIN
    width = max(width, room(title))
    figure = blank(width, y + high + below + 1.5 * MARGIN)
    axes = placed(figure, x, y, wide, high)
    image = axes.imshow(
        w.numpy(),
        cmap=colours(),
        norm=norm(float(w.max()), scale),
        aspect="auto",
        # one pixel a cell, enlarged by the viewer; below a pixel or two, cells must be blended
        interpolation="none" if cell > 0.02 else None,
    )
    _name_places(axes, keys, queries, cell, size, line, angle)
    _rule_cells(axes, Q, K, cell)
    axes.set_xlabel(f"keys · {map.key}", size=9, color=FAINT)
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_label_coords(0.5, 1 + (above + GAP + 0.06) / high)
    axes.set_ylabel(asks, size=9, color=FAINT)
    axes.yaxis.set_label_coords(-(left + GAP + 0.08) / wide, 0.5)
    bar = placed(figure, x + wide + 0.18, y, BAR, high)
    colour_bar(figure, image, bar, high)
    entitle(figure, title)
    return figure


def _wall(
    trace: Trace, map: Map, tiles: list[list[Tensor]], scale: Scale
) -> "matplotlib.figure.Figure":
    tile = _tile(trace, map)
    wide, high, gap = tile.wide, tile.high, 0.08
    x, y = MARGIN + 0.65 + tile.left, MARGIN + 0.30 + 0.25 + tile.above
    right, below = x + map.heads * (wide + gap), y + map.layers * (high + gap)
    title = titled(trace, map.at())
    what = f"each: queries · {map.query} down, keys · {map.key} across"
    width = max(right + 0.8, room(title))
    width = max(width, x + measured([what], 8)[0] + MARGIN)
    figure = blank(width, below + 0.2 + MARGIN)
    shared = norm(max(float(each.max()) for row in tiles for each in row), scale)
    for i, row in enumerate(tiles):
        for j, weights in enumerate(row):
            axes = placed(figure, x + j * (wide + gap), y + i * (high + gap), wide, high)
            image = axes.imshow(
                weights.numpy(), cmap=colours(), norm=shared, aspect="auto", interpolation="none"
            )
            axes.spines[:].set(color=FAINT, linewidth=0.4)
            keys, queries = tile.keys if i == 0 else (), tile.queries if j == 0 else ()
            _name_places(axes, keys, queries, tile.cell, tile.size, 0, 90)
            if i == 0:
                name = f"head {j}" if wide > 0.5 else f"{j}"
                axes.set_title(name, size=8, color=INK, pad=4 + 72 * tile.above)
            if j == 0:
                axes.set_ylabel(f"layer {i}", size=8, color=INK, rotation=0, ha="right")
                axes.yaxis.set_label_coords(-(0.08 + tile.left) / wide, 0.44)
    tall = min(below - gap - y, 2.5)
    colour_bar(figure, image, placed(figure, right + 0.1, y, BAR, tall), tall)
    write(figure, x, below + 0.12, what, size=8, color=FAINT, va="center")
    entitle(figure, title)
    return figure


def _tile(trace: Trace, map: Map) -> _Tile:
    """How large a head of a wall is, and the words at its edges where they can be read."""
    Q, K = map.sizes or (1, 1)
    cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, 1.1 / max(Q, K)))
    size = _font(cell)
    if cell * max(map.heads * K, map.layers * Q) <= _LARGEST_SIDE:
        queries, keys = (shown(trace.axis(id)) for id in (map.query, map.key))
        left, above = (max(measured(words, size)) + GAP for words in (queries, keys))
        return _Tile(K * cell, Q * cell, cell, size, left, above, queries, keys)
    side = min(1.1, _LARGEST_SIDE / max(map.layers, map.heads))
    # a tile keeps its shape as long as it can be seen
    wide, high = side * min(1, max(0.3, K / Q)), side * min(1, max(0.3, Q / K))
    return _Tile(wide, high, cell, size)


def _ribbons(
    trace: Trace, map: Map, w: Tensor, title: tuple[str, str], least: Number
) -> "matplotlib.figure.Figure":
    n = max(w.shape)
    pitch = min(0.3, max(0.13, 9 / n), 40 / n)
    size = min(_LARGEST_FONT, max(_SMALLEST_FONT, 0.6 * pitch * 72))
    keys, queries = (shown(trace.axis(id)) for id in (map.key, map.query))
    left, right = max(measured(keys, size)), max(measured(queries, size))
    high, wide = n * pitch, min(3.2, max(1.4, 0.35 * n * pitch))
    x, y = MARGIN + max(left, 0.8) + GAP, MARGIN + 0.30 + 0.28
    beside = x + GAP + max(right, 0.8) + MARGIN
    width = max(beside + wide, room(title))
    # where the title is wider, there is room to see ribbons apart
    wide = max(wide, min(width - beside, high))
    figure = blank(width, y + high + 0.3 + MARGIN)
    axes = placed(figure, x, y, wide, high)
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(1, 0))
    at_key, at_query = ([(i + 0.5) / m for i in range(m)] for m in (len(keys), len(queries)))
    for weight, q, k in sorted((float(w[q, k]), q, k) for q, k in (w >= least).nonzero().tolist()):
        points = [(0, at_key[k]), (0.45, at_key[k]), (0.55, at_query[q]), (1, at_query[q])]
        draw_curve(axes, points, 0.55 * 72 * pitch * weight, 0.12 + 0.75 * weight)
    _list_words(axes, keys, at_key, -GAP / wide, size, "right")
    _list_words(axes, queries, at_query, 1 + GAP / wide, size, "left")
    write(figure, x - GAP, y - 0.1, f"keys · {map.key}", size=8, color=FAINT, ha="right")
    write(figure, x + wide + GAP, y - 0.1, f"queries · {map.query}", size=8, color=FAINT)
    note = f"weights below {least:g} are not drawn"
    write(figure, x + wide / 2, y + high + 0.18, note, size=7, color=FAINT, ha="center")
    entitle(figure, title)
    return figure


def _pooled(w: Tensor) -> Tensor:
    """The greatest weight of each patch, at most 64 × 64 of them."""
    Q, K = w.shape
    w = w.float().cpu()
    if max(Q, K) <= _TILE:
        return w
    return F.adaptive_max_pool2d(w[None], (min(Q, _TILE), min(K, _TILE)))[0]


def _font(cell: Number) -> float:
    """The size of words beside cells, in points."""
    return float(min(_LARGEST_FONT, max(_SMALLEST_FONT, 0.72 * cell * 72)))


def _angle(widest: Number, cell: Number, line: Number) -> int:
    """Lying if the labels fit side by side, leaning if lines of them do, else upright."""
    if widest < 0.9 * cell:
        return 0
    return 45 if line < cell * math.sin(math.radians(45)) else 90


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
    axes.set_xticks(range(0, len(keys), step), keys[::step], size=size, color=INK)
    axes.set_yticks(range(0, len(queries), step), queries[::step], size=size, color=INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=72 * GAP * 0.7)
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


def _list_words(
    axes: Any, words: list[str], places: list[float], x: Number, size: Number, side: str
) -> None:
    for word, y in zip(words, places, strict=True):
        axes.text(x, y, word, size=size, color=INK, ha=side, va="center_baseline")
