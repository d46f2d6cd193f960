"""Files of TSPLIB, Reinelt 1991: cities with coordinates, and tours, measured in whole numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.text_file import read_text

# The ways of measuring that go by coordinates in the plane or on the globe.
EDGE_WEIGHT_TYPES = ("EUC_2D", "CEIL_2D", "ATT", "GEO")
# The numbers of TSPLIB's own program, of which the last digits count.
PI, EARTH_RADIUS_KM = 3.141592, 6378.388


@dataclass(frozen=True, eq=False)
class Problem:
    """Cities (N, 2) to be toured, and how the way between two of them is measured."""

    name: str
    edge_weight_type: str
    points: np.ndarray

    def distances(self) -> np.ndarray:
        """How far it is from each city to each other, (N, N)."""
        apart = edge_weights(self.edge_weight_type, self.points[:, None], self.points[None])
        np.fill_diagonal(apart, 0)
        return apart

    def length(self, tour: Sequence[int]) -> int:
        """The length of a closed tour, counted from 0, as the optimal ones are published."""
        if sorted(tour) != [*range(len(self.points))]:
            raise ValueError(
                f"length: expected each of the {len(self.points)} cities of {self.name} once, "
                f"got {len(tour)} of which {len(set(tour))} are different"
            )
        cities = self.points[list(tour)]
        return int(edge_weights(self.edge_weight_type, cities, np.roll(cities, -1, 0)).sum())


def edge_weights(edge_weight_type: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far it is from points (..., 2) to others, by TSPLIB's rules of rounding.

    >>> a, b = np.zeros((1, 2)), np.array([[1.0, 2.0]])
    >>> [edge_weights(each, a, b).tolist() for each in EDGE_WEIGHT_TYPES]
    [[2], [3], [1], [249]]
    """
    if edge_weight_type == "GEO":
        return _globe_distances(a, b)
    x, y = np.moveaxis(a - b, -1, 0)
    if edge_weight_type == "EUC_2D":
        return np.floor(np.sqrt(x * x + y * y) + 0.5).astype(np.int64)
    if edge_weight_type == "CEIL_2D":
        return np.ceil(np.sqrt(x * x + y * y)).astype(np.int64)
    assert edge_weight_type == "ATT"
    return np.ceil(np.sqrt((x * x + y * y) / 10)).astype(np.int64)


def _globe_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kilometres between latitudes and longitudes of degrees, with minutes behind the point."""
    (north, east), (north_, east_) = (
        np.moveaxis(PI * (np.trunc(each) + 5 * (each - np.trunc(each)) / 3) / 180, -1, 0)
        for each in (a, b)
    )
    q1, q2, q3 = np.cos(east - east_), np.cos(north - north_), np.cos(north + north_)
    angle = np.arccos((0.5 * ((1 + q1) * q2 - (1 - q1) * q3)).clip(-1, 1))
    return (EARTH_RADIUS_KM * angle + 1).astype(np.int64)


def read_problem(path: Path | str) -> Problem:
    """The problem of a .tsp file, its cities in the order of their numbers; also as .gz.

    Raises:
        ValueError: no such file, a kind of problem that has no coordinates, or wrong numbers.
    """
    return parse_problem(f"read_problem: {path}", read_text("read_problem", Path(path)))


def parse_problem(where: str, content: str) -> Problem:
    """The problem of what stands in a .tsp file.

    Args:
        where: which file it is, for the error message.
    """
    said, sections = _parse_sections(where, content)
    _check_keyword(where, "TYPE", said.get("TYPE", "nothing"), ("TSP",))
    kind = said.get("EDGE_WEIGHT_TYPE", "nothing")
    _check_keyword(where, "EDGE_WEIGHT_TYPE", kind, EDGE_WEIGHT_TYPES)
    cities: dict[int, list[float]] = {}
    for line, words in sections.get("NODE_COORD_SECTION", []):
        number, place = _parse_city(f"{where}, line {line}", words)
        if number in cities:
            raise ValueError(f"{where}, line {line}: expected another city, got {number} again")
        cities[number] = place
    n = _check_dimension(where, said, len(cities))
    if sorted(cities) != [*range(1, n + 1)]:
        strange = min(set(cities) - set(range(1, n + 1)))
        raise ValueError(f"{where}: expected cities from 1 to {n}, got {strange}")
    points = np.array([cities[number] for number in range(1, n + 1)], np.float64)
    return Problem(said.get("NAME", ""), kind.split(" ")[0], points)


def read_tour(path: Path | str) -> list[int]:
    """The tour of a .tour file, counted from 0; also as .gz.

    Raises:
        ValueError: no such file, no tour in it, or a city twice or out of range.
    """
    where = f"read_tour: {path}"
    said, sections = _parse_sections(where, read_text("read_tour", Path(path)))
    _check_keyword(where, "TYPE", said.get("TYPE", "nothing"), ("TOUR",))
    words = [(line, word) for line, words in sections.get("TOUR_SECTION", []) for word in words]
    cities = []
    for line, word in words:
        if word == "-1":
            break
        if not re.fullmatch("[0-9]{1,9}", word):
            raise ValueError(
                f"{where}, line {line}: expected the number of a city, got {word!r:.80}"
            )
        cities.append(int(word))
    n = _check_dimension(where, said, len(cities))
    if sorted(cities) != [*range(1, n + 1)]:
        raise ValueError(f"{where}: expected each city from 1 to {n} once, got another tour")
    return [city - 1 for city in cities]


_Lines = list[tuple[int, list[str]]]
_KEYWORD = re.compile(r"([A-Z][A-Z0-9_]*)\s*(?::\s*(.*))?")


def _parse_sections(where: str, content: str) -> tuple[dict[str, str], dict[str, _Lines]]:
    """What a file says of itself, and the numbered lines of its sections."""
    said: dict[str, str] = {}
    sections: dict[str, _Lines] = {}
    lines: _Lines | None = None
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip() == "EOF":
            break
        keyword = _KEYWORD.fullmatch(line.strip())
        if keyword and keyword[2] is None:
            lines = sections.setdefault(keyword[1], [])
        elif keyword:
            said[keyword[1]] = keyword[2].strip()
        elif line.strip() and lines is None:
            raise ValueError(
                f"{where}, line {number}: expected a keyword, got {line.strip()!r:.80}"
            )
        elif line.strip() and lines is not None:
            lines.append((number, line.split()))
    return said, sections


def _check_keyword(where: str, keyword: str, value: str, allowed: tuple[str, ...]) -> None:
    # some name the author behind the type, or make another remark
    if value.split(" ")[0] not in allowed:
        *rest, last = allowed
        names = f"{', '.join(rest)} or {last}" if rest else last
        raise ValueError(f"{where}: expected {keyword} {names}, got {value:.80}")


def _check_dimension(where: str, header: dict[str, str], found: int) -> int:
    """How many cities there are, unless the file says something else."""
    given = header.get("DIMENSION", str(found))
    if not found:
        raise ValueError(f"{where}: expected a city or more, got none")
    if given != str(found):
        raise ValueError(f"{where}: expected as many cities as DIMENSION, {given:.80}, got {found}")
    return found


def _parse_city(where: str, words: list[str]) -> tuple[int, list[float]]:
    """The number of a city, and its place."""
    try:
        number, x, y = int(words[0]), *map(float, words[1:])
    except ValueError:
        x = y = np.nan
    if not np.isfinite([x, y]).all():
        got = f"{' '.join(words)!r:.80}"
        raise ValueError(f"{where}: expected the number of a city and two coordinates, got {got}")
    return number, [x, y]
