"""Points that a person gives: typed in place, as a table, or in the form of others' files."""

import csv
import re
from pathlib import Path

import numpy as np

from regard.data.geometry import tsplib, vinyals
from regard.data.text_file import read_text
from regard.runtime import atomic_files

# The most points that are read.
MAX_POINTS = 100_000
# Whatever ends so is meant as a file.
FILE_ENDINGS = (".csv", ".tsv", ".txt", ".tsp", ".gz")
# TSPLIB's ways of measuring that are straight lines, but for rounding.
EUCLIDEAN_EDGE_WEIGHT_TYPES = ("EUC_2D", "CEIL_2D")


def read_points(
    path_or_text: str | Path, *, columns: int = 2, where: str = "read_points"
) -> np.ndarray:
    """The points (n, columns) of a file or of a text, in float64.

    A table has a point a line, with commas, semicolons, tabs or blanks between its columns. The
    columns named x and y are taken, or else the first with numbers. Other files are .tsp of TSPLIB,
    if it measures in straight lines, and those of Vinyals, if they have one line.

    Args:
        path_or_text: the path of a file, or the points as in `0.1,0.2 0.5,0.9 0.4,0.3`, or a whole
            table.
        columns: numbers that make up a point.
        where: who reads, for the error message.

    Raises:
        ValueError: no file, no text, no number where one should be, too many points, or a file of
            TSPLIB whose cities lie on a globe or are measured otherwise.
    """
    path = _find_path(path_or_text)
    if path is None:
        return parse_points(str(path_or_text), columns=columns, where=where)
    if path.name.lower().removesuffix(".gz").endswith(".tsp"):
        points = _parse_tsplib_points(f"{where}: {path}", read_text(where, path))
    else:
        points = _parse_points_of_any_form(f"{where}: {path}", read_text(where, path), columns)
    return _check_points(where, points, columns, str(path))


def parse_points(content: str, *, columns: int = 2, where: str = "parse_points") -> np.ndarray:
    """The points (n, columns) of a text in any form of `read_points`, never taken for a file."""
    return _check_points(
        where, _parse_points_of_any_form(where, content, columns), columns, content
    )


def _check_points(where: str, points: np.ndarray, columns: int, description: str) -> np.ndarray:
    """The points, if they are of so many numbers each, and not too many."""
    if points.shape[1] != columns:
        raise ValueError(f"{where}: expected numbers, got points of the plane in {description:.80}")
    if len(points) > MAX_POINTS:
        raise ValueError(f"{where}: expected at most {MAX_POINTS:,} points, got {len(points):,}")
    return points


def _find_path(path_or_text: str | Path) -> Path | None:
    """The file that is meant, unless points are."""
    if isinstance(path_or_text, Path):
        return path_or_text
    try:
        there = Path(path_or_text).exists() and path_or_text != ""
    except (OSError, ValueError):
        # too long for a name
        there = False
    meant = (
        path_or_text.lower().endswith(FILE_ENDINGS) or "/" in path_or_text or "\\" in path_or_text
    )
    return atomic_files.expand_home(Path(path_or_text)) if there or meant else None


def _parse_tsplib_points(where: str, content: str) -> np.ndarray:
    """The cities of a file of TSPLIB, if the ways between them are straight lines."""
    problem = tsplib.parse_problem(where, content)
    if problem.edge_weight_type not in EUCLIDEAN_EDGE_WEIGHT_TYPES:
        raise ValueError(
            f"{where}: expected EDGE_WEIGHT_TYPE {' or '.join(EUCLIDEAN_EDGE_WEIGHT_TYPES)}, "
            "because points of the "
            f"plane are measured by straight lines, got {problem.edge_weight_type:.80}"
        )
    return problem.points


def _parse_points_of_any_form(where: str, content: str, columns: int) -> np.ndarray:
    """The points of a text of any form."""
    numbered = [(n, line.strip()) for n, line in enumerate(content.splitlines(), 1)]
    lines = [(n, line) for n, line in numbered if line and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{where}: expected points, as in {_example_points(columns)}, got none")
    if vinyals.OUTPUT_WORD in lines[0][1].split():
        if len(lines) > 1:
            raise ValueError(f"{where}: expected one line of points, got {len(lines):,} lines")
        return vinyals.parse_line(f"{where}, line {lines[0][0]}", lines[0][1])[0]
    if len(lines) == 1:
        return _parse_one_line(where, lines[0][1], columns)
    return _parse_table(where, lines, columns)


def _parse_one_line(where: str, line: str, columns: int) -> np.ndarray:
    """The points of `0.1,0.2 0.5,0.9 0.4,0.3`, or the numbers of `0.1 0.5` or `0.1, 0.5`."""
    joined = re.sub(r"\s*,\s*", " " if columns == 1 else ",", line)
    points = []
    for group in joined.replace(";", " ").split():
        numbers = [_parse_number(word) for word in group.split(",")]
        if len(numbers) != columns or not _is_finite(*numbers):
            raise ValueError(
                f"{where}: expected points, as in {_example_points(columns)}, got {group!r:.80}"
            )
        points.append(numbers)
    if not points:
        raise ValueError(
            f"{where}: expected points, as in {_example_points(columns)}, got {line!r:.80}"
        )
    return np.array(points, np.float64)


def _parse_table(where: str, lines: list[tuple[int, str]], columns: int) -> np.ndarray:
    """The points of lines with their numbers."""
    between = next((sign for sign in "\t;," if sign in lines[0][1]), None)
    rows = [(n, _split_cells(f"{where}, line {n}", line, between)) for n, line in lines]
    head: list[str] = []
    if all(_parse_number(cell) is None for cell in rows[0][1]):
        head = [name.lower() for name in rows.pop(0)[1]]
    named = [head.index(name) for name in ("x", "y")[:columns] if name in head]
    n, first = rows[0]
    numeric = [k for k, cell in enumerate(first) if _parse_number(cell) is not None]
    taken = named if len(named) == columns else numeric[:columns]
    if len(taken) < columns:
        raise ValueError(
            f"{where}, line {n}: expected {columns} with numbers among its columns, "
            f"got {', '.join(first)!r:.80}"
        )
    return np.array([[_parse_cell(where, row, k) for k in taken] for row in rows], np.float64)


def _split_cells(where: str, line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    except csv.Error as error:
        raise ValueError(f"{where}: expected a line of a table, got one with {error}") from None


def _parse_cell(where: str, row: tuple[int, list[str]], column: int) -> float | None:
    n, cells = row
    number = _parse_number(cells[column]) if column < len(cells) else None
    if not _is_finite(number):
        got = f"{cells[column]!r:.80}" if column < len(cells) else "nothing"
        raise ValueError(
            f"{where}, line {n}: expected a finite number in column {column + 1}, got {got}"
        )
    return number


def _parse_number(word: str) -> float | None:
    """What a word says, or None where it is no number."""
    try:
        # to Python, 1_000 is a number
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _is_finite(*numbers: float | None) -> bool:
    return all(number is not None and np.isfinite(number) for number in numbers)


def _example_points(columns: int) -> str:
    return "0.1,0.2 0.5,0.9 0.4,0.3" if columns == 2 else "0.4 0.1 0.3"
