"""The text of a file that a person names, plain or as .gz; what is none is refused in words."""

import gzip
import zlib
from pathlib import Path


def text(where: str, path: Path) -> str:
    """All that stands in a file, without the mark that some editors put at its beginning.

    Args:
        where: who reads, for the error message.

    Raises:
        ValueError: nothing there, a folder, a file that cannot be opened or is damaged, or no text.
    """
    if path.is_dir():
        raise ValueError(f"{where}: expected a file, got the folder {path}")
    if not path.is_file():
        raise ValueError(f"{where}: expected a file, got nothing at {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{where}: cannot open {path}: {error.strerror}") from None
    try:
        content = gzip.decompress(content) if path.name.lower().endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{where}: {path} is damaged: {error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{where}: expected text, got other bytes in line {line} of {path}"
        ) from None
