"""Tours that are proved to be the shortest: Dantzig, Fulkerson, Johnson 1954, by SciPy's HiGHS."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.geometry.hulls import check_points
from regard.data.geometry.local_search import EXACT_MAX_CITIES, NEIGHBOUR_COUNT, short_tour
from regard.data.geometry.tours import canonical_tour, finite_distances, held_karp_tour, tour_length

# What is less is rounding, in shares of a short tour.
LENGTH_TOLERANCE = 1e-9
# HiGHS holds lengths for equal that differ by 1e-6, so they are shown to it as large as this.
HIGHS_LENGTH_SCALE = 1e4
# A set of cities that so much less than two edges leave is one that no tour has.
CUT_TOLERANCE = 1e-5
# So far must a share be from Edmonds' rules to be worth one.
BLOSSOM_MIN_VIOLATION = 0.05
# Kicks for each city before the proof: the shorter the tour, the fewer edges are left.
KICKS_PER_CITY = 20


class Proof(NamedTuple):
    """A tour, and what no tour can be shorter than."""

    tour: list[int]
    length: float
    is_optimal: bool  # whether no tour is shorter, but for rounding
    bound: float


def solve_tsp(points: np.ndarray, *, seconds: float | int = 60.0) -> Proof:
    """The shortest tour of cities (N, 2), from the first on, or the best one in the time given.

    Each city has two edges, and at least two lead out of any set of cities: these sets are sought
    as they are needed. Edges that are too long for a tour shorter than the best one are left out.

    Raises:
        ValueError: no numbers, no city, no time, or distances that are not finite.
    """
    places = check_points("solve_tsp", points)
    if not len(places) or not seconds > 0:
        raise ValueError(
            f"solve_tsp: expected a city or more and seconds above 0, "
            f"got {len(places)} and {seconds}"
        )
    apart, end = finite_distances("solve_tsp", places), time.monotonic() + seconds
    if len(places) <= EXACT_MAX_CITIES:
        tour = held_karp_tour(places)
        return Proof(tour, tour_length(places, tour), True, tour_length(places, tour))
    tour = short_tour(places, kicks=KICKS_PER_CITY * len(places))
    best = tour_length(places, tour)
    if best == 0:
        return Proof(tour, best, True, best)
    found, bound = _cutting_plane_search(apart / best, tour, end)
    shorter = tour_length(places, found)
    return Proof(found, shorter, bound * best > shorter * (1 - LENGTH_TOLERANCE), bound * best)


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges (n,) from one city to another, and their lengths."""

    one: np.ndarray
    other: np.ndarray
    lengths: np.ndarray

    def __getitem__(self, which: np.ndarray) -> "_Edges":
        return _Edges(self.one[which], self.other[which], self.lengths[which])

    def leaving_mask(self, sets: np.ndarray) -> np.ndarray:
        """Which edges (M, n) lead out of sets of cities (M, N)."""
        return sets[:, self.one] != sets[:, self.other]


@dataclass(frozen=True, eq=False)
class _Constraints:
    """What holds for the edges of a tour: `counted @ taken >= least`; for each city, no more."""

    coefficients: np.ndarray  # (M, n)
    lower_bounds: np.ndarray  # (M,)

    def __getitem__(self, which: np.ndarray) -> "_Constraints":
        return _Constraints(self.coefficients[:, which], self.lower_bounds)

    def __add__(self, more: "_Constraints") -> "_Constraints":
        return _Constraints(
            np.concatenate([self.coefficients, more.coefficients]),
            np.concatenate([self.lower_bounds, more.lower_bounds]),
        )


