"""The text of a file that a person names, plain or as .gz; what is none is refused in words."""

import gzip
import zlib
from pathlib import Path

# A file of a few MB may unpack to thousands of times as much.
MAX_BYTES = 2**28
_PIECE_BYTES = 2**20


def read_text(where: str, path: Path) -> str:
    """All that stands in a file, without the mark that some editors put at its beginning.

    Args:
        where: who reads, for the error message.

    Raises:
        ValueError: nothing there, a folder, a file that cannot be opened, is damaged or too large,
            or no text.
    """
    if path.is_dir():
        raise ValueError(f"{where}: expected a file, got the folder {path}")
    if not path.is_file():
        raise ValueError(f"{where}: expected a file, got nothing at {path}")
    try:
        content = _unpacked_bytes(path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{where}: {path} is damaged: {error}") from None
    except OSError as error:
        raise ValueError(f"{where}: cannot open {path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ValueError(f"{where}: expected at most {MAX_BYTES:,} bytes in {path}, got more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{where}: expected text, got other bytes in line {line} of {path}"
        ) from None


def _unpacked_bytes(path: Path) -> bytearray:
    """The bytes of a file, unpacked; reading stops soon after MOST_BYTES."""
    content = bytearray()
    with path.open("rb") as file:
        packed = path.name.lower().endswith(".gz")
        stream = gzip.GzipFile(fileobj=file) if packed else file
        while len(content) <= MAX_BYTES and (piece := stream.read(_PIECE_BYTES)):
            content += piece
    return content
