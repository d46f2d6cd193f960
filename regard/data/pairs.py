"""Sentence pairs from files: .tsv, two aligned text files, or .jsonl, each also as .gz."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Skipped(NamedTuple):
    """How many lines were left out for one reason, and the first of them, counted from 1."""

    lines: int
    first: int


@dataclass(frozen=True)
class Read:
    """The pairs of a file, in its order, and what was left out: by reason."""

    pairs: list[Pair]
    skipped: dict[str, Skipped]

    def __str__(self) -> str:
        return f"{len(self.pairs):,} pairs" + (f"; {said}" if (said := _said(self.skipped)) else "")


def read(path: Path | str, target: Path | str | None = None, *, longest: int = 2000) -> Read:
    """The sentence pairs of a file; lines that hold none are skipped and counted.

    Args:
        path: `source TAB target` a line (.tsv; further columns are ignored), or one JSON object a
            line (.jsonl) with the keys source and target, or two keys such as en and fr, of which
            the first line's first is the source; or, with `target`, plain text.
        target: the translation of each line of `path`, in a second file of as many lines.
        longest: the most characters of one sentence.

    Raises:
        ValueError: a file that is missing, damaged or of another kind; two files of unequal
            length; or no pair at all.
    """
    if longest < 1:
        raise ValueError(f"read: expected longest of at least 1, got {longest}")
    path, target = Path(path), None if target is None else Path(target)
    parsed = _form(path, target)
    pairs, skipped = [], dict[str, Skipped]()
    # Twelve bytes hold any character, even as JSON writes it; the rest is for further columns.
    limit = 2 * 12 * longest + 65536
    for number, sides in enumerate(_sides(path, target, parsed, limit), 1):
        pair = sides if isinstance(sides, _Bad) else _pair(sides, longest)
        if isinstance(pair, _Bad):
            before = skipped.get(pair.reason, Skipped(0, number))
            skipped[pair.reason] = before._replace(lines=before.lines + 1)
        else:
            pairs.append(pair)
    if not pairs:
        raise ValueError(f"read: no pair in {path}: {_said(skipped) or 'the file is empty'}")
    return Read(pairs, skipped)


class _Bad(NamedTuple):
    """Why a line holds no pair."""

    reason: str


_Line = str | _Bad
_Parsed = Callable[[str], tuple[str, str] | _Bad]

# Controls other than white space, which is harmless inside a sentence.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")


def _said(skipped: dict[str, Skipped]) -> str:
    said = [f"{reason} ({n:,}, first on line {at})" for reason, (n, at) in skipped.items()]
    return f"skipped {', '.join(said)}" if said else ""


def _form(path: Path, target: Path | None) -> _Parsed | None:
    """How to take a line apart; None for aligned files, where it is not."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    forms: dict[str, _Parsed] = {".tsv": _columns, ".jsonl": _Objects()}
    if target is None and ending not in forms:
        raise ValueError(
            f"read: expected a file that ends in .tsv or .jsonl (or those with .gz), "
            f"or two aligned text files, got {path}"
        )
    if target is not None and ending in forms:
        raise ValueError(f"read: expected two files of plain text, got {path} and {target}")
    return None if target is not None else forms[ending]


def _sides(
    path: Path, target: Path | None, parsed: _Parsed | None, limit: int
) -> Iterator[tuple[str, str] | _Bad]:
    """Source and target of each line, or what is wrong with it."""
    if target is None:
        assert parsed is not None
        for line in _lines(path, limit):
            yield line if isinstance(line, _Bad) else parsed(line)
        return
    counts = [0, 0]
    for source, translation in zip_longest(_lines(path, limit), _lines(target, limit)):
        counts = [counts[0] + (source is not None), counts[1] + (translation is not None)]
        if isinstance(source, str) and isinstance(translation, str):
            yield source, translation
        elif isinstance(bad := source if isinstance(source, _Bad) else translation, _Bad):
            yield bad
    if counts[0] != counts[1]:
        raise ValueError(
            f"read: expected as many lines in both files, got {counts[0]:,} in {path} "
            f"and {counts[1]:,} in {target}"
        )


def _columns(line: str) -> tuple[str, str] | _Bad:
    source, tab, rest = line.partition("\t")
    if not tab:
        return _Bad("no tab" if source.strip() else "empty line")
    return source, rest.partition("\t")[0]


class _Objects:
    """Takes JSON lines apart; the first pair decides which keys are the sides."""

    def __init__(self) -> None:
        self._keys: tuple[str, str] | None = None

    def __call__(self, line: str) -> tuple[str, str] | _Bad:
        if not line.strip():
            return _Bad("empty line")
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            return _Bad("not JSON")
        keys = self._keys or _keys(given)
        if keys is None or not isinstance(given, dict):
            return _Bad("no source and target")
        source, target = given.get(keys[0]), given.get(keys[1])
        if not isinstance(source, str) or not isinstance(target, str):
            return _Bad("no source and target")
        self._keys = keys
        return source, target


def _keys(given: Any) -> tuple[str, str] | None:
    if not isinstance(given, dict):
        return None
    if given.keys() >= {"source", "target"}:
        return "source", "target"
    return tuple(given) if len(given) == 2 else None  # type: ignore[return-value]


def _pair(sides: tuple[str, str], longest: int) -> Pair | _Bad:
    source, target = (side.strip() for side in sides)
    if not source or not target:
        return _Bad("empty side")
    if max(len(source), len(target)) > longest:
        return _Bad("too long")
    if _CONTROL.search(source) or _CONTROL.search(target):
        return _Bad("control character")
    try:
        # JSON can spell half a character, which no file can hold
        (source + target).encode()
    except UnicodeEncodeError:
        return _Bad("bad UTF-8")
    return Pair(source, target)


def _lines(path: Path, limit: int) -> Iterator[_Line]:
    """The lines of a file without their ends; never more than `limit` bytes are held."""
    with _opened(path) as stream:
        number = 0
        while line := _next(stream, limit, path, number):
            number += 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) > limit:
                while not line.endswith(b"\n") and (line := _next(stream, limit, path, number)):
                    pass
                yield _Bad("too long")
                continue
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                yield _Bad("bad UTF-8")


def _next(stream: BufferedIOBase, limit: int, path: Path, number: int) -> bytes:
    try:
        return stream.readline(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"read: {path} is damaged behind line {number}: {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    if path.is_dir():
        raise ValueError(f"read: expected a file, got the folder {path}")
    if not path.is_file():
        raise ValueError(f"read: expected a file, got nothing at {path}")
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ValueError(f"read: cannot open {path}: {error.strerror}") from None
    with stream:
        yield gzip.GzipFile(fileobj=stream) if path.name.lower().endswith(".gz") else stream