def _cutting_plane_search(
    distances: np.ndarray, tour: list[int], deadline: float
) -> tuple[list[int], float]:
    """The shortest tour of distances (N, N), in which `tour` has the length 1, and a bound."""
    N = len(distances)
    edges = _Edges(*np.triu_indices(N, 1), distances[np.triu_indices(N, 1)])
    rules, bound, dear = _solve_relaxation(edges, _likely_edges(edges, distances, tour), deadline)
    # An edge with which no tour can be shorter than 1 is left out.
    short = bound + dear <= 1 + LENGTH_TOLERANCE
    edges, rules = edges[short], rules[short]
    while bound < 1 - LENGTH_TOLERANCE and (left := deadline - time.monotonic()) > 0:
        taken, least = _solve_integer_program(edges, rules, N, left)
        bound = max(bound, min(least, 1.0))
        if taken is None:
            break
        parts = _connected_components(edges[taken], N)
        if len(parts) == 1:
            return _tour_of_edges(edges[taken], N), bound
        rules = rules + _subtour_constraints(edges, parts)
    return tour, bound


def _likely_edges(edges: _Edges, distances: np.ndarray, tour: list[int]) -> np.ndarray:
    """Which edges (n,) to begin with: those to the nearest cities, and those of a tour."""
    likely = np.zeros(distances.shape, bool)
    np.put_along_axis(likely, distances.argsort(1)[:, : NEIGHBOUR_COUNT + 1], True, 1)
    likely[tour, np.roll(tour, 1)] = True
    return (likely | likely.T)[edges.one, edges.other]


def _solve_relaxation(
    edges: _Edges, likely: np.ndarray, deadline: float
) -> tuple[_Constraints, float, np.ndarray]:
    """The rules that bind where edges may be taken in part, and a bound for all tours.

    And by how much it rises for those tours that have a given edge (n,).
    """
    N = int(edges.other.max()) + 1
    rules = _subtour_constraints(edges, np.eye(N, dtype=bool))
    while True:
        shares = np.zeros(len(edges.lengths))
        shares[likely], prices = _solve_linear_program(edges[likely], rules[likely], N)
        dear = edges.lengths - prices @ rules.coefficients
        # by duality this holds for any prices, however they were found
        bound = float(prices @ rules.lower_bounds + dear.clip(max=0).sum())
        cheap = ~likely & (dear < -LENGTH_TOLERANCE)
        broken = _violated_constraints(edges, shares, N)
        if time.monotonic() > deadline or not (len(broken.lower_bounds) or cheap.any()):
            return rules, bound, dear
        rules, likely = rules + broken, likely | cheap


