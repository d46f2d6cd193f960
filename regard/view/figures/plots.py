"""Pictures of a trace for papers and notebooks: functions from a `Trace` to a matplotlib figure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional as F

from regard.check import Number
from regard.view.figures.canvas import blank_figure, plot_style, text_widths
from regard.view.figures.colours import Scale, colormap, weight_norm
from regard.view.figures.panels import (
    BAR_WIDTH,
    FAINT,
    GAP,
    INK,
    MARGIN,
    add_axes,
    add_colour_bar,
    add_text,
    add_title,
    axis_labels,
    draw_curve,
    title_parts,
    title_width,
)
from regard.view.traces.trace import Map, Trace
from regard.view.traces.words import by_words

if TYPE_CHECKING:
    import matplotlib.figure

# Inches.
_MAX_CELL_SIDE, _MIN_CELL_SIDE, _MAX_SIDE = 0.36, 0.115, 16.0
# Points.
_MAX_FONT_SIZE, _MIN_FONT_SIZE = 10.0, 6.0
_MAX_CELLS_PER_SIDE = 64


@dataclass(frozen=True)
class _TileLayout:
    """One head of a wall, and the words around all of them: inches, and points."""

    width: Number
    height: Number
    cell: Number
    font_size: Number
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
    with plot_style():
        return _draw_matrix(trace, chosen, w, title_parts(trace, chosen.label(layer, head)), scale)


def wall(
    trace: Trace, *, map: str | None = None, scale: Scale = "sqrt"
) -> "matplotlib.figure.Figure":
    """Every head of a map in small, layers down and heads across, all in one scale of colour.

    Words stand at the edges where there is room for them. A head of more than 64 queries or keys
    is shown by the greatest weight of each patch.

    Args:
        map: the map to draw; the first one of many heads if none is named.
    """
    chosen = trace.multi_head_map() if map is None else trace.map(map)
    layers, heads = range(chosen.layers), range(chosen.heads)
    tiles = [[_max_pool(chosen.weights(i, j)) for j in heads] for i in layers]
    with plot_style():
        return _draw_wall(trace, chosen, tiles, scale)


def ribbons(
    trace: Trace,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    min_weight: Number = 0.05,
    words: bool = False,
) -> "matplotlib.figure.Figure":
    """Keys on the left, queries on the right; the more a key is read, the thicker the ribbon.

    Args:
        min_weight: weights below it are not drawn.
    """
    if not 0 < min_weight <= 1:
        raise ValueError(f"ribbons: expected least above 0 and up to 1, got {min_weight!r}")
    trace = by_words(trace) if words else trace
    chosen = trace.map(map)
    w = chosen.weights(layer, head).float().cpu()
    with plot_style():
        return _draw_ribbons(
            trace, chosen, w, title_parts(trace, chosen.label(layer, head)), float(min_weight)
        )


def _draw_matrix(
    trace: Trace, map: Map, w: Tensor, title: tuple[str, str], scale: Scale
) -> "matplotlib.figure.Figure":
    Q, K = w.shape
    cell = min(_MAX_CELL_SIDE, max(_MIN_CELL_SIDE, 9 / max(Q, K)), _MAX_SIDE / max(Q, K))
    size = _font_size(cell)
    queries, keys = (axis_labels(trace.axis(id)) for id in (map.query, map.key))
    left, across = max(text_widths(queries, size)), text_widths(keys, size)
    line = 1.3 * size / 72
    angle = _label_angle(max(across), cell, line)
    above = max(across) * math.sin(math.radians(angle)) + line * math.cos(math.radians(angle))
    # a label that leans to the right may stand out over the last column
    over = max(0.0, max(across) * math.cos(math.radians(angle)) - cell / 2) if angle == 45 else 0.0
    x = MARGIN + 0.22 + left + GAP
    y = MARGIN + 0.26 + 0.20 + above + GAP
    wide, high = K * cell, Q * cell
    asks = f"queries · {map.query}"
    # the name of a short axis stands out at both ends
    below = max(0.0, (text_widths([asks], 9)[0] - high) / 2)
    width = x + wide + max(over, 0.18 + BAR_WIDTH + 0.62) + MARGIN
    width = max(width, title_width(title))
    figure = blank_figure(width, y + high + below + 1.5 * MARGIN)
    axes = add_axes(figure, x, y, wide, high)
    image = axes.imshow(
        w.numpy(),
        cmap=colormap(),
        norm=weight_norm(float(w.max()), scale),
        aspect="auto",
        # one pixel a cell, enlarged by the viewer; below a pixel or two, cells must be blended
        interpolation="none" if cell > 0.02 else None,
    )
    _add_tick_labels(axes, keys, queries, cell, size, line, angle)
    _draw_cell_borders(axes, Q, K, cell)
    axes.set_xlabel(f"keys · {map.key}", size=9, color=FAINT)
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_label_coords(0.5, 1 + (above + GAP + 0.06) / high)
    axes.set_ylabel(asks, size=9, color=FAINT)
    axes.yaxis.set_label_coords(-(left + GAP + 0.08) / wide, 0.5)
    bar = add_axes(figure, x + wide + 0.18, y, BAR_WIDTH, high)
    add_colour_bar(figure, image, bar, high)
    add_title(figure, title)
    return figure


def _draw_wall(
    trace: Trace, map: Map, tiles: list[list[Tensor]], scale: Scale
) -> "matplotlib.figure.Figure":
    tile = _tile_layout(trace, map)
    wide, high, gap = tile.width, tile.height, 0.08
    x, y = MARGIN + 0.65 + tile.left, MARGIN + 0.30 + 0.25 + tile.above
    right, below = x + map.heads * (wide + gap), y + map.layers * (high + gap)
    title = title_parts(trace, map.label())
    what = f"each: queries · {map.query} down, keys · {map.key} across"
    width = max(right + 0.8, title_width(title))
    width = max(width, x + text_widths([what], 8)[0] + MARGIN)
    figure = blank_figure(width, below + 0.2 + MARGIN)
    shared = weight_norm(max(float(each.max()) for row in tiles for each in row), scale)
    for i, row in enumerate(tiles):
        for j, weights in enumerate(row):
            axes = add_axes(figure, x + j * (wide + gap), y + i * (high + gap), wide, high)
            image = axes.imshow(
                weights.numpy(), cmap=colormap(), norm=shared, aspect="auto", interpolation="none"
            )
            axes.spines[:].set(color=FAINT, linewidth=0.4)
            keys, queries = tile.keys if i == 0 else (), tile.queries if j == 0 else ()
            _add_tick_labels(axes, keys, queries, tile.cell, tile.font_size, 0, 90)
            if i == 0:
                name = f"head {j}" if wide > 0.5 else f"{j}"
                axes.set_title(name, size=8, color=INK, pad=4 + 72 * tile.above)
            if j == 0:
                axes.set_ylabel(f"layer {i}", size=8, color=INK, rotation=0, ha="right")
                axes.yaxis.set_label_coords(-(0.08 + tile.left) / wide, 0.44)
    tall = min(below - gap - y, 2.5)
    add_colour_bar(figure, image, add_axes(figure, right + 0.1, y, BAR_WIDTH, tall), tall)
    add_text(figure, x, below + 0.12, what, size=8, color=FAINT, va="center")
    add_title(figure, title)
    return figure


def _tile_layout(trace: Trace, map: Map) -> _TileLayout:
    """How large a head of a wall is, and the words at its edges where they can be read."""
    Q, K = map.sizes or (1, 1)
    cell = min(_MAX_CELL_SIDE, max(_MIN_CELL_SIDE, 1.1 / max(Q, K)))
    size = _font_size(cell)
    if cell * max(map.heads * K, map.layers * Q) <= _MAX_SIDE:
        queries, keys = (axis_labels(trace.axis(id)) for id in (map.query, map.key))
        left, above = (max(text_widths(words, size)) + GAP for words in (queries, keys))
        return _TileLayout(K * cell, Q * cell, cell, size, left, above, queries, keys)
    side = min(1.1, _MAX_SIDE / max(map.layers, map.heads))
    # a tile keeps its shape as long as it can be seen
    wide, high = side * min(1, max(0.3, K / Q)), side * min(1, max(0.3, Q / K))
    return _TileLayout(wide, high, cell, size)


def _draw_ribbons(
    trace: Trace, map: Map, w: Tensor, title: tuple[str, str], min_weight: Number
) -> "matplotlib.figure.Figure":
    n = max(w.shape)
    pitch = min(0.3, max(0.13, 9 / n), 40 / n)
    size = min(_MAX_FONT_SIZE, max(_MIN_FONT_SIZE, 0.6 * pitch * 72))
    keys, queries = (axis_labels(trace.axis(id)) for id in (map.key, map.query))
    left, right = max(text_widths(keys, size)), max(text_widths(queries, size))
    high, wide = n * pitch, min(3.2, max(1.4, 0.35 * n * pitch))
    x, y = MARGIN + max(left, 0.8) + GAP, MARGIN + 0.30 + 0.28
    beside = x + GAP + max(right, 0.8) + MARGIN
    width = max(beside + wide, title_width(title))
    # where the title is wider, there is room to see ribbons apart
    wide = max(wide, min(width - beside, high))
    figure = blank_figure(width, y + high + 0.3 + MARGIN)
    axes = add_axes(figure, x, y, wide, high)
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(1, 0))
    at_key, at_query = ([(i + 0.5) / m for i in range(m)] for m in (len(keys), len(queries)))
    for weight, q, k in sorted(
        (float(w[q, k]), q, k) for q, k in (w >= min_weight).nonzero().tolist()
    ):
        points = [(0, at_key[k]), (0.45, at_key[k]), (0.55, at_query[q]), (1, at_query[q])]
        draw_curve(axes, points, 0.55 * 72 * pitch * weight, 0.12 + 0.75 * weight)
    _draw_words(axes, keys, at_key, -GAP / wide, size, "right")
    _draw_words(axes, queries, at_query, 1 + GAP / wide, size, "left")
    add_text(figure, x - GAP, y - 0.1, f"keys · {map.key}", size=8, color=FAINT, ha="right")
    add_text(figure, x + wide + GAP, y - 0.1, f"queries · {map.query}", size=8, color=FAINT)
    note = f"weights below {min_weight:g} are not drawn"
    add_text(figure, x + wide / 2, y + high + 0.18, note, size=7, color=FAINT, ha="center")
    add_title(figure, title)
    return figure


def _max_pool(w: Tensor) -> Tensor:
    """The greatest weight of each patch, at most 64 × 64 of them."""
    Q, K = w.shape
    w = w.float().cpu()
    if max(Q, K) <= _MAX_CELLS_PER_SIDE:
        return w
    return F.adaptive_max_pool2d(
        w[None], (min(Q, _MAX_CELLS_PER_SIDE), min(K, _MAX_CELLS_PER_SIDE))
    )[0]


def _font_size(cell: Number) -> float:
    """The size of words beside cells, in points."""
    return float(min(_MAX_FONT_SIZE, max(_MIN_FONT_SIZE, 0.72 * cell * 72)))


def _label_angle(widest: Number, cell: Number, line: Number) -> int:
    """Lying if the labels fit side by side, leaning if lines of them do, else upright."""
    if widest < 0.9 * cell:
        return 0
    return 45 if line < cell * math.sin(math.radians(45)) else 90


def _add_tick_labels(
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


def _draw_cell_borders(axes: Any, Q: int, K: int, cell: Number) -> None:
    axes.spines[:].set_visible(False)
    if cell >= 0.2:
        axes.set_xticks([k - 0.5 for k in range(1, K)], minor=True)
        axes.set_yticks([q - 0.5 for q in range(1, Q)], minor=True)
        axes.grid(which="minor", color="white", linewidth=0.5)
        axes.tick_params(which="minor", length=0)


def _draw_words(
    axes: Any, words: list[str], places: list[float], x: Number, size: Number, side: str
) -> None:
    for word, y in zip(words, places, strict=True):
        axes.text(x, y, word, size=size, color=INK, ha=side, va="center_baseline")
