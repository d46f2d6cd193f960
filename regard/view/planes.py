"""Points that are pointed at as a picture: the way so far, where it may go on, and all steps."""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.check import Number
from regard.view.choices import LEAST, columns, draw_choices, headline
from regard.view.figures import blank, drawing, measured
from regard.view.panels import (
    BAR,
    BLUE,
    FAINT,
    INK,
    LINE,
    MARGIN,
    NAME,
    RED,
    SMALL,
    Box,
    entitle,
    placed,
    room,
    shown,
    titled,
    write,
)
from regard.view.placing import Word, beside
from regard.view.pointers import Pointing, pointing
from regard.view.trace import Trace

if TYPE_CHECKING:
    import matplotlib.figure

# What is still to come, and what is inside a triangle.
_LATER, _INSIDE = "#b4b4b4", "#7f9cc4"
# So many of the most probable points are named with their share.
_NAMED = 3
# With more points than these, only those that matter at this step are numbered.
_NUMBERED = 60
# Inches: the longer side of the plane, and the room around its points.
_SIDE, _AROUND = 4.4, 0.3
# Inches: the largest cell, the widest matrix, and what stands above both parts.
_CELL, _WIDEST, _ABOVE = 0.3, 4.6, MARGIN + 0.30 + 0.38


class _Sheet(NamedTuple):
    """The place of the plane, in inches and in the numbers of its points."""

    box: Box
    low: Tensor
    high: Tensor
    ticks: tuple[list[float], list[float]]

    def inches(self, xy: Tensor) -> Tensor:
        """How far points (…, 2) are from its lower left corner."""
        sides = torch.tensor([self.box.wide, self.box.high], dtype=torch.float64)
        return (xy - self.low) / (self.high - self.low) * sides


def plane(trace: Trace, *, step: int | None = None) -> "matplotlib.figure.Figure":
    """Points, the way so far, and a fan to where it may go on; beside it, all steps as a matrix.

    The wider and darker a line of the fan, the more probable the point at which it ends. What
    comes after the step is faint. Numbers that are to be sorted stand over their places.

    Args:
        step: the step that is shown; if none is named, the one least sure where to point.
    """
    found = pointing(trace)
    step = found.step(step)
    with drawing():
        return _plane(trace, found, step)


def _plane(trace: Trace, found: Pointing, step: int) -> "matplotlib.figure.Figure":
    sheet, labels = _sheet(found), shown(trace.axis(found.steps))
    T, K = len(labels), len(columns(found)) + bool(found.ends.any())
    row, column = min(_CELL, sheet.box.high / T), min(_CELL, _WIDEST / K)
    row, column = min(row, max(6 * column, 0.1)), min(column, max(3 * row, 0.1))
    named = labels if row >= LINE else [str(T - 1)]
    left = sheet.box.x + sheet.box.wide + 0.55 + max(measured(named, SMALL))
    cells = Box(left, sheet.box.y, column * K, row * T)
    title = titled(trace, f"{trace.map().id} · step {step}")
    above = measured([headline(found)], NAME)[0]
    width = left + max(cells.wide + 0.16 + BAR + 0.5, above) + MARGIN
    height = sheet.box.y + sheet.box.high + 0.62 + MARGIN
    figure = blank(max(width, room(title)), height)
    axes = placed(figure, *sheet.box)
    _rule_plane(axes, sheet)
    if found.task == "order":
        _draw_stems(axes, found, sheet)
    _draw_way(axes, found, step)
    _draw_fan(axes, found, step)
    _draw_points(axes, found, step)
    _explain_points(axes, sheet)
    _number_points(axes, found, sheet, step)
    _caption(figure, found, sheet, labels, step)
    draw_choices(figure, found, labels, step, cells)
    entitle(figure, title)
    return figure


