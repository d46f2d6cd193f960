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


class SkippedLines(NamedTuple):
    """How many lines were left out for one reason, and the first of them, counted from 1."""

    lines: int
    first: int


@dataclass(frozen=True)
class LoadedPairs:
    """The pairs of a file, in its order, and what was left out: by reason."""

    pairs: list[Pair]
    skipped: dict[str, SkippedLines]

    def __str__(self) -> str:
        return f"{len(self.pairs):,} pairs" + (
            f"; {said}" if (said := _describe_skipped(self.skipped)) else ""
        )


def read_pairs(
    path: Path | str, target: Path | str | None = None, *, longest: int = 2000
) -> LoadedPairs:
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
        raise ValueError(f"read_pairs: expected longest of at least 1, got {longest}")
    path, target = Path(path), None if target is None else Path(target)
    parsed = _line_parser(path, target)
    pairs, skipped = [], dict[str, SkippedLines]()
    # Twelve bytes hold any character, even as JSON writes it; the rest is for further columns.
    limit = 2 * 12 * longest + 65536
    for number, sides in enumerate(_read_sides(path, target, parsed, limit), 1):
        pair = sides if isinstance(sides, _BadLine) else _check_pair(sides, longest)
        if isinstance(pair, _BadLine):
            before = skipped.get(pair.reason, SkippedLines(0, number))
            skipped[pair.reason] = before._replace(lines=before.lines + 1)
        else:
            pairs.append(pair)
    if not pairs:
        raise ValueError(
            f"read_pairs: no pair in {path}: {_describe_skipped(skipped) or 'the file is empty'}"
        )
    return LoadedPairs(pairs, skipped)


class _BadLine(NamedTuple):
    """Why a line holds no pair."""

    reason: str


_Line = str | _BadLine
_LineParser = Callable[[str], tuple[str, str] | _BadLine]

# Controls other than white space, which is harmless inside a sentence.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")


def _describe_skipped(skipped: dict[str, SkippedLines]) -> str:
    said = [f"{reason} ({n:,}, first on line {at})" for reason, (n, at) in skipped.items()]
    return f"skipped {', '.join(said)}" if said else ""


def _line_parser(path: Path, target: Path | None) -> _LineParser | None:
    """How to take a line apart; None for aligned files, where it is not."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    forms: dict[str, _LineParser] = {".tsv": _parse_columns, ".jsonl": _JsonLineParser()}
    if target is None and ending not in forms:
        raise ValueError(
            f"read_pairs: expected a file that ends in .tsv or .jsonl (or those with .gz), "
            f"or two aligned text files, got {path}"
        )
    if target is not None and ending in forms:
        raise ValueError(f"read_pairs: expected two files of plain text, got {path} and {target}")
    return None if target is not None else forms[ending]


def _read_sides(
    path: Path, target: Path | None, parser: _LineParser | None, limit: int
) -> Iterator[tuple[str, str] | _BadLine]:
    """Source and target of each line, or what is wrong with it."""
    if target is None:
        assert parser is not None
        for line in _read_lines(path, limit):
            yield line if isinstance(line, _BadLine) else parser(line)
        return
    counts = [0, 0]
    for source, translation in zip_longest(_read_lines(path, limit), _read_lines(target, limit)):
        counts = [counts[0] + (source is not None), counts[1] + (translation is not None)]
        if isinstance(source, str) and isinstance(translation, str):
            yield source, translation
        elif isinstance(bad := source if isinstance(source, _BadLine) else translation, _BadLine):
            yield bad
    if counts[0] != counts[1]:
        raise ValueError(
            f"read_pairs: expected as many lines in both files, got {counts[0]:,} in {path} "
            f"and {counts[1]:,} in {target}"
        )


def _parse_columns(line: str) -> tuple[str, str] | _BadLine:
    source, tab, rest = line.partition("\t")
    if not tab:
        return _BadLine("no tab" if source.strip() else "empty line")
    return source, rest.partition("\t")[0]


class _JsonLineParser:
    """Takes JSON lines apart; the first pair decides which keys are the sides."""

    def __init__(self) -> None:
        self._keys: tuple[str, str] | None = None

    def __call__(self, line: str) -> tuple[str, str] | _BadLine:
        if not line.strip():
            return _BadLine("empty line")
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            return _BadLine("not JSON")
        keys = self._keys or _side_keys(given)
        if keys is None or not isinstance(given, dict):
            return _BadLine("no source and target")
        source, target = given.get(keys[0]), given.get(keys[1])
        if not isinstance(source, str) or not isinstance(target, str):
            return _BadLine("no source and target")
        self._keys = keys
        return source, target


def _side_keys(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return None
    if value.keys() >= {"source", "target"}:
        return "source", "target"
    return tuple(value) if len(value) == 2 else None  # type: ignore[return-value]


def _check_pair(sides: tuple[str, str], longest: int) -> Pair | _BadLine:
    source, target = (side.strip() for side in sides)
    if not source or not target:
        return _BadLine("empty side")
    if max(len(source), len(target)) > longest:
        return _BadLine("too long")
    if _CONTROL.search(source) or _CONTROL.search(target):
        return _BadLine("control character")
    try:
        # JSON can spell half a character, which no file can hold
        (source + target).encode()
    except UnicodeEncodeError:
        return _BadLine("bad UTF-8")
    return Pair(source, target)


def _read_lines(path: Path, limit: int) -> Iterator[_Line]:
    """The lines of a file without their ends; never more than `limit` bytes are held."""
    with _open_binary(path) as stream:
        number = 0
        while line := _read_line(stream, limit, path, number):
            number += 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) > limit:
                while not line.endswith(b"\n") and (
                    line := _read_line(stream, limit, path, number)
                ):
                    pass
                yield _BadLine("too long")
                continue
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                yield _BadLine("bad UTF-8")


def _read_line(stream: BufferedIOBase, limit: int, path: Path, number: int) -> bytes:
    try:
        return stream.readline(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"read_pairs: {path} is damaged behind line {number}: {error}") from None


@contextmanager
def _open_binary(path: Path) -> Iterator[BufferedIOBase]:
    if path.is_dir():
        raise ValueError(f"read_pairs: expected a file, got the folder {path}")
    if not path.is_file():
        raise ValueError(f"read_pairs: expected a file, got nothing at {path}")
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ValueError(f"read_pairs: cannot open {path}: {error.strerror}") from None
    with stream:
        yield gzip.GzipFile(fileobj=stream) if path.name.lower().endswith(".gz") else stream
