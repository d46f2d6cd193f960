"""Short tours, not surely the shortest: made shorter by small changes until none helps."""

import random
from collections import deque
from collections.abc import Iterable

import numpy as np

from regard.data.geometry.hulls import check_points
from regard.data.geometry.tours import canonical_tour, finite_distances, held_karp_tour

# Up to so many cities, the shortest tour is found at once.
EXACT_MAX_CITIES = 7
# New neighbours of a city are sought among so many of the nearest.
NEIGHBOUR_COUNT = 10
# The most cities that are moved together to another place.
OR_OPT_MAX_CITIES = 3
# The most neighbouring cities that a kick shuffles.
KICK_MAX_CITIES = 50
# By so many mean edges a tour may get longer in one kick, at the beginning.
START_TEMPERATURE_EDGES = 0.5
# What is less is no gain but rounding.
MIN_GAIN = 1e-12


def short_tour(points: np.ndarray, *, kicks: int = 1000, seed: int = 0) -> list[int]:
    """A short tour of cities (N, 2), from the first on.

    Croes 1958 turns a part of the tour around, Or 1976 moves some cities elsewhere; where neither
    makes it shorter, a kick lets two parts change places (Martin et al. 1991). What made the tour
    longer is taken back, at the beginning only if by much.

    Raises:
        ValueError: no numbers, no city, fewer than 0 kicks, or distances that are not finite.
    """
    places = check_points("short_tour", points)
    if not len(places) or kicks < 0:
        raise ValueError(
            f"short_tour: expected a city or more and kicks of at least 0, "
            f"got {len(places)} and {kicks}"
        )
    apart = finite_distances("short_tour", places)
    if len(places) <= EXACT_MAX_CITIES:
        return held_karp_tour(places)
    search, chance = _Search(apart), random.Random(seed)
    search.improve_around(range(len(places)))
    best, longer, heat = search.tour[:], 0.0, START_TEMPERATURE_EDGES * search.mean_edge_length()
    for left in range(kicks, 0, -1):
        before = search.tour[:]
        change = search.kick(chance)
        if change > heat * left / kicks * chance.expovariate(1.0):
            search.set_tour(before)
            continue
        longer += change
        if longer < -MIN_GAIN:
            best, longer = search.tour[:], 0.0
    return canonical_tour(best)


class _Search:
    """A tour of cities with distances (N, N) that is made shorter."""

    def __init__(self, distances: np.ndarray):
        scale = distances.max() or 1.0
        self.distances: list[list[float]] = (distances / scale).tolist()
        nearest = distances.argsort(1, kind="stable")[:, : NEIGHBOUR_COUNT + 1]
        self.nearest = [
            [other for other in row if other != city][:NEIGHBOUR_COUNT]
            for city, row in enumerate(nearest.tolist())
        ]
        self.set_tour(_nearest_neighbour_tour(distances))

    def set_tour(self, tour: list[int]) -> None:
        """Take this tour."""
        self.tour, self.positions = tour, [0] * len(tour)
        for place, city in enumerate(tour):
            self.positions[city] = place

    def mean_edge_length(self) -> float:
        """The mean length of an edge of the tour."""
        edges = (self.distances[city][self.city_after(city, 1)] for city in self.tour)
        return sum(edges) / len(self.tour)

    def city_after(self, city: int, offset: int) -> int:
        """The city so many places further on."""
        return self.tour[(self.positions[city] + offset) % len(self.tour)]

    def improve_around(self, cities: Iterable[int]) -> float:
        """Make the tour shorter around these cities until nothing helps; by how much it changed."""
        waiting, change = deque(cities), 0.0
        listed = set(waiting)
        while waiting:
            city = waiting.popleft()
            listed.discard(city)
            while gained := self._try_two_opt(city) or self._try_or_opt(city):
                change += gained[0]
                waiting.extend(each for each in gained[1] if each not in listed)
                listed.update(gained[1])
        return change

    def kick(self, rng: random.Random) -> float:
        """Let two neighbouring parts of the tour change places and settle; the change in all."""
        start = rng.randrange(len(self.tour))
        tour = self.tour[start:] + self.tour[:start]
        x, y, z = sorted(rng.sample(range(1, min(len(tour), KICK_MAX_CITIES)), 3))
        ends = [tour[x - 1], tour[x], tour[y - 1], tour[y], tour[z - 1], tour[z]]
        a, b, c, d, e, f = ends
        far = self.distances
        change = far[a][d] + far[e][b] + far[c][f] - far[a][b] - far[c][d] - far[e][f]
        self.set_tour(tour[:x] + tour[y:z] + tour[x:y] + tour[z:])
        return change + self.improve_around(ends)

    def _try_two_opt(self, a: int) -> "_Change | None":
        """Turn a part around that begins at `a` or behind it, if that makes the tour shorter."""
        far = self.distances
        for way in (1, -1):
            b = self.city_after(a, way)
            for c in self.nearest[a]:
                gain = far[a][b] - far[a][c]
                if gain <= MIN_GAIN:
                    break
                d = self.city_after(c, way)
                if (change := far[b][d] - far[c][d] - gain) < -MIN_GAIN:
                    self._reverse_section(*((b, c) if way == 1 else (a, d)))
                    return change, (a, b, c, d)
        return None

    def _reverse_section(self, first: int, last: int) -> None:
        """Turn the part around that leads from the first city to the last, or else all others."""
        i, j = self.positions[first], self.positions[last]
        i, j = (i, j + 1) if i <= j else (j + 1, i)
        self.tour[i:j] = self.tour[i:j][::-1]
        for place in range(i, j):
            self.positions[self.tour[place]] = place

    def _try_or_opt(self, a: int) -> "_Change | None":
        """Move `a` and some cities behind it to a neighbour, if that makes the tour shorter."""
        far = self.distances
        for way in (1, -1):
            part: list[int] = []
            for steps in range(OR_OPT_MAX_CITIES):
                b = self.city_after(a, way * steps)
                part.append(b)
                before, behind = self.city_after(a, -way), self.city_after(b, way)
                gain = far[before][a] + far[b][behind] - far[before][behind]
                for c in self.nearest[a]:
                    if far[a][c] >= gain - MIN_GAIN:
                        break
                    for d in () if c in part else (self.city_after(c, 1), self.city_after(c, -1)):
                        change = far[a][c] + far[b][d] - far[c][d] - gain
                        if d not in part and change < -MIN_GAIN:
                            self._move_section(part, c, d)
                            return change, (a, b, c, d, before, behind)
        return None

    def _move_section(self, part: list[int], c: int, d: int) -> None:
        """Put a part, the first city next to `c`, between `c` and its neighbour `d`."""
        rest = [city for city in self.tour if city not in part]
        i = rest.index(c)
        ahead = rest[(i + 1) % len(rest)] == d
        self.set_tour(
            rest[: i + 1] + part + rest[i + 1 :] if ahead else rest[:i] + part[::-1] + rest[i:]
        )


_Change = tuple[float, tuple[int, ...]]


def _nearest_neighbour_tour(distances: np.ndarray) -> list[int]:
    """From each city to the nearest that is left."""
    left, tour = np.ones(len(distances), bool), [0]
    left[0] = False
    while left.any():
        tour.append(int(np.where(left, distances[tour[-1]], np.inf).argmin()))
        left[tour[-1]] = False
    return tour
