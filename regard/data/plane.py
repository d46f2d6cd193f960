"""Points that a person gives: typed in place, as a table, or in the form of others' files."""

import csv
import re
from pathlib import Path

import numpy as np

from regard import files
from regard.data import tsplib, vinyals
from regard.data.texts import text

# The most points that are read.
MOST = 100_000
# Whatever ends so is meant as a file.
ENDINGS = (".csv", ".tsv", ".txt", ".tsp", ".gz")
# TSPLIB's ways of measuring that are straight lines, but for rounding.
STRAIGHT = ("EUC_2D", "CEIL_2D")


def read(given: str | Path, *, columns: int = 2, where: str = "read") -> np.ndarray:
    """The points (n, columns) of a file or of a text, in float64.

    A table has a point a line, with commas, semicolons, tabs or blanks between its columns. The
    columns named x and y are taken, or else the first with numbers. Other files are .tsp of TSPLIB,
    if it measures in straight lines, and those of Vinyals, if they have one line.

    Args:
        given: the path of a file, or the points as in `0.1,0.2 0.5,0.9 0.4,0.3`, or a whole table.
        columns: numbers that make up a point.
        where: who reads, for the error message.

    Raises:
        ValueError: no file, no text, no number where one should be, too many points, or a file of
            TSPLIB whose cities lie on a globe or are measured otherwise.
    """
    path = _path(given)
    if path is None:
        return parsed(str(given), columns=columns, where=where)
    if path.name.lower().removesuffix(".gz").endswith(".tsp"):
        points = _cities(f"{where}: {path}", text(where, path))
    else:
        points = _points(f"{where}: {path}", text(where, path), columns)
    return _fitting(where, points, columns, str(path))


def parsed(given: str, *, columns: int = 2, where: str = "parsed") -> np.ndarray:
    """The points (n, columns) of a text, in any form of `read`; it is never taken for a file."""
    return _fitting(where, _points(where, given, columns), columns, given)


def _fitting(where: str, points: np.ndarray, columns: int, given: str) -> np.ndarray:
    """The points, if they are of so many numbers each, and not too many."""
    if points.shape[1] != columns:
        raise ValueError(f"{where}: expected numbers, got points of the plane in {given:.80}")
    if len(points) > MOST:
        raise ValueError(f"{where}: expected at most {MOST:,} points, got {len(points):,}")
    return points


def _path(given: str | Path) -> Path | None:
    """The file that is meant, unless points are."""
    if isinstance(given, Path):
        return given
    try:
        there = Path(given).exists() and given != ""
    except (OSError, ValueError):
        # too long for a name
        there = False
    meant = given.lower().endswith(ENDINGS) or "/" in given or "\\" in given
    return files.expand_home(Path(given)) if there or meant else None


def _cities(where: str, content: str) -> np.ndarray:
    """The cities of a file of TSPLIB, if the ways between them are straight lines."""
    problem = tsplib.parsed(where, content)
    if problem.kind not in STRAIGHT:
        raise ValueError(
            f"{where}: expected EDGE_WEIGHT_TYPE {' or '.join(STRAIGHT)}, because points of the "
            f"plane are measured by straight lines, got {problem.kind:.80}"
        )
    return problem.points


def _points(where: str, content: str, columns: int) -> np.ndarray:
    """The points of a text of any form."""
    numbered = [(n, line.strip()) for n, line in enumerate(content.splitlines(), 1)]
    lines = [(n, line) for n, line in numbered if line and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{where}: expected points, as in {_example(columns)}, got none")
    if vinyals.WORD in lines[0][1].split():
        if len(lines) > 1:
            raise ValueError(f"{where}: expected one line of points, got {len(lines):,} lines")
        return vinyals.parsed(f"{where}, line {lines[0][0]}", lines[0][1])[0]
    if len(lines) == 1:
        return _typed(where, lines[0][1], columns)
    return _table(where, lines, columns)


def _typed(where: str, line: str, columns: int) -> np.ndarray:
    """The points of `0.1,0.2 0.5,0.9 0.4,0.3`, or the numbers of `0.1 0.5` or `0.1, 0.5`."""
    joined = re.sub(r"\s*,\s*", " " if columns == 1 else ",", line)
    points = []
    for group in joined.replace(";", " ").split():
        numbers = [_number(word) for word in group.split(",")]
        if len(numbers) != columns or not _finite(*numbers):
            raise ValueError(
                f"{where}: expected points, as in {_example(columns)}, got {group!r:.80}"
            )
        points.append(numbers)
    if not points:
        raise ValueError(f"{where}: expected points, as in {_example(columns)}, got {line!r:.80}")
    return np.array(points, np.float64)


def _table(where: str, lines: list[tuple[int, str]], columns: int) -> np.ndarray:
    """The points of lines with their numbers."""
    between = next((sign for sign in "\t;," if sign in lines[0][1]), None)
    rows = [(n, _cells(f"{where}, line {n}", line, between)) for n, line in lines]
    head: list[str] = []
    if all(_number(cell) is None for cell in rows[0][1]):
        head = [name.lower() for name in rows.pop(0)[1]]
    named = [head.index(name) for name in ("x", "y")[:columns] if name in head]
    n, first = rows[0]
    numeric = [k for k, cell in enumerate(first) if _number(cell) is not None]
    taken = named if len(named) == columns else numeric[:columns]
    if len(taken) < columns:
        raise ValueError(
            f"{where}, line {n}: expected {columns} with numbers among its columns, "
            f"got {', '.join(first)!r:.80}"
        )
    return np.array([[_cell(where, row, k) for k in taken] for row in rows], np.float64)


def _cells(where: str, line: str, between: str | None) -> list[str]:
    if between is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=between))]
    except csv.Error as error:
        raise ValueError(f"{where}: expected a line of a table, got one with {error}") from None


def _cell(where: str, row: tuple[int, list[str]], column: int) -> float | None:
    n, cells = row
    number = _number(cells[column]) if column < len(cells) else None
    if not _finite(number):
        got = f"{cells[column]!r:.80}" if column < len(cells) else "nothing"
        raise ValueError(
            f"{where}, line {n}: expected a finite number in column {column + 1}, got {got}"
        )
    return number


def _number(word: str) -> float | None:
    """What a word says, or None where it is no number."""
    try:
        # to Python, 1_000 is a number
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _finite(*numbers: float | None) -> bool:
    return all(number is not None and np.isfinite(number) for number in numbers)


def _example(columns: int) -> str:
    return "0.1,0.2 0.5,0.9 0.4,0.3" if columns == 2 else "0.4 0.1 0.3"
