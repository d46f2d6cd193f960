"""Files of Vinyals et al. 2015: points, the word `output`, then which of them are the answer."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from regard.data.text_file import read_text
from regard.runtime import atomic_files

# What stands between the points and the answer.
OUTPUT_WORD = "output"

PointsAndAnswer = tuple[np.ndarray, list[int]]


def read_instances(path: Path | str) -> list[PointsAndAnswer]:
    """The points (n, 2) of each line in float64, and its answer, counted from 0.

    Hulls and tours are written with their first point again at their end; here it is left out.

    Args:
        path: lines `x1 y1 x2 y2 … output i1 i2 … i1`, counted from 1; also as .gz.

    Raises:
        ValueError: a file that is missing, empty or damaged, or a line of another form.
    """
    lines = read_text("read_instances", Path(path)).splitlines()
    found = [
        parse_line(f"read_instances: {path}, line {n}", each) for n, each in enumerate(lines, 1)
    ]
    if not found:
        raise ValueError(f"read_instances: expected a line of points or more, got none in {path}")
    return found


def parse_line(where: str, line: str) -> PointsAndAnswer:
    """The points and the answer of one line.

    Args:
        where: which line it is, for the error message.
    """
    before, *behind = line.split(OUTPUT_WORD)
    if len(behind) != 1:
        raise ValueError(
            f"{where}: expected the word {OUTPUT_WORD!r} once, got it {len(behind)} times"
        )
    numbers = [_parse_number(where, each) for each in before.split()]
    if not numbers or len(numbers) % 2:
        raise ValueError(f"{where}: expected two numbers a point, got {len(numbers)} numbers")
    points = np.array(numbers, np.float64).reshape(-1, 2)
    answer = [_parse_index(where, each, len(points)) for each in behind[0].split()]
    # Triangles have points in common, so that more than one index comes again.
    closed = len(answer) > 1 and answer[0] == answer[-1] and len(set(answer)) == len(answer) - 1
    return points, answer[:-1] if closed else answer


def _parse_number(where: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{where}: expected a finite number, got {word!r:.80}")
    return number


def _parse_index(where: str, word: str, n: int) -> int:
    index = int(word) if word.isascii() and word.isdigit() else 0
    if not 1 <= index <= n:
        raise ValueError(f"{where}: expected an index from 1 to {n}, got {word!r:.80}")
    return index - 1


def write_instances(
    path: Path | str, pairs: Iterable[tuple[np.ndarray, Sequence[int]]], *, closed: bool = True
) -> Path:
    """Write points (n, 2), each with its answer, counted from 0, for `read_instances` to read.

    Args:
        closed: whether an answer ends with its first point again, as hulls and tours do.

    Raises:
        ValueError: points or an answer that would not be read again as they are.
    """
    lines = [
        _format_line(n, points, list(answer), closed) for n, (points, answer) in enumerate(pairs, 1)
    ]
    content = "".join(lines).encode()
    zipped = str(path).lower().endswith(".gz")
    return atomic_files.write_file(
        Path(path), gzip.compress(content, mtime=0) if zipped else content
    )


def _format_line(n: int, points: np.ndarray, answer: list[int], closed: bool) -> str:
    numbers = " ".join(map(repr, np.ravel(points).astype(np.float64).tolist()))
    indices = [index + 1 for index in answer + answer[: int(closed)]]
    line = f"{numbers} {OUTPUT_WORD} {' '.join(map(str, indices))}"
    if parse_line(f"write_instances: line {n}", line)[1] != answer:
        raise ValueError(
            f"write_instances: line {n}: expected an answer of different points, or of "
            f"triangles that are not closed, got {answer}"
        )
    return f"{line}\n"
