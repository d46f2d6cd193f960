"""Figures for a page of paper: as wide as its column, and where they come from written inside.

A figure wider than the column is made smaller with everything in it, letters too; a narrower one
keeps its size and stands in the middle.
"""

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.view.figures.canvas import plot_style
from regard.view.traces.labels import escape_invisible
from regard.view.traces.trace import Header

if TYPE_CHECKING:
    import matplotlib.figure

FigureFormat = Literal["png", "svg", "pdf"]
_PRINT_DPI, _MM_PER_INCH = 300, 25.4


def render_for_paper(
    figure: "matplotlib.figure.Figure", kind: FigureFormat, *, width: int, header: Header
) -> bytes:
    """The bytes of a picture.

    Args:
        width: how wide it is, in millimetres.
        header: where it comes from, which is written into the file.
    """
    paper = _Paper.fit_figure(figure, width)
    with plot_style():
        return _RENDERERS[kind](figure, paper, header)


def provenance_line(header: Header) -> str:
    """Model, seed and versions in one line."""
    seed = [] if header.seed is None else [f"seed {header.seed}"]
    versions = [f"{name} {version}" for name, version in header.versions.items()]
    facts = [header.model, header.run_id, header.dtype, header.device, *seed, *versions]
    return escape_invisible(" · ".join(fact for fact in facts if fact)) if any(facts) else ""


@dataclass(frozen=True)
class _Paper:
    """The paper in inches: its sides, how much smaller a figure stands on it, and how far in."""

    width: float
    height: float
    scale: float
    left: float

    @classmethod
    def fit_figure(cls, figure: "matplotlib.figure.Figure", width: int) -> "_Paper":
        w, h = map(float, figure.get_size_inches())
        wide = width / _MM_PER_INCH
        scale = min(1.0, wide / w)
        return cls(wide, h * scale, scale, (wide - w * scale) / 2)


def _png_bytes(figure: "matplotlib.figure.Figure", paper: _Paper, header: Header) -> bytes:
    from matplotlib.transforms import Bbox

    file = io.BytesIO()
    side, (w, h) = paper.left / paper.scale, figure.get_size_inches()
    told = {"Title": _title_text(header), "Description": provenance_line(header), "Software": None}
    figure.savefig(
        file,
        format="png",
        # parts of a pixel are cut off, so a little more than what is to be there
        dpi=(round(_PRINT_DPI * paper.width) + 1e-4) * paper.scale / paper.width,
        bbox_inches=Bbox.from_extents(-side, 0, w + side, h),
        metadata={name: text for name, text in told.items() if text != ""},
        pil_kwargs={"dpi": (_PRINT_DPI, _PRINT_DPI)},
    )
    return file.getvalue()


def _svg_bytes(figure: "matplotlib.figure.Figure", paper: _Paper, header: Header) -> bytes:
    file = io.BytesIO()
    told = {"Title": _title_text(header), "Description": provenance_line(header)}
    metadata: dict[str, Any] = {name: text for name, text in told.items() if text}
    figure.savefig(file, format="svg", metadata=metadata | {"Date": None, "Creator": None})
    units = [72 * n / paper.scale for n in (0 - paper.left, 0, paper.width, paper.height)]
    size = f'width="{_MM_PER_INCH * paper.width:g}mm" height="{_MM_PER_INCH * paper.height:.4f}mm"'
    ours = f'{size} viewBox="{" ".join(f"{n:.4f}" for n in units)}"'
    # the first element that has these is the whole picture
    theirs = r'width="[^"]*" height="[^"]*" viewBox="[^"]*"'
    return re.sub(theirs, ours, file.getvalue().decode(), count=1).encode()


def _pdf_bytes(figure: "matplotlib.figure.Figure", paper: _Paper, header: Header) -> bytes:
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_pdf import Op, PdfFile, RendererPdf

    file, dpi, (w, h) = io.BytesIO(), figure.dpi, figure.get_size_inches()
    told = {"Title": _title_text(header), "Subject": provenance_line(header)}
    metadata: dict[str, Any] = {name: text for name, text in told.items() if text}
    nobody = dict.fromkeys(("CreationDate", "Creator", "Producer"))
    written = PdfFile(file, metadata=metadata | nobody)
    try:
        figure.dpi = 72
        written.newPage(paper.width, paper.height)
        # all that follows is drawn smaller, and from there
        moved = (paper.scale, 0, 0, paper.scale, 72 * paper.left, 0)
        written.output(*moved, Op.concat_matrix)
        renderer = MixedModeRenderer(
            figure, w, h, _PRINT_DPI, RendererPdf(written, _PRINT_DPI, h, w)
        )
        figure.draw(renderer)  # type: ignore[arg-type]
        renderer.finalize()
        written.finalize()
    finally:
        written.close()
        figure.dpi = dpi
    return file.getvalue()


def _title_text(header: Header) -> str:
    return escape_invisible(header.title or header.model) if header.title or header.model else ""


_RENDERERS = {"png": _png_bytes, "svg": _svg_bytes, "pdf": _pdf_bytes}