def _sheet(found: Pointing) -> _Sheet:
    """How large the plane is: of the form of its points, unless they are almost on a line."""
    low, high = found.xy.amin(0), found.xy.amax(0)
    if found.task == "order" and 0 < float(low[1]) < float(high[1] - low[1]):
        low = torch.stack([low[0], torch.zeros_like(low[1])])
    span = high - low
    span = torch.where(span > 0, span, float(span.max()) or 1.0)
    form = float(span[1] / span[0])
    even = found.task != "order" and 1 / 8 <= form <= 8
    form = min(1.15, max(0.6, form)) if even else 0.75
    sides = torch.tensor([_SIDE, _SIDE * form], dtype=torch.float64)
    inner = sides - 2 * _AROUND
    scale = inner / span  # inches
    scale = scale.min().expand(2) if even else scale
    middle = (low + high) / 2
    low, high = middle - sides / scale / 2, middle + sides / scale / 2
    places = zip(low.tolist(), high.tolist(), (found.task == "order", False), strict=True)
    across, up = (_round_between(*each) for each in places)
    left = max(measured([f"{value:.10g}" for value in up], SMALL), default=0)
    box = Box(MARGIN + left + 0.1, _ABOVE, *sides.tolist())
    return _Sheet(box, low, high, (across, up))


def _round_between(low: float, high: float, whole: bool) -> list[float]:
    """A few round numbers, or whole ones, from one to another."""
    from matplotlib.ticker import MaxNLocator

    values = MaxNLocator(5, integer=whole).tick_values(low, high)
    return [float(value) for value in values if low <= value <= high]


def _rule_plane(axes: Any, sheet: _Sheet) -> None:
    (x0, y0), (x1, y1) = sheet.low.tolist(), sheet.high.tolist()
    axes.set(xlim=(x0, x1), ylim=(y0, y1))
    across, up = sheet.ticks
    axes.set_xticks(across, [f"{value:.10g}" for value in across], size=SMALL, color=FAINT)
    axes.set_yticks(up, [f"{value:.10g}" for value in up], size=SMALL, color=FAINT)
    axes.tick_params(length=2, color=FAINT, pad=2)
    axes.spines[:].set(color=FAINT, linewidth=0.4)


def _draw_stems(axes: Any, found: Pointing, sheet: _Sheet) -> None:
    """A line from below to each number that is to be sorted."""
    lowest, highest = float(sheet.low[1]), float(sheet.high[1])
    base = 0.0 if lowest < 0 < highest else lowest
    x, y = found.xy.unbind(1)
    axes.vlines(x.tolist(), base, y.tolist(), colors="#dddddd", linewidth=1.2, zorder=1)
    axes.axhline(base, color=_LATER, linewidth=0.5, zorder=1)


def _draw_way(axes: Any, found: Pointing, step: int) -> None:
    """The lines of the answer, dark where they are drawn already, the newest with an arrow."""
    from matplotlib.collections import LineCollection, PolyCollection

    xy, now = found.xy.tolist(), step // 3
    corners = [[xy[i] for i in corner] for corner in found.triangles]
    shades = [0.42 if k == now else 0.16 if k < now else 0.0 for k in range(len(corners))]
    fills = [(*_mixed(_INSIDE), shade) for shade in shades]
    axes.add_collection(PolyCollection(corners, facecolors=fills, zorder=1))
    for drawn, ink, thick in ((False, _LATER, 0.8), (True, INK, _thick(found))):
        lines = [(xy[e.start], xy[e.end]) for e in found.edges if (e.step < step) is drawn]
        axes.add_collection(LineCollection(lines, colors=ink, linewidths=thick, zorder=2 + drawn))
    last = [e for e in found.edges if e.step == step - 1][:1]
    for edge in last:
        style = {"arrowstyle": "-|>", "color": INK, "linewidth": _thick(found), "mutation_scale": 9}
        shrunk = {"shrinkA": 0, "shrinkB": _size(found) / 2 + 1.5}
        axes.annotate("", xy[edge.end], xy[edge.start], arrowprops=style | shrunk, zorder=3)


