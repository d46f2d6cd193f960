"""Files that are there whole or not at all: written beside their place, synced, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write(path: Path, content: bytes | str) -> Path:
    """Put `content` at `path`; whoever reads it sees what was there before, or all of this."""
    data = content.encode() if isinstance(content, str) else content
    if not path.parent.is_dir():
        raise FileNotFoundError(f"write: no folder named {str(path.parent)!r}")
    # no two processes share a name, so neither can spoil what the other writes
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with naming(path):
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)
    return path


def tidy(path: Path) -> None:
    """Delete what killed processes left of `path` beside it."""
    for left in path.parent.glob(f".{path.name}.*.part"):
        left.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside, an error of the disk says which file it is about; a full one would not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync(folder: Path) -> None:
    """Let the names in a folder, too, survive a power cut."""
    # Windows has no such thing
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
