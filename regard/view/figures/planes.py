"""Points that are pointed at as a picture: the way so far, where it may go on, and all steps."""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.check import Number
from regard.view.figures.canvas import blank_figure, plot_style, text_widths
from regard.view.figures.choices import (
    MIN_PROBABILITY,
    draw_choices,
    matrix_columns,
    matrix_title,
)
from regard.view.figures.label_layout import Label, place_labels
from regard.view.figures.panels import (
    BAR_WIDTH,
    BLUE,
    FAINT,
    INK,
    LINE_HEIGHT,
    MARGIN,
    NAME_SIZE,
    RED,
    SMALL_SIZE,
    Box,
    add_axes,
    add_text,
    add_title,
    axis_labels,
    title_parts,
    title_width,
)
from regard.view.traces.pointer_trace import PointerTrace, as_pointer_trace
from regard.view.traces.trace import Trace

if TYPE_CHECKING:
    import matplotlib.figure

# What is still to come, and what is inside a triangle.
_FUTURE_COLOUR, _TRIANGLE_COLOUR = "#b4b4b4", "#7f9cc4"
# So many of the most probable points are named with their share.
_NUM_LABELLED_SHARES = 3
# With more points than these, only those that matter at this step are numbered.
_MAX_NUMBERED_POINTS = 60
# Inches: the longer side of the plane, and the room around its points.
_PLANE_SIDE, _PLANE_MARGIN = 4.4, 0.3
# Inches: the largest cell, the widest matrix, and what stands above both parts.
_MAX_CELL_SIDE, _MAX_MATRIX_WIDTH, _HEADER_HEIGHT = 0.3, 4.6, MARGIN + 0.30 + 0.38


class _PlaneLayout(NamedTuple):
    """The place of the plane, in inches and in the numbers of its points."""

    box: Box
    low: Tensor
    high: Tensor
    ticks: tuple[list[float], list[float]]

    def to_inches(self, xy: Tensor) -> Tensor:
        """How far points (…, 2) are from its lower left corner."""
        sides = torch.tensor([self.box.width, self.box.height], dtype=torch.float64)
        return (xy - self.low) / (self.high - self.low) * sides


def plane(trace: Trace, *, step: int | None = None) -> "matplotlib.figure.Figure":
    """Points, the way so far, and a fan to where it may go on; beside it, all steps as a matrix.

    The wider and darker a line of the fan, the more probable the point at which it ends. What
    comes after the step is faint. Numbers that are to be sorted stand over their places.

    Args:
        step: the step that is shown; if none is named, the one least sure where to point.
    """
    found = as_pointer_trace(trace)
    step = found.select_step(step)
    with plot_style():
        return _draw_plane(trace, found, step)


def _draw_plane(trace: Trace, pointer: PointerTrace, step: int) -> "matplotlib.figure.Figure":
    sheet, labels = _plane_layout(pointer), axis_labels(trace.axis(pointer.steps))
    T, K = len(labels), len(matrix_columns(pointer)) + bool(pointer.end_probability.any())
    row, column = (
        min(_MAX_CELL_SIDE, sheet.box.height / T),
        min(_MAX_CELL_SIDE, _MAX_MATRIX_WIDTH / K),
    )
    row, column = min(row, max(6 * column, 0.1)), min(column, max(3 * row, 0.1))
    named = labels if row >= LINE_HEIGHT else [str(T - 1)]
    left = sheet.box.x + sheet.box.width + 0.55 + max(text_widths(named, SMALL_SIZE))
    cells = Box(left, sheet.box.y, column * K, row * T)
    title = title_parts(trace, f"{trace.map().id} · step {step}")
    above = text_widths([matrix_title(pointer)], NAME_SIZE)[0]
    width = left + max(cells.width + 0.16 + BAR_WIDTH + 0.5, above) + MARGIN
    height = sheet.box.y + sheet.box.height + 0.62 + MARGIN
    figure = blank_figure(max(width, title_width(title)), height)
    axes = add_axes(figure, *sheet.box)
    _draw_ticks(axes, sheet)
    if pointer.task == "order":
        _draw_stems(axes, pointer, sheet)
    _draw_route(axes, pointer, step)
    _draw_fan(axes, pointer, step)
    _draw_points(axes, pointer, step)
    _add_legend(axes, sheet)
    _label_points(axes, pointer, sheet, step)
    _add_captions(figure, pointer, sheet, labels, step)
    draw_choices(figure, pointer, labels, step, cells)
    add_title(figure, title)
    return figure


