"""Tours of cities: how long they are, and the shortest of few cities. Vinyals et al. 2015, 4.4."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.geometry.hulls import check_points
from regard.data.geometry.instances import (
    Instances,
    ReadingOrder,
    draw_points,
    instances_from_arrays,
)

# The most cities of `held_karp_tour`: each one more takes twice the memory and the time.
HELD_KARP_MAX_CITIES = 16


@dataclass(frozen=True)
class Tour:
    """Cities of the unit square, of one number in all instances of a batch, with no answers.

    Who learns from lengths needs none; who learns from tours brings them from elsewhere.
    """

    # the fewest cities of an instance
    min_points: int = 5
    # the most cities of an instance
    max_points: int = 20
    # numbers of cities go from the fewest to the most in steps of so many
    points_step: int = 1
    # in which order the cities are read
    order: ReadingOrder = "left"

    def __post_init__(self) -> None:
        if not 3 <= self.min_points <= self.max_points or self.points_step < 1:
            raise ValueError(
                f"Tour: expected 3 ≤ min_points ≤ max_points and 1 ≤ points_step, got {self}"
            )

    @property
    def inputs(self) -> int:
        """Coordinates of a city."""
        return 2

    def draw(self, random: np.random.Generator, count: int) -> Instances:
        """Instances of one number of cities, which chance has chosen.

        `count` is how many there are of the most cities. Of fewer cities there are more, so that
        all batches have about as many cities; and batches of more cities come more often, so that
        there are as many instances of each number.
        """
        sizes = np.arange(self.min_points, self.max_points + 1, self.points_step)
        cities = int(random.choice(sizes, p=sizes / sizes.sum()))
        rows = count * self.max_points // cities
        points, lengths = draw_points(random, rows, cities, cities, order=self.order)
        return instances_from_arrays(points, lengths, np.zeros((rows, 0), np.int64))


def tour_length(points: np.ndarray, tour: Sequence[int]) -> float:
    """The length of one closed tour through points (N, 2), in float64.

    >>> tour_length(np.array([[0, 0], [3, 0], [3, 4]]), [0, 1, 2])
    12.0
    """
    return float(tour_lengths(points[None], np.array(tour, np.int64)[None])[0])


def tour_lengths(points: np.ndarray, tours: np.ndarray) -> np.ndarray:
    """The lengths (B,) of closed tours (B, T) through points (B, N, 2), in float64."""
    cities = np.take_along_axis(points.astype(np.float64), tours[..., None], 1)  # (B, T, 2)
    x, y = (cities - np.roll(cities, 1, 1)).transpose(2, 0, 1)
    return np.hypot(x, y).sum(1)


def distances(points: np.ndarray) -> np.ndarray:
    """How far it is from each of points (N, 2) to each other, (N, N), in float64."""
    places = points.astype(np.float64)
    x, y = (places[:, None] - places[None]).transpose(2, 0, 1)
    return np.hypot(x, y)


def finite_distances(where: str, points: np.ndarray) -> np.ndarray:
    """The distances (N, N) of points (N, 2), if no tour is too long for a number."""
    with np.errstate(over="ignore"):
        apart = distances(points)
        longest = len(points) * apart.max()
    if not np.isfinite(longest):
        raise ValueError(
            f"{where}: expected distances that add up to a finite length, "
            f"got {len(points)} cities up to {apart.max():g} apart"
        )
    return apart


def held_karp_tour(points: np.ndarray) -> list[int]:
    """The shortest tour of a few cities (N, 2), from the first on: Held and Karp 1962.

    Raises:
        ValueError: no numbers, no city, more than `HELD_KARP_MAX_CITIES`, or distances that are not
            finite.
    """
    places = check_points("held_karp_tour", points)
    if not 1 <= len(points) <= HELD_KARP_MAX_CITIES:
        raise ValueError(
            f"held_karp_tour: expected 1 to {HELD_KARP_MAX_CITIES} cities, got {len(points)}"
        )
    apart = finite_distances("held_karp_tour", places)
    home, apart = apart[0, 1:], apart[1:, 1:]
    best = _held_karp_table(home, apart)
    # Back from the end, through the city from which each was reached.
    left, tour, onward = len(best) - 1, [0], home
    while left:
        last = int((best[left] + onward).argmin())
        tour.append(last + 1)
        left, onward = left ^ (1 << last), apart[last]
    return canonical_tour(tour)


def _held_karp_table(home: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """The shortest ways (2ⁿ, n) from home (n,) through a set of n cities that end in each of it."""
    n = len(home)
    sets = np.arange(1 << n)
    sizes = sum((sets >> city) & 1 for city in range(n))
    best = np.full((len(sets), n), np.inf)
    best[1 << np.arange(n), np.arange(n)] = home
    for size in range(2, n + 1):
        some = sets[sizes == size]
        for city in range(n):
            ending = some[(some >> city) & 1 == 1]
            best[ending, city] = (best[ending ^ (1 << city)] + apart[city]).min(1)
    return best


def canonical_tour(tour: Sequence[int]) -> list[int]:
    """The same round trip from its lowest city on, towards the lower of its two neighbours.

    >>> canonical_tour([2, 3, 0, 1])
    [0, 1, 2, 3]
    """
    start = list(tour).index(min(tour))
    turned = [*tour[start:], *tour[:start]]
    return turned if turned[1:2] <= turned[-1:] else turned[:1] + turned[:0:-1]
