"""All steps that point at points as a matrix: how probable each was, and which was chosen."""

from typing import TYPE_CHECKING, Any

import torch

from regard.check import Number
from regard.view.figures import measured
from regard.view.panels import (
    BAR,
    FAINT,
    GAP,
    INK,
    LINE,
    NAME,
    RED,
    SMALL,
    Box,
    colour_bar,
    draw_cells,
    placed,
    round_numbers,
    spaced,
    write,
)
from regard.view.pointers import Pointing

if TYPE_CHECKING:
    import matplotlib.figure

# A point that is never more probable, nor pointed at, is left out.
LEAST = 0.01


def draw_choices(
    figure: "matplotlib.figure.Figure", found: Pointing, labels: list[str], step: int, box: Box
) -> None:
    """How probable every point was at every step, and the ones that were chosen."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    T, ended = len(labels), bool(found.ends.any())
    order = columns(found)
    values, names = found.weights[:, order], [str(i) for i in order]
    if ended:
        values, names = torch.cat([values, found.ends[:, None]], 1), [*names, "end"]
    axes = placed(figure, *box)
    image = draw_cells(axes, values, "cividis", Normalize(0, 1), box[2:])
    cell = min(box.wide / len(names), box.high / T)
    chosen = [(t, order.index(i)) for t, i in enumerate(found.indices)]
    chosen += [(t, len(order)) for t in range(len(chosen), T) if ended]
    around = [Rectangle((k - 0.5, t - 0.5), 1, 1) for t, k in chosen]
    # around the smallest cells, it would hide them
    thick = min(1.1, 8 * cell) if cell > 0.012 else 0.0
    axes.add_collection(
        PatchCollection(around, facecolor="none", edgecolor=RED, linewidth=thick, zorder=3)
    )
    if ended:
        axes.axvline(len(order) - 0.5, color="white", linewidth=0.8)
    _name_columns(axes, names, box.wide / len(names))
    write(figure, box.x, box.y - 0.25, headline(found), size=NAME, color=FAINT)
    _name_rows(axes, labels, step, box)
    bar = placed(figure, box.x + box.wide + 0.1 + 0.06, box.y, BAR, max(box.high, 0.8))
    colour_bar(figure, image, bar, max(box.high, 0.8), "probability")


def columns(found: Pointing) -> list[int]:
    """The points of the matrix: as first pointed at, then others that were ever probable.

    In this order, what was chosen goes down from left to right.
    """
    likely = (found.weights.amax(0) >= LEAST).nonzero().flatten().tolist()
    return list(dict.fromkeys([*found.indices, *likely])) or list(range(len(found.xy)))


def headline(found: Pointing) -> str:
    """What stands above the matrix: which points are its columns."""
    N, there = len(found.xy), len(columns(found))
    count = f"{there} of {N}" if there < N else f"{N}"
    return f"{count} {'point' if N == 1 else 'points'}, as first pointed at"


def _name_columns(axes: Any, names: list[str], column: Number) -> None:
    wide = [(inches + GAP) / column for inches in measured(names, SMALL)]
    every = next(n for n in round_numbers() if n >= max(wide[:-1], default=0))
    # the end, where there is one, before all others
    wanted = [*range(len(names) - (names[-1] == "end"), len(names)), *range(0, len(names), every)]
    places = spaced([(p, wide[p]) for p in wanted])
    axes.xaxis.tick_top()
    axes.set_xticks(places, [names[p] for p in places], size=SMALL, color=INK)


def _name_rows(axes: Any, labels: list[str], step: int, box: Box) -> None:
    """What each step did, or where there is no room its number; the step shown is marked."""
    row = box.high / len(labels)
    if row >= LINE:
        places, names = list(range(len(labels))), labels
    else:
        every = next(n for n in round_numbers() if n * row >= LINE)
        tall = LINE / row
        places = spaced([(p, tall) for p in (step, *range(0, len(labels), every))])
        names = [str(p) for p in places]
    axes.set_yticks(places, names, size=SMALL, color=INK)
    axes.tick_params(length=2, color=FAINT, pad=2)
    axes.get_yticklabels()[places.index(step)].set(color=RED, weight="bold")
    axes.set_ylabel("steps", size=NAME, color=FAINT, labelpad=3)
    ends = [-0.5, axes.get_xlim()[1]]
    thin = min(0.8, max(0.3, 18 * row))
    for edge in (step - 0.5, step + 0.5):
        axes.plot(ends, [edge, edge], color=RED, linewidth=thin, clip_on=False, zorder=4)
