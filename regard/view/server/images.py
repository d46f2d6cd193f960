"""An image that somebody sent, as bytes (3, Y, X): its size believed before it is unpacked."""

import io
import warnings
from typing import Any

import numpy
import torch
from torch import Tensor

FORMATS = ("PNG", "JPEG", "WEBP")


def decode_image(data: bytes, *, max_pixels: int) -> Tensor:
    """The picture of a file as a tensor of bytes (3, Y, X); nothing else of the file is kept.

    Raises:
        ValueError: it is no such file, not a whole one, or of more pixels, in one line.
    """
    Image, ImageOps = _import_pillow()
    try:
        with warnings.catch_warnings():
            # whatever Pillow thinks of its size, ours is the smaller bound
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            opened = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError:
        raise _too_large_error(max_pixels) from None
    except Exception:  # Pillow's readers raise whatever a strange file makes them stumble over
        raise ValueError("image: expected a PNG, a JPEG or a WebP, got something else") from None
    with opened:
        wide, high = opened.size
        if wide * high > max_pixels:
            raise _too_large_error(max_pixels, f"{wide} × {high}")
        try:
            turned = ImageOps.exif_transpose(opened)
            return torch.from_numpy(numpy.array(_on_white(Image, turned))).permute(2, 0, 1)
        except Exception:  # as above
            raise ValueError("image: expected a whole file, got a broken one") from None


def _on_white(pillow: Any, opened: Any) -> Any:
    """In red, green and blue, without what shines through."""
    if not opened.has_transparency_data:
        return opened.convert("RGB")
    clear = opened.convert("RGBA")
    return pillow.alpha_composite(pillow.new("RGBA", clear.size, "white"), clear).convert("RGB")


def _too_large_error(max_pixels: int, got: str = "more") -> ValueError:
    return ValueError(f"image: expected at most {max_pixels} pixels, got {got}")


def _import_pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise ModuleNotFoundError("images need Pillow: pip install 'regard[web]'") from None
    return Image, ImageOps
