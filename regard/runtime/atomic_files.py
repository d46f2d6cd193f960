"""Files that are there whole or not at all: written beside their place, synced, then renamed."""

import errno
import json
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 64 * 2**20


def write_file(path: Path, content: bytes | str) -> Path:
    """Put `content` at `path`; whoever reads it sees what was there before, or all of this."""
    data = content.encode() if isinstance(content, str) else content
    if not path.parent.is_dir():
        raise FileNotFoundError(f"write: no folder named {str(path.parent)!r}")
    # no two processes share a name, so neither can spoil what the other writes
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with filename_in_errors(path):
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)
    return path


def expand_home(path: Path) -> Path:
    """The path with a leading ~ replaced by that home folder.

    Raises:
        ValueError: there is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(
            f"expected the home folder of a user, got {str(path)!r:.80}, which stands for none. "
            "Write the whole path."
        ) from None


@contextmanager
def open_plain_file(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """A file open for reading, and its size.

    Raises:
        ValueError: it is a link, a folder, a pipe, a socket or a device; nothing was read of it.
        OSError: it cannot be opened.
    """
    # a pipe without a writer would wait for one
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        opened = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"expected {path} to be a plain file, got a link") from None
        if error.errno == errno.ENXIO:
            raise ValueError(f"expected {path} to be a plain file, got a socket") from None
        raise
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise ValueError(f"expected {path} to be a plain file, got none")
    with os.fdopen(opened, "rb") as file:
        yield file, status.st_size


def read_json_object(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """The JSON object in a file of ours.

    Raises:
        ValueError: it holds none, is too long or no plain file; in one line that names it.
    """
    with open_plain_file(path) as (file, size):
        if size > max_bytes:
            raise ValueError(f"{path} has {size} bytes, the most is {max_bytes}")
        data = file.read(max_bytes)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: expected JSON") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise ValueError(f"{path} is damaged: expected a JSON object, got {kind}")
    return found


def max_json_memory(text: str) -> int:
    """An upper bound, in bytes, of what a text and the values of its JSON take in memory.

    It counts signs, so it is found before anything is parsed: four bytes of JSON may become an
    object of 240.
    """
    most_of = {"{": 240, "[": 100, ":": 160, ",": 80}
    return (
        200
        + sys.getsizeof(text)
        + 4 * len(text)
        + sum(cost * text.count(sign) for sign, cost in most_of.items())
    )


def remove_leftovers(path: Path) -> None:
    """Delete what killed processes left of `path` beside it."""
    for left in path.parent.glob(f".{path.name}.*.part"):
        left.unlink(missing_ok=True)


@contextmanager
def filename_in_errors(path: Path) -> Iterator[None]:
    """Inside, an error of the disk says which file it is about: the one that was meant."""
    try:
        yield
    except OSError as error:
        # a full disk names none, and a folder in its place would name the file beside it
        error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Let the names in a folder, too, survive a power cut."""
    # Windows has no such thing
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
