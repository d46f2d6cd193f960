"""Reading files that a stranger may have written: plain files only, within limits, or one line.

Nothing here runs, imports or fetches what a file asks for; what is not as it should be is refused.
"""

import json
import math
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.runtime import atomic_files

MiB = 2**20
MAX_JSON_BYTES = 64 * MiB
# What the values of a file of JSON may take in memory, which is up to 60 times its length.
MAX_JSON_MEMORY_BYTES = 512 * MiB
# A card has a few kilobytes; a hundred of them are held at a time.
MAX_CARD_MEMORY_BYTES = 2 * MiB
MAX_HEADER_BYTES = 16 * MiB
MAX_ERROR_CHARACTERS = 600
SCHEMA_VERSION = 1
# What every card has, and of which type.
CARD_FIELD_TYPES = {"name": str, "recipe": str, "model": str, "config": dict}


def load_error(reason: str) -> ValueError:
    """The error of a file that is not read, in one line whatever the file is called or says."""
    line = " ".join(f"load: {reason}".split())
    return ValueError(
        line if len(line) <= MAX_ERROR_CHARACTERS else line[:MAX_ERROR_CHARACTERS] + "…"
    )


def plain_file_path(folder: Path, name: str, *, max_bytes: int | None = None) -> Path:
    """The path of a file in `folder`, after all links; pipes, devices and ways out are refused."""
    try:
        path = (folder / name).resolve(strict=True)
        status = path.stat()
        inside = path.is_relative_to(folder.resolve())
    except FileNotFoundError:
        raise load_error(f"{folder} has no {name}") from None
    except (OSError, RuntimeError) as error:  # no permission; links in a circle
        raise load_error(f"cannot read {folder / name}: {error}") from None
    if not inside:
        raise load_error(f"{folder / name} is a link that leads out of its folder")
    if not stat.S_ISREG(status.st_mode):
        raise load_error(f"expected {folder / name} to be a plain file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise load_error(f"{folder / name} has {status.st_size} bytes, the most is {max_bytes}")
    return path


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a folder: small, of this schema, and each field of its type."""
    found, path = (
        read_json_object(folder, "card.json", max_memory=MAX_CARD_MEMORY_BYTES),
        folder / "card.json",
    )
    if found.get("schema") != SCHEMA_VERSION or isinstance(found["schema"], bool):
        raise load_error(
            f"{path} is of schema {found.get('schema')!r:.40}, this version reads {SCHEMA_VERSION}"
        )
    wrong = wrong_field(found)
    if wrong:
        raise load_error(f"{path}: {wrong}")
    return found


def wrong_field(card: dict[str, Any]) -> str | None:
    """What is expected of the first field of a card that is of another type; None if none is."""
    for name, kind in CARD_FIELD_TYPES.items():
        if not isinstance(card.get(name), kind):
            return f"expected {name} as {kind.__name__}, got {_type_at(card, name)}"
    # a model need not say how it was trained
    settings = card.get("settings", {})
    if not isinstance(settings, dict):
        return f"expected settings as dict, got {_type_at(card, 'settings')}"
    if not isinstance(settings.get("data", {}), dict):
        return f"expected settings.data as dict, got {_type_at(settings, 'data')}"
    return None


def _type_at(values: dict[str, Any], name: str) -> str:
    return type(values[name]).__name__ if name in values else "nothing"


def read_json_object(
    folder: Path, name: str, *, max_memory: int = MAX_JSON_MEMORY_BYTES
) -> dict[str, Any]:
    """The JSON object in a file: no key twice, only finite numbers, not too deep, not too long.

    Args:
        max_memory: how many bytes its values may take once they are read.
    """
    path = plain_file_path(folder, name, max_bytes=min(MAX_JSON_BYTES, max_memory))
    try:
        return _parse_json_object(path.read_bytes(), path, max_memory)
    except OSError as error:
        raise load_error(f"cannot read {path}: {error}") from None


def _parse_json_object(
    data: bytes, path: Path, max_memory: int = MAX_JSON_MEMORY_BYTES
) -> dict[str, Any]:
    try:
        text = data.decode("utf-8")
        if atomic_files.max_json_memory(text) > max_memory:
            raise ValueError(f"its values would take more than {max_memory // MiB} MiB")
        read = json.loads(
            text,
            object_pairs_hook=_reject_duplicate_keys,
            parse_constant=_parse_finite,
            parse_float=_parse_finite,
        )
    except RecursionError:
        raise load_error(f"{path} is nested too deep") from None
    except ValueError as error:  # not UTF-8, not JSON, or refused by the two below
        raise load_error(f"{path} is not the JSON it should be: {error}") from None
    if not isinstance(read, dict):
        raise load_error(f"expected {path} to hold a JSON object, got {type(read).__name__}")
    return read


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {key!r:.60} stands there twice")
    return read


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


@contextmanager
def open_weights(folder: Path, name: str = "model.safetensors") -> Iterator[Any]:
    """An open safetensors file: its names and shapes are known, nothing of its data is read yet."""
    from safetensors import SafetensorError, safe_open

    path = plain_file_path(folder, name)
    try:
        _check_header(path)
        with safe_open(str(path), framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise load_error(f"{path} is no whole safetensors file: {error}") from None


def _check_header(path: Path) -> None:
    """Refuse a header that is too long, or that safetensors would read in its own way.

    Its parser takes the last of two tensors of one name; everything else it checks itself.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise load_error(
                f"{path} is no whole safetensors file: "
                f"expected a header of {length} bytes, got a file of {size}"
            )
        if length > MAX_HEADER_BYTES:
            raise load_error(
                f"{path} has a header of {length} bytes, the most is {MAX_HEADER_BYTES}"
            )
        _parse_json_object(file.read(length), path)
