"""All steps that point at points as a matrix: how probable each was, and which was chosen."""

from typing import TYPE_CHECKING, Any

import torch

from regard.check import Number
from regard.view.figures.canvas import text_widths
from regard.view.figures.panels import (
    BAR_WIDTH,
    FAINT,
    GAP,
    INK,
    LINE_HEIGHT,
    NAME_SIZE,
    RED,
    SMALL_SIZE,
    Box,
    add_axes,
    add_colour_bar,
    add_text,
    draw_cells,
    non_overlapping,
    round_numbers,
)
from regard.view.traces.pointer_trace import PointerTrace

if TYPE_CHECKING:
    import matplotlib.figure

# A point that is never more probable, nor pointed at, is left out.
MIN_PROBABILITY = 0.01


def draw_choices(
    figure: "matplotlib.figure.Figure",
    pointer: PointerTrace,
    labels: list[str],
    step: int,
    box: Box,
) -> None:
    """How probable every point was at every step, and the ones that were chosen."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    T, ended = len(labels), bool(pointer.end_probability.any())
    order = matrix_columns(pointer)
    values, names = pointer.weights[:, order], [str(i) for i in order]
    if ended:
        values, names = torch.cat([values, pointer.end_probability[:, None]], 1), [*names, "end"]
    axes = add_axes(figure, *box)
    image = draw_cells(axes, values, "cividis", Normalize(0, 1), box[2:])
    cell = min(box.width / len(names), box.height / T)
    chosen = [(t, order.index(i)) for t, i in enumerate(pointer.indices)]
    chosen += [(t, len(order)) for t in range(len(chosen), T) if ended]
    around = [Rectangle((k - 0.5, t - 0.5), 1, 1) for t, k in chosen]
    # around the smallest cells, it would hide them
    thick = min(1.1, 8 * cell) if cell > 0.012 else 0.0
    axes.add_collection(
        PatchCollection(around, facecolor="none", edgecolor=RED, linewidth=thick, zorder=3)
    )
    if ended:
        axes.axvline(len(order) - 0.5, color="white", linewidth=0.8)
    _name_columns(axes, names, box.width / len(names))
    add_text(figure, box.x, box.y - 0.25, matrix_title(pointer), size=NAME_SIZE, color=FAINT)
    _name_rows(axes, labels, step, box)
    bar = add_axes(figure, box.x + box.width + 0.1 + 0.06, box.y, BAR_WIDTH, max(box.height, 0.8))
    add_colour_bar(figure, image, bar, max(box.height, 0.8), "probability")


def matrix_columns(pointer: PointerTrace) -> list[int]:
    """The points of the matrix: as first pointed at, then others that were ever probable.

    In this order, what was chosen goes down from left to right.
    """
    likely = (pointer.weights.amax(0) >= MIN_PROBABILITY).nonzero().flatten().tolist()
    return list(dict.fromkeys([*pointer.indices, *likely])) or list(range(len(pointer.xy)))


def matrix_title(pointer: PointerTrace) -> str:
    """What stands above the matrix: which points are its columns."""
    N, there = len(pointer.xy), len(matrix_columns(pointer))
    count = f"{there} of {N}" if there < N else f"{N}"
    return f"{count} {'point' if N == 1 else 'points'}, as first pointed at"


def _name_columns(axes: Any, names: list[str], column_width: Number) -> None:
    wide = [(inches + GAP) / column_width for inches in text_widths(names, SMALL_SIZE)]
    every = next(n for n in round_numbers() if n >= max(wide[:-1], default=0))
    # the end, where there is one, before all others
    wanted = [*range(len(names) - (names[-1] == "end"), len(names)), *range(0, len(names), every)]
    places = non_overlapping([(p, wide[p]) for p in wanted])
    axes.xaxis.tick_top()
    axes.set_xticks(places, [names[p] for p in places], size=SMALL_SIZE, color=INK)


def _name_rows(axes: Any, labels: list[str], step: int, box: Box) -> None:
    """What each step did, or where there is no room its number; the step shown is marked."""
    row = box.height / len(labels)
    if row >= LINE_HEIGHT:
        places, names = list(range(len(labels))), labels
    else:
        every = next(n for n in round_numbers() if n * row >= LINE_HEIGHT)
        tall = LINE_HEIGHT / row
        places = non_overlapping([(p, tall) for p in (step, *range(0, len(labels), every))])
        names = [str(p) for p in places]
    axes.set_yticks(places, names, size=SMALL_SIZE, color=INK)
    axes.tick_params(length=2, color=FAINT, pad=2)
    axes.get_yticklabels()[places.index(step)].set(color=RED, weight="bold")
    axes.set_ylabel("steps", size=NAME_SIZE, color=FAINT, labelpad=3)
    ends = [-0.5, axes.get_xlim()[1]]
    thin = min(0.8, max(0.3, 18 * row))
    for edge in (step - 0.5, step + 0.5):
        axes.plot(ends, [edge, edge], color=RED, linewidth=thin, clip_on=False, zorder=4)
