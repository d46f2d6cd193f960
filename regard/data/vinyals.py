"""Files of Vinyals et al. 2015: points, the word `output`, then which of them are the answer."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from regard import files
from regard.data.texts import text

# What stands between the points and the answer.
WORD = "output"

Solved = tuple[np.ndarray, list[int]]


def read(path: Path | str) -> list[Solved]:
    """The points (n, 2) of each line in float64, and its answer, counted from 0.

    Hulls and tours are written with their first point again at their end; here it is left out.

    Args:
        path: lines `x1 y1 x2 y2 … output i1 i2 … i1`, counted from 1; also as .gz.

    Raises:
        ValueError: a file that is missing, empty or damaged, or a line of another form.
    """
    lines = text("read", Path(path)).splitlines()
    found = [parsed(f"read: {path}, line {n}", each) for n, each in enumerate(lines, 1)]
    if not found:
        raise ValueError(f"read: expected a line of points or more, got none in {path}")
    return found


def parsed(where: str, line: str) -> Solved:
    """The points and the answer of one line.

    Args:
        where: which line it is, for the error message.
    """
    before, *behind = line.split(WORD)
    if len(behind) != 1:
        raise ValueError(f"{where}: expected the word {WORD!r} once, got it {len(behind)} times")
    numbers = [_number(where, each) for each in before.split()]
    if not numbers or len(numbers) % 2:
        raise ValueError(f"{where}: expected two numbers a point, got {len(numbers)} numbers")
    points = np.array(numbers, np.float64).reshape(-1, 2)
    answer = [_index(where, each, len(points)) for each in behind[0].split()]
    # Triangles have points in common, so that more than one index comes again.
    closed = len(answer) > 1 and answer[0] == answer[-1] and len(set(answer)) == len(answer) - 1
    return points, answer[:-1] if closed else answer


def _number(where: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{where}: expected a finite number, got {word!r:.80}")
    return number


def _index(where: str, word: str, n: int) -> int:
    index = int(word) if word.isascii() and word.isdigit() else 0
    if not 1 <= index <= n:
        raise ValueError(f"{where}: expected an index from 1 to {n}, got {word!r:.80}")
    return index - 1


def write(
    path: Path | str, pairs: Iterable[tuple[np.ndarray, Sequence[int]]], *, closed: bool = True
) -> Path:
    """Put points (n, 2), each with its answer, counted from 0, into a file that `read` reads.

    Args:
        closed: whether an answer ends with its first point again, as hulls and tours do.

    Raises:
        ValueError: points or an answer that would not be read again as they are.
    """
    lines = [_line(n, points, list(answer), closed) for n, (points, answer) in enumerate(pairs, 1)]
    content = "".join(lines).encode()
    zipped = str(path).lower().endswith(".gz")
    return files.write(Path(path), gzip.compress(content, mtime=0) if zipped else content)


def _line(n: int, points: np.ndarray, answer: list[int], closed: bool) -> str:
    numbers = " ".join(map(repr, np.ravel(points).astype(np.float64).tolist()))
    indices = [index + 1 for index in answer + answer[: int(closed)]]
    line = f"{numbers} {WORD} {' '.join(map(str, indices))}"
    if parsed(f"write: line {n}", line)[1] != answer:
        raise ValueError(
            f"write: line {n}: expected an answer of different points, or of triangles that are "
            f"not closed, got {answer}"
        )
    return f"{line}\n"
