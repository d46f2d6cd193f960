"""What was seen, as data and as pictures: `Trace`, its files, plots, text and pages."""

from regard.view.arcs import arcs
from regard.view.axes import Axis, Grid, Points, Slots, Steps, Tokens
from regard.view.figures import save_figure
from regard.view.files import load, save
from regard.view.pictures import save_picture
from regard.view.planes import plane
from regard.view.plots import matrix, ribbons, wall
from regard.view.seeing import trace
from regard.view.showing import show
from regard.view.standalone import page
from regard.view.tapes import tape
from regard.view.text import alignment
from regard.view.trace import Header, Map, Series, Stats, Trace, UnseenError
from regard.view.words import by_words

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