def _plane_layout(pointer: PointerTrace) -> _PlaneLayout:
    """How large the plane is: of the form of its points, unless they are almost on a line."""
    low, high = pointer.xy.amin(0), pointer.xy.amax(0)
    if pointer.task == "order" and 0 < float(low[1]) < float(high[1] - low[1]):
        low = torch.stack([low[0], torch.zeros_like(low[1])])
    span = high - low
    span = torch.where(span > 0, span, float(span.max()) or 1.0)
    form = float(span[1] / span[0])
    even = pointer.task != "order" and 1 / 8 <= form <= 8
    form = min(1.15, max(0.6, form)) if even else 0.75
    sides = torch.tensor([_PLANE_SIDE, _PLANE_SIDE * form], dtype=torch.float64)
    inner = sides - 2 * _PLANE_MARGIN
    scale = inner / span  # inches
    scale = scale.min().expand(2) if even else scale
    middle = (low + high) / 2
    low, high = middle - sides / scale / 2, middle + sides / scale / 2
    places = zip(low.tolist(), high.tolist(), (pointer.task == "order", False), strict=True)
    across, up = (_tick_values(*each) for each in places)
    left = max(text_widths([f"{value:.10g}" for value in up], SMALL_SIZE), default=0)
    box = Box(MARGIN + left + 0.1, _HEADER_HEIGHT, *sides.tolist())
    return _PlaneLayout(box, low, high, (across, up))


def _tick_values(low: float, high: float, whole: bool) -> list[float]:
    """A few round numbers, or whole ones, from one to another."""
    from matplotlib.ticker import MaxNLocator

    values = MaxNLocator(5, integer=whole).tick_values(low, high)
    return [float(value) for value in values if low <= value <= high]


def _draw_ticks(axes: Any, layout: _PlaneLayout) -> None:
    (x0, y0), (x1, y1) = layout.low.tolist(), layout.high.tolist()
    axes.set(xlim=(x0, x1), ylim=(y0, y1))
    across, up = layout.ticks
    axes.set_xticks(across, [f"{value:.10g}" for value in across], size=SMALL_SIZE, color=FAINT)
    axes.set_yticks(up, [f"{value:.10g}" for value in up], size=SMALL_SIZE, color=FAINT)
    axes.tick_params(length=2, color=FAINT, pad=2)
    axes.spines[:].set(color=FAINT, linewidth=0.4)


def _draw_stems(axes: Any, pointer: PointerTrace, layout: _PlaneLayout) -> None:
    """A line from below to each number that is to be sorted."""
    lowest, highest = float(layout.low[1]), float(layout.high[1])
    base = 0.0 if lowest < 0 < highest else lowest
    x, y = pointer.xy.unbind(1)
    axes.vlines(x.tolist(), base, y.tolist(), colors="#dddddd", linewidth=1.2, zorder=1)
    axes.axhline(base, color=_FUTURE_COLOUR, linewidth=0.5, zorder=1)


def _draw_route(axes: Any, pointer: PointerTrace, step: int) -> None:
    """The lines of the answer, dark where they are drawn already, the newest with an arrow."""
    from matplotlib.collections import LineCollection, PolyCollection

    xy, now = pointer.xy.tolist(), step // 3
    corners = [[xy[i] for i in corner] for corner in pointer.triangles]
    shades = [0.42 if k == now else 0.16 if k < now else 0.0 for k in range(len(corners))]
    fills = [(*_rgb_shares(_TRIANGLE_COLOUR), shade) for shade in shades]
    axes.add_collection(PolyCollection(corners, facecolors=fills, zorder=1))
    for drawn, ink, thick in ((False, _FUTURE_COLOUR, 0.8), (True, INK, _route_width(pointer))):
        lines = [(xy[e.start], xy[e.end]) for e in pointer.edges if (e.step < step) is drawn]
        axes.add_collection(LineCollection(lines, colors=ink, linewidths=thick, zorder=2 + drawn))
    last = [e for e in pointer.edges if e.step == step - 1][:1]
    for edge in last:
        style = {
            "arrowstyle": "-|>",
            "color": INK,
            "linewidth": _route_width(pointer),
            "mutation_scale": 9,
        }
        shrunk = {"shrinkA": 0, "shrinkB": _marker_size(pointer) / 2 + 1.5}
        axes.annotate("", xy[edge.end], xy[edge.start], arrowprops=style | shrunk, zorder=3)


