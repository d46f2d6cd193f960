"""Arcs over one row of tokens, or lines between two rows: where a query looks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.check import Number
from regard.view.figures import blank, drawing, measured
from regard.view.panels import (
    BLUE,
    FAINT,
    GAP,
    INK,
    LINE,
    MARGIN,
    NAME,
    SMALL,
    draw_curve,
    entitle,
    placed,
    room,
    shown,
    spaced,
    titled,
    write,
)
from regard.view.trace import Map, Trace

if TYPE_CHECKING:
    import matplotlib.figure

# As on the page: what is weaker is not drawn.
LEAST = 0.002
# Inches: a row that is wider than a page of paper stands upright, and none is wider than this.
_PAGE, _LARGEST_SIDE = 7.0, 16.0
_HIGHEST, _LOWEST, _BETWEEN, _APART = 2.4, 0.22, 0.14, 0.04
# Points.
_THINNEST, _THICKEST, _LARGEST_FONT, _SMALLEST_FONT = 0.5, 6.0, 10.0, 6.0


@dataclass(frozen=True)
class _Row:
    """Words side by side, lying or upright: the middle of each, and how much room, in inches."""

    words: list[str]
    middles: list[float]
    pitch: Number  # of the narrowest
    size: Number
    angle: int
    wide: Number
    high: Number

    def moved(self, x: Number) -> list[float]:
        """The middles, so many inches further right."""
        return [middle + x for middle in self.middles]


@dataclass(frozen=True)
class _Reads:
    """Who reads what: weight, query and key, the strongest last; and which query was chosen."""

    found: list[tuple[float, int, int]]
    query: int | None
    most: int

    def look(self, weight: float) -> tuple[float, float]:
        """How thick an arc of this weight is, and how dark; of many arcs, weak ones stand back."""
        faintest = 0.12 if self.query is None else 0.3
        return _THINNEST + (_THICKEST - _THINNEST) * weight, faintest + (1 - faintest) * weight

    def notes(self) -> dict[int, str]:
        """The weight of each key that the chosen query reads, in words."""
        if self.query is None:
            return {}
        return {k: f"{weight:.2f}" for weight, _, k in self.found}

    def said(self, *, ahead: bool) -> str:
        """What is drawn, and what is not."""
        who = "each query" if self.query is None else f"query {self.query}"
        dashed = "; dashed: to a key further on" if ahead else ""
        strongest = f"the {self.most} strongest keys" if self.most > 1 else "the strongest key"
        return f"{strongest} of {who}, none below {LEAST:g}{dashed}"


def arcs(
    trace: Trace,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    query: int | None = None,
    most: int = 12,
) -> "matplotlib.figure.Figure":
    """One row of tokens, and arcs from a query to the keys that it reads, thicker for more.

    Where queries and keys are two axes, there are two rows with lines between them, as in
    `ribbons` but for chosen queries.

    Args:
        map: the map to draw; the first one if none is named.
        query: which query looks, its weights written beside its keys; every query if it is None.
        most: how many keys of a query are drawn, the strongest of them.
    """
    chosen = trace.map(map)
    w = chosen.weights(layer, head).float().cpu()
    if query is not None and not 0 <= query < len(w):
        raise ValueError(f"arcs: expected query from 0 to {len(w) - 1}, got {query}")
    if most < 1:
        raise ValueError(f"arcs: expected most of at least 1, got {most}")
    reads = _Reads(_strongest(w, query, most), query, most)
    alone = chosen.query == chosen.key
    with drawing():
        return (_over if alone else _between)(
            trace, chosen, reads, titled(trace, chosen.at(layer, head))
        )


def _strongest(w: Tensor, query: int | None, most: int) -> list[tuple[float, int, int]]:
    queries = range(len(w)) if query is None else [query]
    # stable, so that the same weights are the same picture
    weights, keys = w[list(queries)].sort(dim=-1, descending=True, stable=True)
    rows = zip(queries, weights[:, :most].tolist(), keys[:, :most].tolist(), strict=True)
    found = [(x, q, k) for q, row, places in rows for x, k in zip(row, places, strict=True)]
    return sorted(read for read in found if read[0] >= LEAST)


def _over(
    trace: Trace, map: Map, reads: _Reads, title: tuple[str, str]
) -> "matplotlib.figure.Figure":
    """Arcs over the one row."""
    row = _row(shown(trace.axis(map.key)))
    at, notes = row.middles, reads.notes()
    longest = max((abs(at[q] - at[k]) for _, q, k in reads.found), default=0) or 1
    steep = max(0, min(_HIGHEST, _LOWEST + 0.42 * longest) - _LOWEST) / longest
    high = _LOWEST + steep * longest
    # every arc could lead either way; of one query it is known
    ahead = reads.query is None and any(k > q for _, q, k in reads.found)
    said, named = reads.said(ahead=ahead), f"queries and keys · {map.key}"
    x, y = MARGIN, MARGIN + 0.34
    below = y + high + GAP + row.high + (_deep(row) if notes else 0)
    width = max(x + row.wide + MARGIN, room(title), _room(said, SMALL), _room(named, NAME))
    figure = blank(width, below + 0.40 + MARGIN)
    # inches, a little more of them than the highest arc, which is thick
    axes = placed(figure, x, y - 0.05, row.wide, high + 0.05)
    axes.set_axis_off()
    axes.set(xlim=(0, row.wide), ylim=(0, high + 0.05))
    for weight, q, k in reads.found:
        points = _arc(at[q], at[k], _LOWEST + steep * abs(at[q] - at[k]), row.pitch)
        curve = draw_curve(axes, points, *reads.look(weight))
        curve.set_linestyle((0, (3, 1)) if ahead and k > q else "solid")
    _list_words(axes, row, at, -GAP, reads.query, notes)
    _mark(axes, at, 0, reads.query)
    write(figure, x, below + 0.16, named, size=NAME, color=FAINT)
    write(figure, x, below + 0.34, said, size=SMALL, color=FAINT)
    entitle(figure, title)
    return figure


def _between(
    trace: Trace, map: Map, reads: _Reads, title: tuple[str, str]
) -> "matplotlib.figure.Figure":
    """Lines between keys above and queries below."""
    keys, queries = (_row(shown(trace.axis(id))) for id in (map.key, map.query))
    wide, notes = max(keys.wide, queries.wide), reads.notes()
    at_key, at_query = (row.moved((wide - row.wide) / 2) for row in (keys, queries))
    high = min(_HIGHEST, max(1.0, 0.35 * wide))
    asks, asked, said = f"keys · {map.key}", f"queries · {map.query}", reads.said(ahead=False)
    x = MARGIN
    y = MARGIN + 0.34 + 0.20 + keys.high + (_deep(keys) if notes else 0) + GAP
    below = y + high + GAP + queries.high
    width = max(x + wide + MARGIN, room(title), _room(said, SMALL))
    width = max(width, _room(asks, NAME), _room(asked, NAME))
    figure = blank(width, below + 0.40 + MARGIN)
    axes = placed(figure, x, y, wide, high)
    axes.set_axis_off()
    axes.set(xlim=(0, wide), ylim=(0, high))
    for weight, q, k in reads.found:
        (a, b), half = (at_query[q], at_key[k]), high / 2
        draw_curve(axes, [(a, 0), (a, half), (b, half), (b, high)], *reads.look(weight))
    _list_words(axes, keys, at_key, high + GAP, None, notes)
    _list_words(axes, queries, at_query, -GAP, reads.query, {})
    _mark(axes, at_query, 0, reads.query)
    write(figure, x, MARGIN + 0.42, asks, size=NAME, color=FAINT)
    write(figure, x, below + 0.16, asked, size=NAME, color=FAINT)
    write(figure, x, below + 0.34, said, size=SMALL, color=FAINT)
    entitle(figure, title)
    return figure


def _row(words: list[str]) -> _Row:
    """Words as in a sentence where a page is wide enough for them, else upright, side by side."""
    n, size = len(words), _LARGEST_FONT
    # room for a weight under a short word
    extents = [max(wide, 0.3) + _BETWEEN for wide in measured(words, size)]
    if sum(extents) <= _PAGE:
        middles = [sum(extents[:i]) + extents[i] / 2 for i in range(n)]
        return _Row(words, middles, min(extents), size, 0, sum(extents), 1.3 * size / 72)
    pitch = min(0.3, max(0.13, _PAGE / n), _LARGEST_SIDE / n)
    size = min(_LARGEST_FONT, max(_SMALLEST_FONT, 0.6 * pitch * 72))
    middles = [(i + 0.5) * pitch for i in range(n)]
    return _Row(words, middles, pitch, size, 90, n * pitch, max(measured(words, size)))


def _arc(start: Number, end: Number, high: Number, pitch: Number) -> list[tuple[Number, Number]]:
    # a cubic rises to three quarters of its handles
    top = high / 0.75
    if start != end:
        return [(start, 0), (start, top), (end, top), (end, 0)]
    # a loop
    foot, side = min(0.06, 0.2 * pitch), min(0.16, 0.5 * pitch)
    return [(start - foot, 0), (start - side, top), (start + side, top), (start + foot, 0)]


def _list_words(
    axes: Any, row: _Row, at: list[float], y: Number, query: int | None, notes: dict[int, str]
) -> None:
    """The words of a row and their notes: under `y` where it is below the lines, else above it."""
    side, way = ("top", -1) if y < 0 else ("bottom", 1)
    # where there is no room for all, the chosen and the strongest stand
    first = [*([] if query is None else [query]), *reversed(notes)]
    extent = 1.3 * row.size / 72 / row.pitch if row.angle else 1.0
    order = list(dict.fromkeys([*first, *range(len(at))]))
    style = {"rotation": row.angle, "ha": "center", "va": side}
    for i in spaced([(i, extent) for i in order]):
        ink = BLUE if i == query else INK
        axes.text(at[i], y, row.words[i], size=row.size, color=ink, **style)
        if i in notes:
            beyond = y + way * (row.high + _APART)
            axes.text(at[i], beyond, notes[i], size=min(SMALL, row.size), color=FAINT, **style)


def _mark(axes: Any, at: list[float], y: Number, query: int | None) -> None:
    """A dot where the chosen query stands."""
    if query is not None:
        axes.plot([at[query]], [y], "o", color=BLUE, markersize=4, clip_on=False)


def _deep(row: _Row) -> Number:
    """How much room the weights take beyond the words."""
    return _APART + (measured(["0.00"], min(SMALL, row.size))[0] if row.angle else LINE)


def _room(text: str, size: Number) -> float:
    return 2 * MARGIN + measured([text], size)[0]