def _solve_linear_program(
    edges: _Edges, constraints: _Constraints, N: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shares (n,) of the edges, and prices (M,) of the rules, of which the first N are exact."""
    found = _import_scipy().linprog(
        edges.lengths,
        A_eq=constraints.coefficients[:N],
        b_eq=constraints.lower_bounds[:N],
        A_ub=-constraints.coefficients[N:],
        b_ub=-constraints.lower_bounds[N:],
        bounds=(0, 1),
        method="highs",
    )
    return found.x, np.concatenate([found.eqlin.marginals, (-found.ineqlin.marginals).clip(0)])


def _solve_integer_program(
    edges: _Edges, constraints: _Constraints, N: int, seconds: float
) -> tuple[np.ndarray | None, float]:
    """Which edges (n,) are taken where none may be in part, if there was time, and a bound."""
    scipy = _import_scipy()
    most = np.where(np.arange(len(constraints.lower_bounds)) < N, constraints.lower_bounds, np.inf)
    found = scipy.milp(
        HIGHS_LENGTH_SCALE * edges.lengths,
        integrality=np.ones(len(edges.lengths)),
        bounds=scipy.Bounds(0, 1),
        constraints=scipy.LinearConstraint(
            constraints.coefficients, constraints.lower_bounds, most
        ),
        options={"time_limit": seconds, "mip_rel_gap": 0},
    )
    least = 0.0 if found.mip_dual_bound is None else found.mip_dual_bound / HIGHS_LENGTH_SCALE
    return found.x > 0.5 if found.status == 0 else None, least


def _subtour_constraints(edges: _Edges, sets: np.ndarray) -> _Constraints:
    """Two edges or more lead out of sets of cities (M, N)."""
    return _Constraints(edges.leaving_mask(sets).astype(np.float64), np.full(len(sets), 2.0))


def _violated_constraints(edges: _Edges, shares: np.ndarray, N: int) -> _Constraints:
    """Rules that shares (n,) of the edges break, if any are found."""
    parts = _connected_components(edges[shares > LENGTH_TOLERANCE], N)
    if len(parts) > 1:
        return _subtour_constraints(edges, parts)
    # Cities with a whole edge between them need not be told apart: Padberg and Rinaldi 1990.
    groups = _connected_components(edges[shares > 1 - LENGTH_TOLERANCE], N)
    group = groups.argmax(0)
    between = np.zeros((len(groups), len(groups)))
    np.add.at(between, (group[edges.one], group[edges.other]), shares)
    between += between.T
    np.fill_diagonal(between, 0)
    return _subtour_constraints(edges, _small_cuts(between, groups)) + _blossom_constraints(
        edges, shares, N
    )


def _blossom_constraints(edges: _Edges, shares: np.ndarray, N: int) -> _Constraints:
    """Edmonds 1965: an odd number of edges out of a set is not all that a tour takes out of it.

    For a set of cities and an odd number of edges out of it, a tour lacks one of these or has
    another one. Sets are those that edges hold together which are taken in part.
    """
    partly = np.minimum(shares, 1 - shares)
    sets = np.concatenate(
        [_connected_components(edges[partly > share], N) for share in (LENGTH_TOLERANCE, 0.1, 0.3)]
    )
    sets = np.unique(sets[(sets.sum(1) > 2) & (sets.sum(1) < N - 2)], axis=0)
    out = edges.leaving_mask(sets)  # (M, n)
    odd = out & (shares > 0.5)
    even = np.flatnonzero(odd.sum(1) % 2 == 0)
    # the edge that is nearest to a half may as well be on the other side
    doubtful = np.where(out[even], partly, -1).argmax(1)
    odd[even, doubtful] ^= True
    counted = np.where(odd, -1.0, out)
    least = 1.0 - odd.sum(1)
    broken = counted @ shares < least - BLOSSOM_MIN_VIOLATION
    return _Constraints(counted[broken], least[broken])


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
        if cut < 2 - CUT_TOLERANCE:
            found.append(groups[last].copy())
        between[before] += between[last]
        between[:, before] = between[before]
        between[before, before] = 0
        groups[before] |= groups[last]
        between = np.delete(np.delete(between, last, 0), last, 1)
        groups = np.delete(groups, last, 0)
    return np.array(found, bool).reshape(-1, groups.shape[1])


def _connected_components(edges: _Edges, N: int) -> np.ndarray:
    """The sets of cities (M, N) that edges hold together."""
    label, before = np.arange(N), None
    while before is None or (label != before).any():
        before = label.copy()
        lower = np.minimum(label[edges.one], label[edges.other])
        np.minimum.at(label, edges.one, lower)
        np.minimum.at(label, edges.other, lower)
        label = label[label]
    return label == np.unique(label)[:, None]


def _tour_of_edges(edges: _Edges, N: int) -> list[int]:
    """The tour that some edges are."""
    linked: list[list[int]] = [[] for _ in range(N)]
    for one, other in zip(edges.one.tolist(), edges.other.tolist(), strict=True):
        linked[one].append(other)
        linked[other].append(one)
    tour = [0, linked[0][0]]
    while len(tour) < N:
        one, other = linked[tour[-1]]
        tour.append(other if one == tour[-2] else one)
    return canonical_tour(tour)


def _import_scipy() -> Any:
    try:
        from scipy import optimize
    except ModuleNotFoundError:
        raise ModuleNotFoundError("proved needs scipy: pip install 'regard[data]'") from None
    return optimize
