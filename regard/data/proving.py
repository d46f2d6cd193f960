"""Tours that are proved to be the shortest: Dantzig, Fulkerson, Johnson 1954, by SciPy's HiGHS."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.hulls import finite
from regard.data.local_search import NEAREST, SMALL, near
from regard.data.tours import by_programming, length, measured, normal

# What is less is rounding, in shares of a short tour.
DOUBT = 1e-9
# HiGHS holds lengths for equal that differ by 1e-6, so they are shown to it as large as this.
LARGE = 1e4
# A set of cities that so much less than two edges leave is one that no tour has.
LESS = 1e-5
# So far must a share be from Edmonds' rules to be worth one.
ODD = 0.05
# Kicks for each city before the proof: the shorter the tour, the fewer edges are left.
KICKS = 20


class Proof(NamedTuple):
    """A tour, and what no tour can be shorter than."""

    tour: list[int]
    length: float
    proved: bool  # whether no tour is shorter, but for rounding
    bound: float


def proved(points: np.ndarray, *, seconds: float | int = 60.0) -> Proof:
    """The shortest tour of cities (N, 2), from the first on, or the best one in the time given.

    Each city has two edges, and at least two lead out of any set of cities: these sets are sought
    as they are needed. Edges that are too long for a tour shorter than the best one are left out.

    Raises:
        ValueError: no numbers, no city, no time, or distances that are not finite.
    """
    places = finite("proved", points)
    if not len(places) or not seconds > 0:
        raise ValueError(
            f"proved: expected a city or more and seconds above 0, got {len(places)} and {seconds}"
        )
    apart, end = measured("proved", places), time.monotonic() + seconds
    if len(places) <= SMALL:
        tour = by_programming(places)
        return Proof(tour, length(places, tour), True, length(places, tour))
    tour = near(places, kicks=KICKS * len(places))
    best = length(places, tour)
    if best == 0:
        return Proof(tour, best, True, best)
    found, bound = _searched(apart / best, tour, end)
    shorter = length(places, found)
    return Proof(found, shorter, bound * best > shorter * (1 - DOUBT), bound * best)


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges (n,) from one city to another, and their lengths."""

    one: np.ndarray
    other: np.ndarray
    apart: np.ndarray

    def __getitem__(self, which: np.ndarray) -> "_Edges":
        return _Edges(self.one[which], self.other[which], self.apart[which])

    def out_of(self, sets: np.ndarray) -> np.ndarray:
        """Which edges (M, n) lead out of sets of cities (M, N)."""
        return sets[:, self.one] != sets[:, self.other]


@dataclass(frozen=True, eq=False)
class _Rules:
    """What holds for the edges of a tour: `counted @ taken >= least`; for each city, no more."""

    counted: np.ndarray  # (M, n)
    least: np.ndarray  # (M,)

    def __getitem__(self, which: np.ndarray) -> "_Rules":
        return _Rules(self.counted[:, which], self.least)

    def __add__(self, more: "_Rules") -> "_Rules":
        return _Rules(
            np.concatenate([self.counted, more.counted]), np.concatenate([self.least, more.least])
        )


def _searched(apart: np.ndarray, tour: list[int], end: float) -> tuple[list[int], float]:
    """The shortest tour of distances (N, N), in which `tour` has the length 1, and a bound."""
    N = len(apart)
    edges = _Edges(*np.triu_indices(N, 1), apart[np.triu_indices(N, 1)])
    rules, bound, dear = _relaxed(edges, _likely(edges, apart, tour), end)
    # An edge with which no tour can be shorter than 1 is left out.
    short = bound + dear <= 1 + DOUBT
    edges, rules = edges[short], rules[short]
    while bound < 1 - DOUBT and (left := end - time.monotonic()) > 0:
        taken, least = _whole(edges, rules, N, left)
        bound = max(bound, min(least, 1.0))
        if taken is None:
            break
        parts = _parts(edges[taken], N)
        if len(parts) == 1:
            return _in_order(edges[taken], N), bound
        rules = rules + _leaving(edges, parts)
    return tour, bound


def _likely(edges: _Edges, apart: np.ndarray, tour: list[int]) -> np.ndarray:
    """Which edges (n,) to begin with: those to the nearest cities, and those of a tour."""
    likely = np.zeros(apart.shape, bool)
    np.put_along_axis(likely, apart.argsort(1)[:, : NEAREST + 1], True, 1)
    likely[tour, np.roll(tour, 1)] = True
    return (likely | likely.T)[edges.one, edges.other]


def _relaxed(edges: _Edges, likely: np.ndarray, end: float) -> tuple[_Rules, float, np.ndarray]:
    """The rules that bind where edges may be taken in part, and a bound for all tours.

    And by how much it rises for those tours that have a given edge (n,).
    """
    N = int(edges.other.max()) + 1
    rules = _leaving(edges, np.eye(N, dtype=bool))
    while True:
        shares = np.zeros(len(edges.apart))
        shares[likely], prices = _priced(edges[likely], rules[likely], N)
        dear = edges.apart - prices @ rules.counted
        # by duality this holds for any prices, however they were found
        bound = float(prices @ rules.least + dear.clip(max=0).sum())
        cheap = ~likely & (dear < -DOUBT)
        broken = _broken(edges, shares, N)
        if time.monotonic() > end or not (len(broken.least) or cheap.any()):
            return rules, bound, dear
        rules, likely = rules + broken, likely | cheap