def _draw_fan(axes: Any, pointer: PointerTrace, step: int) -> None:
    """From the point that was pointed at last, a line to each that may be next."""
    from matplotlib.collections import LineCollection

    w, xy = pointer.weights[step], pointer.xy.tolist()
    likely = [i for i in w.argsort().tolist() if float(w[i]) >= MIN_PROBABILITY]
    inks = [(*_rgb_shares(BLUE), 0.2 + 0.7 * float(w[i])) for i in likely]
    if step == 0:
        # nothing was pointed at yet: what may be first has a disc instead of a line
        sizes = [_disc_diameter(float(w[i])) ** 2 for i in likely]
        x, y = ([xy[i][n] for i in likely] for n in (0, 1))
        axes.scatter(x, y, sizes, c=inks, linewidths=0, zorder=4)
        return
    here = xy[pointer.indices[step - 1]]
    thick = [0.8 + 7 * float(w[i]) for i in likely]
    lines = [(here, xy[i]) for i in likely]
    axes.add_collection(
        LineCollection(lines, colors=inks, linewidths=thick, zorder=4, capstyle="butt")
    )


def _draw_points(axes: Any, pointer: PointerTrace, step: int) -> None:
    """Every point, by whether it was pointed at; the start, the last and the next stand out."""
    xy, size = pointer.xy, _marker_size(pointer)
    seen = sorted(set(pointer.indices[:step]))
    others = [i for i in range(len(xy)) if i not in set(seen)]
    plain = {"linestyle": "none", "markeredgewidth": 0.7, "zorder": 5}

    def mark(places: list[int], label: str, **style: Any) -> None:
        x, y = xy[places].unbind(1)
        axes.plot(x.tolist(), y.tolist(), label=label, **plain | {"markersize": size} | style)

    mark(others, "not yet", marker="o", markerfacecolor="white", markeredgecolor=FAINT)
    mark(seen, "pointed at", marker="o", markerfacecolor=INK, markeredgecolor=INK)
    start = pointer.indices[:1]
    mark(start, "start", marker="s", color=INK if step else "white", markeredgecolor=INK, zorder=6)
    if step:
        last = pointer.indices[step - 1 : step]
        big = {"markersize": size + 3, "zorder": 7}
        form = "s" if last == start else "o"
        mark(last, "last", marker=form, color=BLUE, markeredgecolor="white", **big)
    chosen = pointer.indices[step : step + 1]
    ring = {"markersize": size + 5, "markeredgewidth": 1.4, "zorder": 8}
    mark(chosen, "chosen now", marker="o", color="none", markeredgecolor=RED, **ring)


def _add_legend(axes: Any, layout: _PlaneLayout) -> None:
    """A line below the plane with what its marks mean."""
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.015, -0.2 / layout.box.height),
        ncols=5,
        frameon=False,
        fontsize=SMALL_SIZE,
        labelcolor=FAINT,
        handletextpad=0.1,
        columnspacing=1.0,
    )


def _label_points(axes: Any, pointer: PointerTrace, layout: _PlaneLayout, step: int) -> None:
    """The share of the most probable points, and the numbers of as many as there is room for."""
    w, places = pointer.weights[step], layout.to_inches(pointer.xy)
    top = [
        i
        for i in w.argsort(descending=True).tolist()[:_NUM_LABELLED_SHARES]
        if float(w[i]) >= MIN_PROBABILITY
    ]
    last, chosen = pointer.indices[max(0, step - 1) : step], pointer.indices[step : step + 1]
    rest = [*last, *pointer.indices[:1], *(range(len(w)) if len(w) <= _MAX_NUMBERED_POINTS else ())]
    order = list(dict.fromkeys([*chosen, *top, *rest]))
    told = {*chosen, *top}
    labels = [f"{i} · {_format_percent(float(w[i]))}" if i in told else str(i) for i in order]
    radii = torch.full((len(w), 1), (_marker_size(pointer) / 2 + 0.7) / 72, dtype=torch.float64)
    radii[last], radii[chosen] = radii[0] + 1.5 / 72, radii[0] + 2.5 / 72
    for i in told if step == 0 else ():
        radii[i] = max(float(radii[i]), _disc_diameter(float(w[i])) / 2 / 72)
    words = []
    for i, inches in zip(order, _bold_text_widths(labels), strict=True):
        x, y = places[i].tolist()
        must = i in told or i in last
        words.append(Label(x, y, inches, 0.8 * LINE_HEIGHT, float(radii[i]), must))
    discs, lines = torch.cat([places, radii], 1), _lines_to_avoid(pointer, places, step)
    middles = place_labels(words, points=discs, lines=lines, box=layout.box[2:])
    for i, label, middle in zip(order, labels, middles, strict=True):
        if middle is not None:
            x, y = middle[0] / layout.box.width, middle[1] / layout.box.height
            ink = RED if i in chosen else BLUE if i in told else FAINT
            style: dict[str, Any] = {"size": SMALL_SIZE, "color": ink, "transform": axes.transAxes}
            if i in told:
                style["bbox"] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
                style["weight"] = "bold"
            axes.text(x, y, label, ha="center", va="center", zorder=9, **style)


