"""A trace as a picture in a file, of the kind that the file's ending says."""

from pathlib import Path

from regard.files import write
from regard.view.colours import Scale
from regard.view.figures import FIGURES, save_figure
from regard.view.plots import matrix
from regard.view.standalone import page
from regard.view.trace import Trace

ENDINGS = (*FIGURES, ".html")


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
    if ending not in ENDINGS:
        raise ValueError(
            f"save_picture: expected a path that ends in {', '.join(ENDINGS)}, got {str(path)!r}"
        )
    if ending == ".html" and scale != "linear":
        raise ValueError(
            f"save_picture: expected scale linear for .html, got {scale}; the page lets you choose"
        )
    if ending == ".html":
        text = page(trace, map=map, layer=layer, head=head, words=words)
        return write(path, text.encode())
    figure = matrix(trace, map=map, layer=layer, head=head, scale=scale, words=words)
    return save_figure(figure, path)
