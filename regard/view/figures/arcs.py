"""Arcs over one row of tokens, or lines between two rows: where a query looks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.check import Number
from regard.view.figures.canvas import blank_figure, plot_style, text_widths
from regard.view.figures.panels import (
    BLUE,
    FAINT,
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    NAME_SIZE,
    SMALL_SIZE,
    add_axes,
    add_text,
    add_title,
    axis_labels,
    draw_curve,
    non_overlapping,
    title_parts,
    title_width,
)
from regard.view.traces.trace import Map, Trace

if TYPE_CHECKING:
    import matplotlib.figure

# As on the page: what is weaker is not drawn.
MIN_DRAWN_WEIGHT = 0.002
# Inches: a row that is wider than a page of paper stands upright, and none is wider than this.
_PAGE_WIDTH, _MAX_SIDE = 7.0, 16.0
_MAX_ARC_HEIGHT, _MIN_ARC_HEIGHT, _WORD_GAP, _NOTE_GAP = 2.4, 0.22, 0.14, 0.04
# Points.
_MIN_LINE_WIDTH, _MAX_LINE_WIDTH, _MAX_FONT_SIZE, _MIN_FONT_SIZE = 0.5, 6.0, 10.0, 6.0


@dataclass(frozen=True)
class _WordRow:
    """Words side by side, lying or upright: the middle of each, and how much room, in inches."""

    words: list[str]
    centres: list[float]
    pitch: Number  # of the narrowest
    font_size: Number
    angle: int
    width: Number
    height: Number

    def shifted_centres(self, x: Number) -> list[float]:
        """The middles, so many inches further right."""
        return [middle + x for middle in self.centres]


@dataclass(frozen=True)
class _StrongestArcs:
    """Who reads what: weight, query and key, the strongest last; and which query was chosen."""

    arcs: list[tuple[float, int, int]]
    query: int | None
    max_keys: int

    def line_style(self, weight: float) -> tuple[float, float]:
        """How thick an arc of this weight is, and how dark; of many arcs, weak ones stand back."""
        faintest = 0.12 if self.query is None else 0.3
        return _MIN_LINE_WIDTH + (_MAX_LINE_WIDTH - _MIN_LINE_WIDTH) * weight, faintest + (
            1 - faintest
        ) * weight

    def weight_labels(self) -> dict[int, str]:
        """The weight of each key that the chosen query reads, in words."""
        if self.query is None:
            return {}
        return {k: f"{weight:.2f}" for weight, _, k in self.arcs}

    def caption(self, *, has_later_keys: bool) -> str:
        """What is drawn, and what is not."""
        who = "each query" if self.query is None else f"query {self.query}"
        dashed = "; dashed: to a key further on" if has_later_keys else ""
        strongest = (
            f"the {self.max_keys} strongest keys" if self.max_keys > 1 else "the strongest key"
        )
        return f"{strongest} of {who}, none below {MIN_DRAWN_WEIGHT:g}{dashed}"


def arcs(
    trace: Trace,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    query: int | None = None,
    max_keys: int = 12,
) -> "matplotlib.figure.Figure":
    """One row of tokens, and arcs from a query to the keys that it reads, thicker for more.

    Where queries and keys are two axes, there are two rows with lines between them, as in
    `ribbons` but for chosen queries.

    Args:
        map: the map to draw; the first one if none is named.
        query: which query looks, its weights written beside its keys; every query if it is None.
        max_keys: how many keys of a query are drawn, the strongest of them.
    """
    chosen = trace.map(map)
    w = chosen.weights(layer, head).float().cpu()
    if query is not None and not 0 <= query < len(w):
        raise ValueError(f"arcs: expected query from 0 to {len(w) - 1}, got {query}")
    if max_keys < 1:
        raise ValueError(f"arcs: expected most of at least 1, got {max_keys}")
    reads = _StrongestArcs(_strongest_arcs(w, query, max_keys), query, max_keys)
    alone = chosen.query == chosen.key
    with plot_style():
        return (_draw_arcs_over_row if alone else _draw_lines_between_rows)(
            trace, chosen, reads, title_parts(trace, chosen.label(layer, head))
        )


def _strongest_arcs(w: Tensor, query: int | None, max_keys: int) -> list[tuple[float, int, int]]:
    queries = range(len(w)) if query is None else [query]
    # stable, so that the same weights are the same picture
    weights, keys = w[list(queries)].sort(dim=-1, descending=True, stable=True)
    rows = zip(queries, weights[:, :max_keys].tolist(), keys[:, :max_keys].tolist(), strict=True)
    found = [(x, q, k) for q, row, places in rows for x, k in zip(row, places, strict=True)]
    return sorted(read for read in found if read[0] >= MIN_DRAWN_WEIGHT)


def _draw_arcs_over_row(
    trace: Trace, map: Map, strongest: _StrongestArcs, title: tuple[str, str]
) -> "matplotlib.figure.Figure":
    """Arcs over the one row."""
    row = _layout_words(axis_labels(trace.axis(map.key)))
    at, notes = row.centres, strongest.weight_labels()
    longest = max((abs(at[q] - at[k]) for _, q, k in strongest.arcs), default=0) or 1
    steep = (
        max(0, min(_MAX_ARC_HEIGHT, _MIN_ARC_HEIGHT + 0.42 * longest) - _MIN_ARC_HEIGHT) / longest
    )
    high = _MIN_ARC_HEIGHT + steep * longest
    # every arc could lead either way; of one query it is known
    ahead = strongest.query is None and any(k > q for _, q, k in strongest.arcs)
    said, named = strongest.caption(has_later_keys=ahead), f"queries and keys · {map.key}"
    x, y = MARGIN, MARGIN + 0.34
    below = y + high + GAP + row.height + (_note_depth(row) if notes else 0)
    width = max(
        x + row.width + MARGIN,
        title_width(title),
        _text_width(said, SMALL_SIZE),
        _text_width(named, NAME_SIZE),
    )
    figure = blank_figure(width, below + 0.40 + MARGIN)
    # inches, a little more of them than the highest arc, which is thick
    axes = add_axes(figure, x, y - 0.05, row.width, high + 0.05)
    axes.set_axis_off()
    axes.set(xlim=(0, row.width), ylim=(0, high + 0.05))
    for weight, q, k in strongest.arcs:
        points = _arc_points(at[q], at[k], _MIN_ARC_HEIGHT + steep * abs(at[q] - at[k]), row.pitch)
        curve = draw_curve(axes, points, *strongest.line_style(weight))
        curve.set_linestyle((0, (3, 1)) if ahead and k > q else "solid")
    _draw_words(axes, row, at, -GAP, strongest.query, notes)
    _mark_query(axes, at, 0, strongest.query)
    add_text(figure, x, below + 0.16, named, size=NAME_SIZE, color=FAINT)
    add_text(figure, x, below + 0.34, said, size=SMALL_SIZE, color=FAINT)
    add_title(figure, title)
    return figure


def _draw_lines_between_rows(
    trace: Trace, map: Map, strongest: _StrongestArcs, title: tuple[str, str]
) -> "matplotlib.figure.Figure":
    """Lines between keys above and queries below."""
    keys, queries = (_layout_words(axis_labels(trace.axis(id))) for id in (map.key, map.query))
    wide, notes = max(keys.width, queries.width), strongest.weight_labels()
    at_key, at_query = (row.shifted_centres((wide - row.width) / 2) for row in (keys, queries))
    high = min(_MAX_ARC_HEIGHT, max(1.0, 0.35 * wide))
    asks, asked, said = (
        f"keys · {map.key}",
        f"queries · {map.query}",
        strongest.caption(has_later_keys=False),
    )
    x = MARGIN
    y = MARGIN + 0.34 + 0.20 + keys.height + (_note_depth(keys) if notes else 0) + GAP
    below = y + high + GAP + queries.height
    width = max(x + wide + MARGIN, title_width(title), _text_width(said, SMALL_SIZE))
    width = max(width, _text_width(asks, NAME_SIZE), _text_width(asked, NAME_SIZE))
    figure = blank_figure(width, below + 0.40 + MARGIN)
    axes = add_axes(figure, x, y, wide, high)
    axes.set_axis_off()
    axes.set(xlim=(0, wide), ylim=(0, high))
    for weight, q, k in strongest.arcs:
        (a, b), half = (at_query[q], at_key[k]), high / 2
        draw_curve(axes, [(a, 0), (a, half), (b, half), (b, high)], *strongest.line_style(weight))
    _draw_words(axes, keys, at_key, high + GAP, None, notes)
    _draw_words(axes, queries, at_query, -GAP, strongest.query, {})
    _mark_query(axes, at_query, 0, strongest.query)
    add_text(figure, x, MARGIN + 0.42, asks, size=NAME_SIZE, color=FAINT)
    add_text(figure, x, below + 0.16, asked, size=NAME_SIZE, color=FAINT)
    add_text(figure, x, below + 0.34, said, size=SMALL_SIZE, color=FAINT)
    add_title(figure, title)
    return figure


def _layout_words(words: list[str]) -> _WordRow:
    """Words as in a sentence where a page is wide enough for them, else upright, side by side."""
    n, size = len(words), _MAX_FONT_SIZE
    # room for a weight under a short word
    extents = [max(wide, 0.3) + _WORD_GAP for wide in text_widths(words, size)]
    if sum(extents) <= _PAGE_WIDTH:
        middles = [sum(extents[:i]) + extents[i] / 2 for i in range(n)]
        return _WordRow(words, middles, min(extents), size, 0, sum(extents), 1.3 * size / 72)
    pitch = min(0.3, max(0.13, _PAGE_WIDTH / n), _MAX_SIDE / n)
    size = min(_MAX_FONT_SIZE, max(_MIN_FONT_SIZE, 0.6 * pitch * 72))
    middles = [(i + 0.5) * pitch for i in range(n)]
    return _WordRow(words, middles, pitch, size, 90, n * pitch, max(text_widths(words, size)))


def _arc_points(
    start: Number, end: Number, height: Number, pitch: Number
) -> list[tuple[Number, Number]]:
    # a cubic rises to three quarters of its handles
    top = height / 0.75
    if start != end:
        return [(start, 0), (start, top), (end, top), (end, 0)]
    # a loop
    foot, side = min(0.06, 0.2 * pitch), min(0.16, 0.5 * pitch)
    return [(start - foot, 0), (start - side, top), (start + side, top), (start + foot, 0)]


def _draw_words(
    axes: Any, row: _WordRow, at: list[float], y: Number, query: int | None, notes: dict[int, str]
) -> None:
    """The words of a row and their notes: under `y` where it is below the lines, else above it."""
    side, way = ("top", -1) if y < 0 else ("bottom", 1)
    # where there is no room for all, the chosen and the strongest stand
    first = [*([] if query is None else [query]), *reversed(notes)]
    extent = 1.3 * row.font_size / 72 / row.pitch if row.angle else 1.0
    order = list(dict.fromkeys([*first, *range(len(at))]))
    style = {"rotation": row.angle, "ha": "center", "va": side}
    for i in non_overlapping([(i, extent) for i in order]):
        ink = BLUE if i == query else INK
        axes.text(at[i], y, row.words[i], size=row.font_size, color=ink, **style)
        if i in notes:
            beyond = y + way * (row.height + _NOTE_GAP)
            axes.text(
                at[i], beyond, notes[i], size=min(SMALL_SIZE, row.font_size), color=FAINT, **style
            )


def _mark_query(axes: Any, at: list[float], y: Number, query: int | None) -> None:
    """A dot where the chosen query stands."""
    if query is not None:
        axes.plot([at[query]], [y], "o", color=BLUE, markersize=4, clip_on=False)


def _note_depth(row: _WordRow) -> Number:
    """How much room the weights take beyond the words."""
    return _NOTE_GAP + (
        text_widths(["0.00"], min(SMALL_SIZE, row.font_size))[0] if row.angle else LINE_HEIGHT
    )


def _text_width(text: str, size: Number) -> float:
    return 2 * MARGIN + text_widths([text], size)[0]
