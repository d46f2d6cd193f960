"""Figures for a page of paper: as wide as its column, and where they come from written inside.

A figure wider than the column is made smaller with everything in it, letters too; a narrower one
keeps its size and stands in the middle.
"""

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.view.figures import drawing
from regard.view.labels import visible
from regard.view.trace import Header

if TYPE_CHECKING:
    import matplotlib.figure

Printed = Literal["png", "svg", "pdf"]
_DPI, _INCH = 300, 25.4


def printed(
    figure: "matplotlib.figure.Figure", kind: Printed, *, width: int, header: Header
) -> bytes:
    """The bytes of a picture.

    Args:
        width: how wide it is, in millimetres.
        header: where it comes from, which is written into the file.
    """
    paper = _Paper.of(figure, width)
    with drawing():
        return _WAYS[kind](figure, paper, header)


def caption(header: Header) -> str:
    """Model, seed and versions in one line."""
    seed = [] if header.seed is None else [f"seed {header.seed}"]
    versions = [f"{name} {version}" for name, version in header.versions.items()]
    facts = [header.model, header.run_id, header.dtype, header.device, *seed, *versions]
    return visible(" · ".join(fact for fact in facts if fact)) if any(facts) else ""


@dataclass(frozen=True)
class _Paper:
    """The paper in inches: its sides, how much smaller a figure stands on it, and how far in."""

    wide: float
    high: float
    scale: float
    left: float

    @classmethod
    def of(cls, figure: "matplotlib.figure.Figure", width: int) -> "_Paper":
        w, h = map(float, figure.get_size_inches())
        wide = width / _INCH
        scale = min(1.0, wide / w)
        return cls(wide, h * scale, scale, (wide - w * scale) / 2)


def _png(figure: "matplotlib.figure.Figure", paper: _Paper, header: Header) -> bytes:
    from matplotlib.transforms import Bbox

    file = io.BytesIO()
    side, (w, h) = paper.left / paper.scale, figure.get_size_inches()
    told = {"Title": _title(header), "Description": caption(header), "Software": None}
    figure.savefig(
        file,
        format="png",
        # parts of a pixel are cut off, so a little more than what is to be there
        dpi=(round(_DPI * paper.wide) + 1e-4) * paper.scale / paper.wide,
        bbox_inches=Bbox.from_extents(-side, 0, w + side, h),
        metadata={name: text for name, text in told.items() if text != ""},
        pil_kwargs={"dpi": (_DPI, _DPI)},
    )
    return file.getvalue()


def _svg(figure: "matplotlib.figure.Figure", paper: _Paper, header: Header) -> bytes:
    file = io.BytesIO()
    told = {"Title": _title(header), "Description": caption(header)}
    metadata: dict[str, Any] = {name: text for name, text in told.items() if text}
    figure.savefig(file, format="svg", metadata=metadata | {"Date": None, "Creator": None})
    units = [72 * n / paper.scale for n in (0 - paper.left, 0, paper.wide, paper.high)]
    size = f'width="{_INCH * paper.wide:g}mm" height="{_INCH * paper.high:.4f}mm"'
    ours = f'{size} viewBox="{" ".join(f"{n:.4f}" for n in units)}"'
    # the first element that has these is the whole picture
    theirs = r'width="[^"]*" height="[^"]*" viewBox="[^"]*"'
    return re.sub(theirs, ours, file.getvalue().decode(), count=1).encode()


def _pdf(figure: "matplotlib.figure.Figure", paper: _Paper, header: Header) -> bytes:
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_pdf import Op, PdfFile, RendererPdf

    file, dpi, (w, h) = io.BytesIO(), figure.dpi, figure.get_size_inches()
    told = {"Title": _title(header), "Subject": caption(header)}
    metadata: dict[str, Any] = {name: text for name, text in told.items() if text}
    nobody = dict.fromkeys(("CreationDate", "Creator", "Producer"))
    written = PdfFile(file, metadata=metadata | nobody)
    try:
        figure.dpi = 72
        written.newPage(paper.wide, paper.high)
        # all that follows is drawn smaller, and from there
        moved = (paper.scale, 0, 0, paper.scale, 72 * paper.left, 0)
        written.output(*moved, Op.concat_matrix)
        renderer = MixedModeRenderer(figure, w, h, _DPI, RendererPdf(written, _DPI, h, w))
        figure.draw(renderer)  # type: ignore[arg-type]
        renderer.finalize()
        written.finalize()
    finally:
        written.close()
        figure.dpi = dpi
    return file.getvalue()


def _title(header: Header) -> str:
    return visible(header.title or header.model) if header.title or header.model else ""


_WAYS = {"png": _png, "svg": _svg, "pdf": _pdf}
