"""Checkpoints that a full disk, a killed process or a flipped bit cannot take from you.

    checkpoints/
      step-00000500/   model.safetensors, optimizer.safetensors, …, state.json, manifest.json
      step-00001000/
      latest           the name of the newest

A folder is written under another name, synced, and then renamed; only then does `latest` point to
it, and only then are old ones deleted. A step that has a whole checkpoint keeps it, so that what
`latest` points to is never out of its place. The manifest has the size and the sha256 of every
file.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from regard.runtime import atomic_files
from regard.train import trees

SCHEMA = 1
_WRITING_PREFIX, _DELETED_PREFIX = ".writing-", ".gone-"
# What a manifest may name: a tree, or the state; no file system has names of over 255 letters.
_FILE_NAME = re.compile(r"[A-Za-z0-9_]{1,243}\.safetensors|state\.json")
MAX_MANIFEST_BYTES = 2**20
MAX_POINTER_BYTES = 100
# No file system has larger files, and a longer number would be repeated in an error.
MAX_FILE_BYTES = 2**63


class DamagedError(ValueError):
    """A checkpoint is not what was written; the message names the file and the one before it."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a training needs to go on from `step`.

    Args:
        trees: what holds tensors, one file each: a tree of dicts, lists, tuples and numbers.
        state: what is JSON as it is.
        best: the step whose weights were judged best so far; it is not deleted either.
    """

    step: int
    trees: dict[str, Any]
    state: dict[str, Any]
    best: int | None = None


def folder_name(step: int) -> str:
    """The folder of a step.

    >>> folder_name(500)
    'step-00000500'
    """
    return f"step-{step:08d}"


def list_steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint, in order; whether they are whole is not asked."""
    found = (re.fullmatch(r"step-([0-9]{8,})", p.name) for p in folder.glob("step-*"))
    # of two names of one step, only ours counts
    return sorted(
        int(match[1]) for match in found if match and match[0] == folder_name(int(match[1]))
    )


def latest_step(folder: Path) -> int | None:
    """The step that `latest` points to; None if there is no checkpoint at all."""
    there, pointer = list_steps(folder), folder / "latest"
    if not there:
        return None
    if not os.path.lexists(pointer):
        return there[-1]  # killed before the first pointer was written
    try:
        with atomic_files.open_plain_file(pointer) as (file, _):
            pointed = file.read(MAX_POINTER_BYTES).decode(errors="replace").strip()
    except (ValueError, OSError):
        pointed = ""
    found = [step for step in there if folder_name(step) == pointed]
    if not found:
        raise _with_way_out(
            DamagedError(f"{pointer} is damaged (no such checkpoint)"), folder, there[-1] + 1
        )
    return found[0]


def save(folder: Path, checkpoint: Checkpoint, *, keep: int = 2) -> None:
    """Write a checkpoint and point `latest` to it; `keep` of the newest stay, and the best.

    A step that has a whole checkpoint keeps that one; `rewind` forgets those of another future.
    """
    folder.mkdir(parents=True, exist_ok=True)
    title = folder_name(checkpoint.step)
    writing, path = folder / (_WRITING_PREFIX + title), folder / title
    try:
        if not _is_intact(path):
            _discard(writing)
            _write_files(writing, checkpoint)
            if path.exists():
                _delete_checkpoint(folder, title)  # damaged: nothing is lost with it
            writing.rename(path)
            atomic_files.sync_folder(folder)
        _write_latest(folder, title)
    except BaseException as error:
        _discard(writing)
        if isinstance(error, OSError):
            raise _write_error(error, folder, title) from error
        raise
    _delete_old(folder, checkpoint.step, keep)


def load(
    folder: Path, step: int | None = None, *, only: tuple[str, ...] | None = None
) -> Checkpoint:
    """The checkpoint of `step`, or the latest; every byte that is read is checked first.

    Args:
        only: the trees to read, of those that are there; None reads all.
    """
    if step is None:
        step = latest_step(folder)
        if step is None:
            raise ValueError(f"{folder}: expected checkpoints, got none")
    elif step not in list_steps(folder):
        there = ", ".join(map(str, list_steps(folder))) or "none"
        raise ValueError(f"{folder}: expected a checkpoint of step {step}, got those of {there}")
    try:
        manifest, read = _read_files(folder / folder_name(step), only)
    except DamagedError as error:
        raise _with_way_out(error, folder, step) from None
    try:
        return _checkpoint_from_files(manifest, read)
    except MemoryError:
        raise
    except Exception as error:  # the sums are right: whoever wrote it wrote something else
        where = folder / folder_name(step) / "state.json"
        raise DamagedError(f"{where} is of no training: {type(error).__name__}") from None


