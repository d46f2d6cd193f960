"""Figures without pyplot: nothing global is left behind, and the same picture is the same bytes."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.check import Number
from regard.runtime.atomic_files import write_file

if TYPE_CHECKING:
    import matplotlib.figure

# Matplotlib's own font first, then what a machine may have for the scripts which that one lacks.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "Arial Unicode MS",
)
# What would make two files of one picture differ: dates, and versions of what wrote them.
_FILE_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
FIGURE_SUFFIXES = tuple(_FILE_METADATA)
_DPI = 200


def save_figure(figure: "matplotlib.figure.Figure", path: str | Path) -> Path:
    """Write a figure as .png, .svg or .pdf, whole or not at all; text stays text."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _FILE_METADATA:
        raise ValueError(
            f"save_figure: expected a path that ends in {', '.join(_FILE_METADATA)}, got "
            f"{str(path)!r}"
        )
    return write_file(path, _figure_bytes(figure, ending))


def blank_figure(width: Number, height: Number) -> "matplotlib.figure.Figure":
    """An empty figure of this many inches, which shows itself in a notebook."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, height), dpi=100)
    FigureCanvasAgg(figure)
    # a notebook that never imported pyplot knows no figures, and asks the object itself
    setattr(figure, "_repr_png_", partial(_figure_bytes, figure, ".png", 144))  # noqa: B010
    return figure


@contextmanager
def plot_style() -> Iterator[None]:
    """Inside, matplotlib follows its defaults and ours, whatever style is in use outside."""
    try:
        from matplotlib import font_manager, style
    except ModuleNotFoundError:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'regard[plot]'") from None
    there = set(font_manager.get_font_names())
    ours = {
        "font.family": [name for name in _FONTS if name in there] + ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        # a token may be `$x_1$`
        "text.parse_math": False,
        "text.usetex": False,
        # letters as wide at every size as they were measured
        "text.hinting": "none",
        "svg.fonttype": "none",
        "svg.hashsalt": "regard",
        "pdf.fonttype": 42,
        "axes.linewidth": 0.6,
    }
    with style.context(["default", ours]), warnings.catch_warnings():
        # a script without a font shows as boxes, which says enough
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def text_widths(texts: list[str], font_size: Number) -> list[float]:
    """How many inches wide each text is at a font size in points; call it inside `drawing`."""
    from matplotlib.font_manager import FontProperties

    figure = blank_figure(1, 1)
    figure.dpi = _DPI
    renderer, font = figure.canvas.get_renderer(), FontProperties(size=font_size)  # type: ignore[attr-defined]
    wide = [renderer.get_text_width_height_descent(text, font, False)[0] for text in texts]
    return [pixels / figure.dpi for pixels in wide]


def _figure_bytes(figure: "matplotlib.figure.Figure", suffix: str, dpi: int = _DPI) -> bytes:
    page = io.BytesIO()
    with plot_style():
        figure.savefig(page, format=suffix[1:], dpi=dpi, metadata=_FILE_METADATA[suffix])
    return page.getvalue()