def _draw_fan(axes: Any, found: Pointing, step: int) -> None:
    """From the point that was pointed at last, a line to each that may be next."""
    from matplotlib.collections import LineCollection

    w, xy = found.weights[step], found.xy.tolist()
    likely = [i for i in w.argsort().tolist() if float(w[i]) >= LEAST]
    inks = [(*_mixed(BLUE), 0.2 + 0.7 * float(w[i])) for i in likely]
    if step == 0:
        # nothing was pointed at yet: what may be first has a disc instead of a line
        sizes = [_disc(float(w[i])) ** 2 for i in likely]
        x, y = ([xy[i][n] for i in likely] for n in (0, 1))
        axes.scatter(x, y, sizes, c=inks, linewidths=0, zorder=4)
        return
    here = xy[found.indices[step - 1]]
    thick = [0.8 + 7 * float(w[i]) for i in likely]
    lines = [(here, xy[i]) for i in likely]
    axes.add_collection(
        LineCollection(lines, colors=inks, linewidths=thick, zorder=4, capstyle="butt")
    )


def _draw_points(axes: Any, found: Pointing, step: int) -> None:
    """Every point, by whether it was pointed at; the start, the last and the next stand out."""
    xy, size = found.xy, _size(found)
    seen = sorted(set(found.indices[:step]))
    others = [i for i in range(len(xy)) if i not in set(seen)]
    plain = {"linestyle": "none", "markeredgewidth": 0.7, "zorder": 5}

    def mark(places: list[int], label: str, **style: Any) -> None:
        x, y = xy[places].unbind(1)
        axes.plot(x.tolist(), y.tolist(), label=label, **plain | {"markersize": size} | style)

    mark(others, "not yet", marker="o", markerfacecolor="white", markeredgecolor=FAINT)
    mark(seen, "pointed at", marker="o", markerfacecolor=INK, markeredgecolor=INK)
    start = found.indices[:1]
    mark(start, "start", marker="s", color=INK if step else "white", markeredgecolor=INK, zorder=6)
    if step:
        last = found.indices[step - 1 : step]
        big = {"markersize": size + 3, "zorder": 7}
        form = "s" if last == start else "o"
        mark(last, "last", marker=form, color=BLUE, markeredgecolor="white", **big)
    chosen = found.indices[step : step + 1]
    ring = {"markersize": size + 5, "markeredgewidth": 1.4, "zorder": 8}
    mark(chosen, "chosen now", marker="o", color="none", markeredgecolor=RED, **ring)


def _explain_points(axes: Any, sheet: _Sheet) -> None:
    """A line below the plane with what its marks mean."""
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.015, -0.2 / sheet.box.high),
        ncols=5,
        frameon=False,
        fontsize=SMALL,
        labelcolor=FAINT,
        handletextpad=0.1,
        columnspacing=1.0,
    )


def _number_points(axes: Any, found: Pointing, sheet: _Sheet, step: int) -> None:
    """The share of the most probable points, and the numbers of as many as there is room for."""
    w, places = found.weights[step], sheet.inches(found.xy)
    top = [i for i in w.argsort(descending=True).tolist()[:_NAMED] if float(w[i]) >= LEAST]
    last, chosen = found.indices[max(0, step - 1) : step], found.indices[step : step + 1]
    rest = [*last, *found.indices[:1], *(range(len(w)) if len(w) <= _NUMBERED else ())]
    order = list(dict.fromkeys([*chosen, *top, *rest]))
    told = {*chosen, *top}
    labels = [f"{i} · {_percent(float(w[i]))}" if i in told else str(i) for i in order]
    radii = torch.full((len(w), 1), (_size(found) / 2 + 0.7) / 72, dtype=torch.float64)
    radii[last], radii[chosen] = radii[0] + 1.5 / 72, radii[0] + 2.5 / 72
    for i in told if step == 0 else ():
        radii[i] = max(float(radii[i]), _disc(float(w[i])) / 2 / 72)
    words = []
    for i, inches in zip(order, _widths(labels), strict=True):
        x, y = places[i].tolist()
        must = i in told or i in last
        words.append(Word(x, y, inches, 0.8 * LINE, float(radii[i]), must))
    discs, lines = torch.cat([places, radii], 1), _lines(found, places, step)
    middles = beside(words, points=discs, lines=lines, box=sheet.box[2:])
    for i, label, middle in zip(order, labels, middles, strict=True):
        if middle is not None:
            x, y = middle[0] / sheet.box.wide, middle[1] / sheet.box.high
            ink = RED if i in chosen else BLUE if i in told else FAINT
            style: dict[str, Any] = {"size": SMALL, "color": ink, "transform": axes.transAxes}
            if i in told:
                style["bbox"] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
                style["weight"] = "bold"
            axes.text(x, y, label, ha="center", va="center", zorder=9, **style)