def rewind(folder: Path, step: int) -> None:
    """Make `step` the latest, and only then delete those after it, the newest first."""
    _write_latest(folder, folder_name(step))
    for later in reversed(list_steps(folder)):
        if later > step:
            _delete_checkpoint(folder, folder_name(later))
    atomic_files.sync_folder(folder)


def latest_intact_step(folder: Path, *, before: int | None = None) -> int | None:
    """The newest step whose files are all as they were written; `before` looks at earlier ones."""
    for step in reversed(list_steps(folder)):
        if (before is None or step < before) and _is_intact(folder / folder_name(step)):
            return step
    return None


def remove_leftovers(folder: Path) -> None:
    """Delete what killed processes left half-written or half-deleted."""
    atomic_files.remove_leftovers(folder / "latest")
    for start in (_WRITING_PREFIX, _DELETED_PREFIX):
        for left in folder.glob(f"{start}*"):
            _discard(left)


def _write_files(folder: Path, checkpoint: Checkpoint) -> None:
    from safetensors.torch import save as as_bytes

    folder.mkdir()
    nodes, facts = {}, {}
    for group, tree in checkpoint.trees.items():
        tensors, nodes[group] = trees.pack_tree(tree)
        facts[f"{group}.safetensors"] = _write_file(
            folder / f"{group}.safetensors", as_bytes(tensors)
        )
    state = {"trees": nodes, "state": checkpoint.state}
    facts["state.json"] = _write_file(folder / "state.json", json.dumps(state).encode())
    about = {"step": checkpoint.step, "best": checkpoint.best, "files": facts}
    manifest = {"schema": SCHEMA, **about, "sha256": _json_digest(about)}
    atomic_files.write_file(folder / "manifest.json", json.dumps(manifest, indent=1))


def _write_file(path: Path, data: bytes) -> dict[str, Any]:
    atomic_files.write_file(path, data)
    return _file_facts(data)


