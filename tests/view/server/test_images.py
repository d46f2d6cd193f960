"""Images are unpacked only if they are small, whole and of three kinds, and lose all else."""

import io
import struct
import sys
import zipfile
import zlib

import pytest
import torch

from regard.view.server.images import decode_image

Image = pytest.importorskip("PIL.Image")


def written(kind="PNG", size=(3, 2), mode="RGB", colour="red", **how):
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, kind, **how)
    return file.getvalue()


def claiming(wide, high):
    """A PNG of a few bytes whose header claims so many pixels."""

    def chunk(kind, data):
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    rest = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + rest


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10**6))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_three_kinds_are_read_channels_first(kind):
    found = decode_image(written(kind, colour=(255, 0, 0)), max_pixels=100)
    assert found.dtype == torch.uint8
    assert found.shape == (3, 2, 3)
    assert found[0].min() > 200
    assert found[1:].max() < 40


def test_what_is_clear_lies_on_white_and_grey_becomes_three_channels():
    clear = decode_image(written(mode="RGBA", colour=(255, 0, 0, 0)), max_pixels=100)
    assert clear.unique().tolist() == [255]
    grey = decode_image(written(mode="L", colour=7), max_pixels=100)
    assert grey.unique().tolist() == [7]
    assert grey.shape == (3, 2, 3)


def test_a_photograph_stands_upright_whatever_its_camera_said():
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    assert decode_image(written("JPEG", exif=exif), max_pixels=100).shape == (3, 3, 2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (claiming(60_000, 60_000), "expected at most 16000000 pixels, got more"),
        (claiming(10_000, 10_000), "expected at most 16000000 pixels, got 10000 × 10000"),
        (claiming(4_001, 4_000), "expected at most 16000000 pixels, got 4001 × 4000"),
        (claiming(4_000, 4_000), "expected a whole file, got a broken one"),
        (written(size=(64, 64))[:80], "expected a whole file, got a broken one"),
        (written("JPEG", size=(64, 64))[:-20], "expected a whole file, got a broken one"),
        (written("GIF"), "expected a PNG, a JPEG or a WebP, got something else"),
        (written("BMP"), "expected a PNG, a JPEG or a WebP, got something else"),
        (written("TIFF"), "expected a PNG, a JPEG or a WebP, got something else"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "expected a PNG, a JPEG or a WebP, got s"),
        (zipped(), "expected a PNG, a JPEG or a WebP, got something else"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "expected a PNG, a JPEG or a WebP, got something else"),
        (b"", "expected a PNG, a JPEG or a WebP, got something else"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_bombs_broken_files_and_other_kinds_are_a_sentence(data, words):
    with pytest.raises(ValueError, match=f"image: {words}"):
        decode_image(data, max_pixels=16_000_000)


def test_without_pillow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'regard\[web\]'"):
        decode_image(b"", max_pixels=1)