def _priced(edges: _Edges, rules: _Rules, N: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares (n,) of the edges, and prices (M,) of the rules, of which the first N are exact."""
    found = _scipy().linprog(
        edges.apart,
        A_eq=rules.counted[:N],
        b_eq=rules.least[:N],
        A_ub=-rules.counted[N:],
        b_ub=-rules.least[N:],
        bounds=(0, 1),
        method="highs",
    )
    return found.x, np.concatenate([found.eqlin.marginals, (-found.ineqlin.marginals).clip(0)])


def _whole(edges: _Edges, rules: _Rules, N: int, seconds: float) -> tuple[np.ndarray | None, float]:
    """Which edges (n,) are taken where none may be in part, if there was time, and a bound."""
    scipy = _scipy()
    most = np.where(np.arange(len(rules.least)) < N, rules.least, np.inf)
    found = scipy.milp(
        LARGE * edges.apart,
        integrality=np.ones(len(edges.apart)),
        bounds=scipy.Bounds(0, 1),
        constraints=scipy.LinearConstraint(rules.counted, rules.least, most),
        options={"time_limit": seconds, "mip_rel_gap": 0},
    )
    least = 0.0 if found.mip_dual_bound is None else found.mip_dual_bound / LARGE
    return found.x > 0.5 if found.status == 0 else None, least


def _leaving(edges: _Edges, sets: np.ndarray) -> _Rules:
    """Two edges or more lead out of sets of cities (M, N)."""
    return _Rules(edges.out_of(sets).astype(np.float64), np.full(len(sets), 2.0))


def _broken(edges: _Edges, shares: np.ndarray, N: int) -> _Rules:
    """Rules that shares (n,) of the edges break, if any are found."""
    parts = _parts(edges[shares > DOUBT], N)
    if len(parts) > 1:
        return _leaving(edges, parts)
    # Cities with a whole edge between them need not be told apart: Padberg and Rinaldi 1990.
    groups = _parts(edges[shares > 1 - DOUBT], N)
    group = groups.argmax(0)
    between = np.zeros((len(groups), len(groups)))
    np.add.at(between, (group[edges.one], group[edges.other]), shares)
    between += between.T
    np.fill_diagonal(between, 0)
    return _leaving(edges, _small_cuts(between, groups)) + _odd(edges, shares, N)


def _odd(edges: _Edges, shares: np.ndarray, N: int) -> _Rules:
    """Edmonds 1965: an odd number of edges out of a set is not all that a tour takes out of it.

    For a set of cities and an odd number of edges out of it, a tour lacks one of these or has
    another one. Sets are those that edges hold together which are taken in part.
    """
    partly = np.minimum(shares, 1 - shares)
    sets = np.concatenate([_parts(edges[partly > share], N) for share in (DOUBT, 0.1, 0.3)])
    sets = np.unique(sets[(sets.sum(1) > 2) & (sets.sum(1) < N - 2)], axis=0)
    out = edges.out_of(sets)  # (M, n)
    odd = out & (shares > 0.5)
    even = np.flatnonzero(odd.sum(1) % 2 == 0)
    # the edge that is nearest to a half may as well be on the other side
    doubtful = np.where(out[even], partly, -1).argmax(1)
    odd[even, doubtful] ^= True
    counted = np.where(odd, -1.0, out)
    least = 1.0 - odd.sum(1)
    broken = counted @ shares < least - ODD
    return _Rules(counted[broken], least[broken])


def _small_cuts(between: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sets of cities (M, N) that less than two of the edges between groups leave.

    Stoer and Wagner 1997: whatever is added last is cut off from all others, or may be joined
    with what was added before it.
    """
    found = []
    while len(groups) > 1:
        left, near = np.ones(len(groups), bool), np.zeros(len(groups))
        last = before = 0
        for _ in groups:
            before, last = last, int(np.where(left, near, -1).argmax())
            left[last], cut = False, near[last]
            near = near + between[last]
        if cut < 2 - LESS:
            found.append(groups[last].copy())
        between[before] += between[last]
        between[:, before] = between[before]
        between[before, before] = 0
        groups[before] |= groups[last]
        between = np.delete(np.delete(between, last, 0), last, 1)
        groups = np.delete(groups, last, 0)
    return np.array(found, bool).reshape(-1, groups.shape[1])


def _parts(edges: _Edges, N: int) -> np.ndarray:
    """The sets of cities (M, N) that edges hold together."""
    label, before = np.arange(N), None
    while before is None or (label != before).any():
        before = label.copy()
        lower = np.minimum(label[edges.one], label[edges.other])
        np.minimum.at(label, edges.one, lower)
        np.minimum.at(label, edges.other, lower)
        label = label[label]
    return label == np.unique(label)[:, None]


def _in_order(edges: _Edges, N: int) -> list[int]:
    """The tour that some edges are."""
    linked: list[list[int]] = [[] for _ in range(N)]
    for one, other in zip(edges.one.tolist(), edges.other.tolist(), strict=True):
        linked[one].append(other)
        linked[other].append(one)
    tour = [0, linked[0][0]]
    while len(tour) < N:
        one, other = linked[tour[-1]]
        tour.append(other if one == tour[-2] else one)
    return normal(tour)


def _scipy() -> Any:
    try:
        from scipy import optimize
    except ModuleNotFoundError:
        raise ModuleNotFoundError("proved needs scipy: pip install 'regard[data]'") from None
    return optimize