def _bold_text_widths(labels: list[str]) -> list[float]:
    """How wide words are that may be bold."""
    return [1.12 * inches for inches in text_widths(labels, SMALL_SIZE)]


def _lines_to_avoid(pointer: PointerTrace, places: Tensor, step: int) -> Tensor:
    """What words had better not cover (L, 5): what is drawn counts more than what is faint."""
    edges = [(e.start, e.end, 1.0 if e.step < step else 0.3) for e in pointer.edges]
    w = pointer.weights[step]
    if step:
        here = pointer.indices[step - 1]
        edges += [
            (here, i, 0.3 + float(w[i])) for i in range(len(w)) if float(w[i]) >= MIN_PROBABILITY
        ]
    if not edges:
        return torch.zeros(0, 5)
    starts, ends, worth = zip(*edges, strict=True)
    counts = torch.tensor(worth, dtype=torch.float64)[:, None]
    return torch.cat([places[list(starts)], places[list(ends)], counts], 1)


def _add_captions(
    figure: "matplotlib.figure.Figure",
    pointer: PointerTrace,
    layout: _PlaneLayout,
    labels: list[str],
    step: int,
) -> None:
    """Above the plane the step and how probable the end is; below, what is not drawn."""
    x, y = layout.box.x, layout.box.y - 0.09
    name = f"step {step}" if labels[step] == str(step) else f"step {step}, “{labels[step]}”"
    add_text(figure, x, y, name, size=NAME_SIZE, color=RED)
    end = float(pointer.end_probability[step])
    if end >= MIN_PROBABILITY:
        x += text_widths([name], NAME_SIZE)[0] + 0.15
        add_text(figure, x, y, f"end · {_format_percent(end)}", size=NAME_SIZE, color=BLUE)
    what = "larger a disc" if step == 0 else "wider a line"
    least = _format_percent(MIN_PROBABILITY)
    note = f"the {what}, the more probable the point; below {least} none is drawn"
    style = {"size": SMALL_SIZE, "color": FAINT, "va": "bottom"}
    add_text(figure, layout.box.x, figure.get_size_inches()[1] - MARGIN, note, **style)
    if pointer.task == "order":
        right = layout.box.x + layout.box.width
        add_text(figure, right, y, "value over place", size=SMALL_SIZE, color=FAINT, ha="right")


def _rgb_shares(ink: str) -> tuple[float, float, float]:
    """A colour as shares of red, green and blue."""
    red, green, blue = (int(ink[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _marker_size(pointer: PointerTrace) -> float:
    """How large a point is, in points of print."""
    return min(6.0, max(2.2, 28 / len(pointer.xy) ** 0.5))


def _route_width(pointer: PointerTrace) -> float:
    return 1.5 if len(pointer.xy) <= _MAX_NUMBERED_POINTS else 1.1


def _disc_diameter(share: Number) -> float:
    """How wide the disc of a point is that may be first, in points of print."""
    return (40 + 400 * share) ** 0.5


def _format_percent(share: Number) -> str:
    """A share of one in words.

    >>> [_format_percent(share) for share in (0.004, 0.01, 0.624, 1.0)]
    ['<1 %', '1 %', '62 %', '100 %']
    """
    return "<1 %" if share < 0.01 else f"{100 * share:.0f} %"
