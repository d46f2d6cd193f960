"""What was seen, as data and as pictures: `Trace`, its files, plots, text and pages."""

from regard.view.export.notebook import show
from regard.view.export.pictures import save_picture
from regard.view.export.standalone import page
from regard.view.figures.arcs import arcs
from regard.view.figures.canvas import save_figure
from regard.view.figures.planes import plane
from regard.view.figures.plots import matrix, ribbons, wall
from regard.view.figures.tapes import tape
from regard.view.figures.text import alignment
from regard.view.traces.axes import (
    Axis,
    Grid,
    Points,
    Slots,
    Steps,
    Tokens,
)
from regard.view.traces.files import load, save
from regard.view.traces.from_look import trace
from regard.view.traces.trace import (
    Header,
    Map,
    Series,
    Stats,
    Trace,
    UnseenError,
)
from regard.view.traces.words import by_words

__all__ = [
    "Axis",
    "Grid",
    "Header",
    "Map",
    "Points",
    "Series",
    "Slots",
    "Stats",
    "Steps",
    "Tokens",
    "Trace",
    "UnseenError",
    "alignment",
    "arcs",
    "by_words",
    "load",
    "matrix",
    "page",
    "plane",
    "ribbons",
    "save",
    "save_figure",
    "save_picture",
    "show",
    "tape",
    "trace",
    "wall",
]
