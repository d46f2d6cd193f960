"""A trace in a notebook: the page itself in a cell, with the numbers handed over as bytes."""

import gzip
from typing import TYPE_CHECKING

from regard.view.export import bundle
from regard.view.traces.page_json import to_page_json
from regard.view.traces.trace import Trace
from regard.view.traces.words import by_words

if TYPE_CHECKING:
    import anywidget


def show(
    trace: Trace, *, map: str | None = None, layer: int = 0, head: int = 0, words: bool = False
) -> "anywidget.AnyWidget":
    """The trace as a widget of a notebook, which shows itself as the last line of a cell.

    Args:
        map: the map shown first; the first one if none is named. The others can be chosen.
        layer: the layer shown first.
        head: the head shown first.
        words: whether the tokens of a word are drawn as one.

    Raises:
        ModuleNotFoundError: anywidget is not installed.
        ValueError: there is no such head, or there are more weights than a page holds.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError:
        raise ModuleNotFoundError("show needs anywidget: pip install 'regard[widget]'") from None
    trace = by_words(trace) if words else trace
    chosen = trace.map(map)
    chosen.check_head(layer, head)
    place = {"map": chosen.id, "layer": str(layer), "head": str(head)}

    class PageWidget(anywidget.AnyWidget):
        """The page in a cell; `data` is what a saved page has inside, zipped."""

        _esm = bundle.script()
        _css = bundle.style()
        data = traitlets.Bytes().tag(sync=True)

    return PageWidget(data=gzip.compress(to_page_json(trace, place).encode(), 6, mtime=0))