def _widths(labels: list[str]) -> list[float]:
    """How wide words are that may be bold."""
    return [1.12 * inches for inches in measured(labels, SMALL)]


def _lines(found: Pointing, places: Tensor, step: int) -> Tensor:
    """What words had better not cover (L, 5): what is drawn counts more than what is faint."""
    edges = [(e.start, e.end, 1.0 if e.step < step else 0.3) for e in found.edges]
    w = found.weights[step]
    if step:
        here = found.indices[step - 1]
        edges += [(here, i, 0.3 + float(w[i])) for i in range(len(w)) if float(w[i]) >= LEAST]
    if not edges:
        return torch.zeros(0, 5)
    starts, ends, worth = zip(*edges, strict=True)
    counts = torch.tensor(worth, dtype=torch.float64)[:, None]
    return torch.cat([places[list(starts)], places[list(ends)], counts], 1)


def _caption(
    figure: "matplotlib.figure.Figure", found: Pointing, sheet: _Sheet, labels: list[str], step: int
) -> None:
    """Above the plane the step and how probable the end is; below, what is not drawn."""
    x, y = sheet.box.x, sheet.box.y - 0.09
    name = f"step {step}" if labels[step] == str(step) else f"step {step}, “{labels[step]}”"
    write(figure, x, y, name, size=NAME, color=RED)
    end = float(found.ends[step])
    if end >= LEAST:
        x += measured([name], NAME)[0] + 0.15
        write(figure, x, y, f"end · {_percent(end)}", size=NAME, color=BLUE)
    what = "larger a disc" if step == 0 else "wider a line"
    note = f"the {what}, the more probable the point; below {_percent(LEAST)} none is drawn"
    style = {"size": SMALL, "color": FAINT, "va": "bottom"}
    write(figure, sheet.box.x, figure.get_size_inches()[1] - MARGIN, note, **style)
    if found.task == "order":
        right = sheet.box.x + sheet.box.wide
        write(figure, right, y, "value over place", size=SMALL, color=FAINT, ha="right")


def _mixed(ink: str) -> tuple[float, float, float]:
    """A colour as shares of red, green and blue."""
    red, green, blue = (int(ink[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _size(found: Pointing) -> float:
    """How large a point is, in points of print."""
    return min(6.0, max(2.2, 28 / len(found.xy) ** 0.5))


def _thick(found: Pointing) -> float:
    return 1.5 if len(found.xy) <= _NUMBERED else 1.1


def _disc(share: Number) -> float:
    """How wide the disc of a point is that may be first, in points of print."""
    return (40 + 400 * share) ** 0.5


def _percent(share: Number) -> str:
    """A share of one in words.

    >>> [_percent(share) for share in (0.004, 0.01, 0.624, 1.0)]
    ['<1 %', '1 %', '62 %', '100 %']
    """
    return "<1 %" if share < 0.01 else f"{100 * share:.0f} %"