def _file_facts(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _json_digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write_latest(folder: Path, title: str) -> None:
    atomic_files.write_file(folder / "latest", f"{title}\n")


def _is_intact(path: Path) -> bool:
    with suppress(DamagedError):
        for title, facts in _read_manifest(path)["files"].items():
            with _open_verified(path / title, facts):
                pass
        return True
    return False


def _checkpoint_from_files(manifest: dict[str, Any], contents: dict[str, bytes]) -> Checkpoint:
    state = json.loads(contents["state.json"])
    found = {
        group: trees.unpack_tree(_tensors_from_bytes(contents[f"{group}.safetensors"]), node)
        for group, node in state["trees"].items()
        if f"{group}.safetensors" in contents
    }
    if not isinstance(state["state"], dict):
        raise TypeError
    return Checkpoint(manifest["step"], found, state["state"], manifest["best"])


def _read_files(
    path: Path, only: tuple[str, ...] | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, and the files that are asked for, all of them as they were written."""
    manifest = _read_manifest(path)
    read = {}
    for title, facts in manifest["files"].items():
        if only is not None and title.removesuffix(".safetensors") not in ("state.json", *only):
            continue
        read[title] = _verified_bytes(path / title, facts)
    return manifest, read


def _verified_bytes(path: Path, facts: dict[str, Any]) -> bytes:
    """The bytes of a file, which must be a plain one of the size and the sum that were recorded."""
    with _open_verified(path, facts) as file:
        data = file.read(facts["bytes"])
        # compared again: somebody may have written into it since
        if _file_facts(data) != facts:
            raise _digest_error(path)
        return data


@contextmanager
def _open_verified(path: Path, facts: dict[str, Any]) -> Iterator[BufferedReader]:
    """A file at its beginning, of the size and the sum that were recorded; else DamagedError."""
    try:
        with atomic_files.open_plain_file(path) as (file, size):
            if size != facts["bytes"]:
                raise DamagedError(f"{path} is damaged ({size} of {facts['bytes']} bytes)")
            # in pieces, so that a file of any size is compared before it must fit into memory
            if hashlib.file_digest(file, "sha256").hexdigest() != facts["sha256"]:
                raise _digest_error(path)
            file.seek(0)
            yield file
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing") from None
    except MemoryError:
        words = f"its {facts['bytes']} bytes do not fit into memory"
        raise DamagedError(f"{path} cannot be read ({words})") from None
    except OSError as error:
        words = error.strerror or type(error).__name__
        raise DamagedError(f"{path} cannot be read ({words})") from None
    except DamagedError:
        raise
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error})") from None


def _digest_error(path: Path) -> DamagedError:
    return DamagedError(f"{path} is damaged (its sha256 is another)")


def _read_manifest(path: Path) -> dict[str, Any]:
    """What a checkpoint says of its files; whatever it names is a file of a checkpoint."""
    file = path / "manifest.json"
    try:
        manifest = atomic_files.read_json_object(file, max_bytes=MAX_MANIFEST_BYTES)
        schema, said = manifest.pop("schema"), manifest.pop("sha256")
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing") from None
    except (ValueError, KeyError, OSError):
        raise DamagedError(f"{file} is damaged (no manifest)") from None
    if schema != SCHEMA:
        raise DamagedError(f"{file}: expected schema {SCHEMA}, got {schema!r:.40}")
    if said != _json_digest(manifest):
        raise DamagedError(f"{file} is damaged (its sha256 is another)")
    step, best, named = (manifest.get(word) for word in ("step", "best", "files"))
    if type(step) is not int or step < 0 or folder_name(step) != path.name:
        raise DamagedError(f"{file} is damaged (it is of step {step!r:.40})")
    if not (best is None or _is_step(best)) or not isinstance(named, dict):
        raise DamagedError(f"{file} is damaged (no manifest)")
    for title, facts in named.items():
        if not _FILE_NAME.fullmatch(title) or not _is_file_facts(facts):
            raise DamagedError(f"{file} is damaged (it names {title!r:.60}, no file of ours)")
    if "state.json" not in named:
        raise DamagedError(f"{file} is damaged (it names no state.json)")
    return manifest


def _is_step(number: Any) -> bool:
    return type(number) is int and number >= 0


def _is_file_facts(facts: Any) -> bool:
    kinds = {"bytes": int, "sha256": str}
    given = {key: type(value) for key, value in facts.items()} if isinstance(facts, dict) else {}
    return given == kinds and 0 <= facts["bytes"] < MAX_FILE_BYTES


def _tensors_from_bytes(data: bytes) -> dict[str, Any]:
    from safetensors.torch import load as from_bytes

    return from_bytes(data)


def _with_way_out(error: DamagedError, folder: Path, step: int) -> DamagedError:
    """The same error, with the way out."""
    earlier = latest_intact_step(folder, before=step)
    if earlier is None:
        return DamagedError(f"{error}, and no checkpoint before it is whole: start again")
    return DamagedError(
        f"{error}; the checkpoint of step {earlier} is whole: "
        f"resume with resume={folder_name(earlier)!r}, or on the command line with --step {earlier}"
    )


def _write_error(error: OSError, folder: Path, title: str) -> OSError:
    left = latest_intact_step(folder)
    words = f"{folder / title} could not be written: {error.strerror or error}"
    return OSError(
        error.errno, f"{words}; {'none' if left is None else folder_name(left)} is whole"
    )


def _delete_old(folder: Path, step: int, keep: int) -> None:
    """Delete old checkpoints, and those of a future that was taken back."""
    there = list_steps(folder)
    stay = set([s for s in there if s <= step][-keep:])
    for kept in tuple(stay):
        with suppress(DamagedError):
            stay.add(_read_manifest(folder / folder_name(kept))["best"])
    for old in there:
        if old not in stay:
            with suppress(OSError):
                _delete_checkpoint(folder, folder_name(old))


def _delete_checkpoint(folder: Path, title: str) -> None:
    """Delete a checkpoint so that, killed half-way, it does not look like one."""
    gone = folder / (_DELETED_PREFIX + title)
    _discard(gone)
    (folder / title).rename(gone)
    _discard(gone)


def _discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
