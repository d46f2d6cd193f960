"""What all figures share: inks, margins, and panels, words and titles at places in inches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from regard.check import Number
from regard.view.figures.canvas import text_widths
from regard.view.traces.axes import Axis
from regard.view.traces.labels import escape_invisible, truncate_text
from regard.view.traces.trace import Trace

if TYPE_CHECKING:
    import matplotlib.figure

# Inches.
MARGIN, GAP, BAR_WIDTH = 0.12, 0.06, 0.11
# Points: the size of names and of small words; in inches, how high a line of these is.
NAME_SIZE, SMALL_SIZE = 8, 7
LINE_HEIGHT = 1.3 * SMALL_SIZE / 72
INK, FAINT, BLUE = "#222222", "#666666", "#1d4f91"
# The step up close.
RED = "#d8432b"
# The font has no pictures of control characters; here they are spelled as in Python.
_CONTROL_ESCAPES = {0x2400 + code: repr(chr(code))[1:-1] for code in range(32)} | {0x2421: r"\x7f"}


class Box(NamedTuple):
    """A place in inches, counted from the upper left corner."""

    x: Number
    y: Number
    width: Number
    height: Number


def add_axes(
    figure: "matplotlib.figure.Figure", x: Number, y: Number, width: Number, height: Number
) -> Any:
    """Axes at a place in inches, counted from the upper left corner."""
    W, H = figure.get_size_inches()
    return figure.add_axes((x / W, 1 - (y + height) / H, width / W, height / H))


def add_text(
    figure: "matplotlib.figure.Figure", x: Number, y: Number, text: str, **style: Any
) -> None:
    """Text at a place in inches, counted from the upper left corner."""
    W, H = figure.get_size_inches()
    figure.text(x / W, 1 - y / H, text, **style)


def axis_labels(axis: Axis) -> list[str]:
    """The labels of an axis, short and in signs that the font has."""
    return [
        truncate_text(escape_invisible(label).translate(_CONTROL_ESCAPES), 20)
        for label in axis.labels
    ]


def title_parts(trace: Trace, location: str) -> tuple[str, str]:
    """What may be cut, the name of the trace, and what may not, the place in the model."""
    name = truncate_text(escape_invisible(trace.header.title or trace.header.model), 90) + " · "
    return name.removeprefix("∅ · "), location


def title_width(title: tuple[str, str]) -> float:
    """How wide a figure must be for its title; a long name is cut before it makes it wider."""
    whole, place = text_widths(["".join(title), title[1]], 11)
    return 2 * MARGIN + max(place, min(6, whole))


def add_title(figure: "matplotlib.figure.Figure", title: tuple[str, str]) -> None:
    """Write the title in the upper left corner, its name cut to what the figure has room for."""
    name, place = title
    wide = figure.get_size_inches()[0] - 2 * MARGIN + 0.01
    while len(name) > 5 and text_widths([name + place], 11)[0] > wide:
        name = name.removesuffix("… · ").removesuffix(" · ")[:-1] + "… · "
    add_text(figure, MARGIN, MARGIN, name + place, size=11, color=INK, va="top")


def add_colour_bar(
    figure: "matplotlib.figure.Figure", image: Any, axes: Any, height: Number, name: str = "weight"
) -> None:
    """Fill upright axes with the colours of an image, and say what they mean."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    bar = figure.colorbar(image, cax=axes)
    if not isinstance(bar.norm, LogNorm):
        bar.locator = MaxNLocator(max(1, min(5, int(height / 0.3))))
    bar.minorlocator = NullLocator()
    bar.formatter = StrMethodFormatter("{x:.3g}")
    bar.update_ticks()
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=7, length=2, color=FAINT, labelcolor=FAINT)
    axes.set_ylabel(name, size=8, color=FAINT)


def draw_cells(
    axes: Any, values: Tensor, colormap: str, norm: Any, sides: tuple[Number, Number]
) -> Any:
    """The image of numbers (rows, columns) that fill axes of these sides in inches."""
    cell = min(side / n for side, n in zip(sides, reversed(values.shape), strict=True))
    axes.spines[:].set(color=FAINT, linewidth=0.4)
    axes.set(xticks=[], yticks=[])
    # one pixel a cell, enlarged by the viewer; below a pixel or two, cells must be blended
    crisp = "none" if cell > 0.02 else None
    return axes.imshow(values.numpy(), cmap=colormap, norm=norm, aspect="auto", interpolation=crisp)


def draw_curve(
    axes: Any, points: list[tuple[Number, Number]], line_width: Number, opacity: Number
) -> Any:
    """A cubic with these two ends and handles, so many points thick, and dark from 0 to 1."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    curve = PathPatch(
        path, fc="none", ec=BLUE, lw=line_width, alpha=min(1, opacity), capstyle="butt"
    )
    return axes.add_patch(curve)


def non_overlapping(candidates: list[tuple[int, float]]) -> list[int]:
    """The places, each given with its extent, that touch none of those before them in the list."""
    kept: dict[int, float] = {}
    for place, extent in candidates:
        if all(abs(place - other) >= (extent + wide) / 2 for other, wide in kept.items()):
            kept[place] = extent
    return sorted(kept)


def round_numbers() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, …"""
    return (n * 10**power for power in range(9) for n in (1, 2, 5))
