"""Short tours, not surely the shortest: made shorter by small changes until none helps."""

import random
from collections import deque
from collections.abc import Iterable

import numpy as np

from regard.data.hulls import finite
from regard.data.tours import by_programming, measured, normal

# Up to so many cities, the shortest tour is found at once.
SMALL = 7
# New neighbours of a city are sought among so many of the nearest.
NEAREST = 10
# The most cities that are moved together to another place.
MOVED = 3
# The most neighbouring cities that a kick shuffles.
KICKED = 50
# By so many mean edges a tour may get longer in one kick, at the beginning.
HEAT = 0.5
# What is less is no gain but rounding.
GAIN = 1e-12


def near(points: np.ndarray, *, kicks: int = 1000, seed: int = 0) -> list[int]:
    """A short tour of cities (N, 2), from the first on.

    Croes 1958 turns a part of the tour around, Or 1976 moves some cities elsewhere; where neither
    makes it shorter, a kick lets two parts change places (Martin et al. 1991). What made the tour
    longer is taken back, at the beginning only if by much.

    Raises:
        ValueError: no numbers, no city, fewer than 0 kicks, or distances that are not finite.
    """
    places = finite("near", points)
    if not len(places) or kicks < 0:
        raise ValueError(
            f"near: expected a city or more and kicks of at least 0, got {len(places)} and {kicks}"
        )
    apart = measured("near", places)
    if len(places) <= SMALL:
        return by_programming(places)
    search, chance = _Search(apart), random.Random(seed)
    search.settle(range(len(places)))
    best, longer, heat = search.tour[:], 0.0, HEAT * search.edge()
    for left in range(kicks, 0, -1):
        before = search.tour[:]
        change = search.kick(chance)
        if change > heat * left / kicks * chance.expovariate(1.0):
            search.put(before)
            continue
        longer += change
        if longer < -GAIN:
            best, longer = search.tour[:], 0.0
    return normal(best)


class _Search:
    """A tour of cities with distances (N, N) that is made shorter."""

    def __init__(self, apart: np.ndarray):
        scale = apart.max() or 1.0
        self.apart: list[list[float]] = (apart / scale).tolist()
        nearest = apart.argsort(1, kind="stable")[:, : NEAREST + 1]
        self.nearest = [
            [other for other in row if other != city][:NEAREST]
            for city, row in enumerate(nearest.tolist())
        ]
        self.put(_by_nearest(apart))

    def put(self, tour: list[int]) -> None:
        """Take this tour."""
        self.tour, self.place = tour, [0] * len(tour)
        for place, city in enumerate(tour):
            self.place[city] = place

    def edge(self) -> float:
        """The mean length of an edge of the tour."""
        edges = (self.apart[city][self.step(city, 1)] for city in self.tour)
        return sum(edges) / len(self.tour)

    def step(self, city: int, way: int) -> int:
        """The city so many places further on."""
        return self.tour[(self.place[city] + way) % len(self.tour)]

    def settle(self, cities: Iterable[int]) -> float:
        """Make the tour shorter around these cities until nothing helps; by how much it changed."""
        waiting, change = deque(cities), 0.0
        listed = set(waiting)
        while waiting:
            city = waiting.popleft()
            listed.discard(city)
            while gained := self._turned(city) or self._moved(city):
                change += gained[0]
                waiting.extend(each for each in gained[1] if each not in listed)
                listed.update(gained[1])
        return change

    def kick(self, chance: random.Random) -> float:
        """Let two neighbouring parts of the tour change places and settle; the change in all."""
        start = chance.randrange(len(self.tour))
        tour = self.tour[start:] + self.tour[:start]
        x, y, z = sorted(chance.sample(range(1, min(len(tour), KICKED)), 3))
        ends = [tour[x - 1], tour[x], tour[y - 1], tour[y], tour[z - 1], tour[z]]
        a, b, c, d, e, f = ends
        far = self.apart
        change = far[a][d] + far[e][b] + far[c][f] - far[a][b] - far[c][d] - far[e][f]
        self.put(tour[:x] + tour[y:z] + tour[x:y] + tour[z:])
        return change + self.settle(ends)

    def _turned(self, a: int) -> "_Change | None":
        """Turn a part around that begins at `a` or behind it, if that makes the tour shorter."""
        far = self.apart
        for way in (1, -1):
            b = self.step(a, way)
            for c in self.nearest[a]:
                gain = far[a][b] - far[a][c]
                if gain <= GAIN:
                    break
                d = self.step(c, way)
                if (change := far[b][d] - far[c][d] - gain) < -GAIN:
                    self._turn(*((b, c) if way == 1 else (a, d)))
                    return change, (a, b, c, d)
        return None

    def _turn(self, first: int, last: int) -> None:
        """Turn the part around that leads from the first city to the last, or else all others."""
        i, j = self.place[first], self.place[last]
        i, j = (i, j + 1) if i <= j else (j + 1, i)
        self.tour[i:j] = self.tour[i:j][::-1]
        for place in range(i, j):
            self.place[self.tour[place]] = place

    def _moved(self, a: int) -> "_Change | None":
        """Move `a` and some cities behind it to a neighbour, if that makes the tour shorter."""
        far = self.apart
        for way in (1, -1):
            part: list[int] = []
            for steps in range(MOVED):
                b = self.step(a, way * steps)
                part.append(b)
                before, behind = self.step(a, -way), self.step(b, way)
                gain = far[before][a] + far[b][behind] - far[before][behind]
                for c in self.nearest[a]:
                    if far[a][c] >= gain - GAIN:
                        break
                    for d in () if c in part else (self.step(c, 1), self.step(c, -1)):
                        change = far[a][c] + far[b][d] - far[c][d] - gain
                        if d not in part and change < -GAIN:
                            self._move(part, c, d)
                            return change, (a, b, c, d, before, behind)
        return None

    def _move(self, part: list[int], c: int, d: int) -> None:
        """Put a part, the first city next to `c`, between `c` and its neighbour `d`."""
        rest = [city for city in self.tour if city not in part]
        i = rest.index(c)
        ahead = rest[(i + 1) % len(rest)] == d
        self.put(
            rest[: i + 1] + part + rest[i + 1 :] if ahead else rest[:i] + part[::-1] + rest[i:]
        )


_Change = tuple[float, tuple[int, ...]]


def _by_nearest(apart: np.ndarray) -> list[int]:
    """From each city to the nearest that is left."""
    left, tour = np.ones(len(apart), bool), [0]
    left[0] = False
    while left.any():
        tour.append(int(np.where(left, apart[tour[-1]], np.inf).argmin()))
        left[tour[-1]] = False
    return tour
