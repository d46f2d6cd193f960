"""A trace as a picture in a file, of the kind that the file's ending says."""

from pathlib import Path

from regard.runtime.atomic_files import write_file
from regard.view.export.standalone import page
from regard.view.figures.canvas import FIGURE_SUFFIXES, save_figure
from regard.view.figures.colours import Scale
from regard.view.figures.plots import matrix
from regard.view.traces.trace import Trace

PICTURE_SUFFIXES = (*FIGURE_SUFFIXES, ".html")


def save_picture(
    trace: Trace,
    path: str | Path,
    *,
    map: str | None = None,
    layer: int = 0,
    head: int = 0,
    scale: Scale = "linear",
    words: bool = False,
) -> Path:
    """Write the matrix of one head as .png, .svg or .pdf, or a page of all heads as .html."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in PICTURE_SUFFIXES:
        raise ValueError(
            f"save_picture: expected a path that ends in {', '.join(PICTURE_SUFFIXES)}, got "
            f"{str(path)!r}"
        )
    if ending == ".html" and scale != "linear":
        raise ValueError(
            f"save_picture: expected scale linear for .html, got {scale}; the page lets you choose"
        )
    if ending == ".html":
        text = page(trace, map=map, layer=layer, head=head, words=words)
        return write_file(path, text.encode())
    figure = matrix(trace, map=map, layer=layer, head=head, scale=scale, words=words)
    return save_figure(figure, path)
