"""Delaunay triangulations: triangles with no point in their circles. Vinyals et al. 2015, 4.3."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from regard.data.geometry.hulls import Point, check_points, orientation
from regard.data.geometry.instances import (
    Instances,
    ReadingOrder,
    draw_points,
    instances_from_arrays,
)

# Up to so many points, all triangles of all rows are tried at once; above, SciPy takes row by row.
BRUTE_FORCE_MAX_POINTS = 12
# Points that are nearer to one line or to one circle are drawn anew. Rounding errs by 1e-15.
DEGENERACY_TOLERANCE = 1e-12
# Higher than any plane through three points: a point there lies in no circle.
FAR_HEIGHT = 1e30
# A point that is off a circle by less than one in so many parts counts as on it: by as much the
# rounding of coordinates moves the corners of a regular hexagon.
COCIRCULAR_PRECISION = 10**14

Triangle = tuple[int, int, int]


@dataclass(frozen=True)
class Delaunay:
    """Vinyals et al. 2015, 4.3: points of the unit square, and the triangles between them.

    The answer has three steps for each triangle: its points by their indices. Triangles come by
    the centers of the circles inside them, from left to right, and one below the other from below.
    """

    # the fewest points of an instance
    min_points: int = 5
    # the most points of an instance
    max_points: int = 10
    # in which order the points are read
    order: ReadingOrder = "left"

    def __post_init__(self) -> None:
        if not 3 <= self.min_points <= self.max_points:
            raise ValueError(f"Delaunay: expected 3 ≤ min_points ≤ max_points, got {self}")

    @property
    def inputs(self) -> int:
        """Coordinates of a point."""
        return 2

    def draw(self, random: np.random.Generator, count: int) -> Instances:
        """So many instances, each of as many points as chance has it, with their triangles."""
        points, lengths = draw_points(
            random, count, self.min_points, self.max_points, order=self.order
        )
        found = (
            _brute_force_triangles
            if self.max_points <= BRUTE_FORCE_MAX_POINTS
            else _qhull_triangles_of_rows
        )
        triples, doubtful = found(points, lengths)
        while doubtful.any():
            again = draw_points(
                random, int(doubtful.sum()), self.min_points, self.max_points, order=self.order
            )
            points[doubtful], lengths[doubtful] = again
            triples, doubtful = found(points, lengths)
        return instances_from_arrays(points, lengths, _answers(points, *triples))


def delaunay(points: np.ndarray) -> list[Triangle]:
    """The triangles of points (n, 2), in the order of the answers of `Delaunay`.

    Raises:
        ValueError: no numbers, fewer than three points, equal points, or all of them on one line.
    """
    places = _check_distinct_points(points)
    triples = _qhull_triangles(places)
    if not len(triples):
        raise ValueError(
            f"delaunay: expected points that span an area and can be told apart, "
            f"got {len(points)} too near to one line or to each other"
        )
    answers = _answers((places - places.min(0))[None], np.zeros(len(triples), np.int64), triples)
    return [(a, b, c) for a, b, c in answers.reshape(-1, 3).tolist()]


def triangle_set(answer: Sequence[Any] | np.ndarray) -> set[frozenset[int]]:
    """The triangles of an answer, three indices each; −1, and what is no triangle, does not count.

    >>> sorted(map(sorted, triangle_set([0, 1, 2, 1, 3, 2, 4, 4, 5, -1, -1, -1])))
    [[0, 1, 2], [1, 2, 3]]
    """
    flat = np.ravel(np.asarray(answer, np.int64))
    triples = flat[: len(flat) // 3 * 3].reshape(-1, 3).tolist()
    return {frozenset(each) for each in triples if len(set(each)) == 3 and min(each) >= 0}


def is_delaunay(points: np.ndarray, answer: Sequence[Any] | np.ndarray) -> bool:
    """Whether triangles cover all between points (n, 2), edge to edge, no circle holding a point.

    Where more than three points lie on an empty circle, several answers are right; `delaunay`
    gives one of them. What stands behind the first −1 does not count.

    >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    >>> is_delaunay(square, [0, 1, 2, 0, 2, 3]), is_delaunay(square, [1, 2, 3, 1, 3, 0])
    (True, True)
    >>> is_delaunay(square, [0, 1, 2, 1, 2, 3])
    False
    """
    places = _point_list("is_delaunay", points)
    flat = np.ravel(np.asarray(answer, np.int64))
    flat = flat[: int((flat >= 0).cumprod().sum())]
    if not len(flat) or len(flat) % 3 or flat.max() >= len(places):
        return False
    corners = [tuple(places[i] for i in triple) for triple in flat.reshape(-1, 3).tolist()]
    turns = [orientation(*each) for each in corners]
    # counterclockwise, all of them
    corners = [each[::way] for each, way in zip(corners, turns, strict=True) if way]
    if not all(turns) or not _is_tiling(places, corners):
        return False
    whole = _integer_points(places)
    circles = [[whole[place] for place in each] for each in corners]
    return all(
        _in_circle_sign(circle, point) <= 0 for circle in circles for point in whole.values()
    )


def is_ambiguous(points: np.ndarray, answer: Sequence[Any] | np.ndarray) -> bool:
    """Whether a right answer is not the only one: a point lies on the circle of three others."""
    places = _point_list("is_ambiguous", points)
    whole = _integer_points(places)
    circles = [[places[i] for i in triple] for triple in triangle_set(answer)]
    return any(
        _in_circle_sign([whole[corner] for corner in circle], whole[place]) == 0
        for circle in circles
        for place in places
        if place not in circle
    )


def triangle_coverage(
    answer: Sequence[Any] | np.ndarray, truth: Sequence[Any] | np.ndarray
) -> float:
    """The share of the true triangles that an answer has: Vinyals et al. 2015, 4.3."""
    right = triangle_set(truth)
    if not right:
        raise ValueError("triangle_coverage: expected a truth of one triangle or more, got none")
    return len(right & triangle_set(answer)) / len(right)


# The rows and the three indices of the triangles of a batch, (n,) and (n, 3), row after row.
_Triples = tuple[np.ndarray, np.ndarray]


def _brute_force_triangles(points: np.ndarray, lengths: np.ndarray) -> tuple[_Triples, np.ndarray]:
    """The triangles of points (B, N, 2), and which rows (B,) are too near to having others too.

    Lift each point to the height x² + y². A circle holds no point where the plane through its
    three lifted points has none below it: Brown 1979.
    """
    _, N, _ = points.shape
    tried = np.array(list(combinations(range(N), 3)))  # (M, 3)
    own = (np.arange(N)[:, None, None] == tried).any(2) * FAR_HEIGHT  # (N, M)
    x, y = points.astype(np.float64).transpose(2, 0, 1)  # (B, N)
    lifted = np.stack([x, y, np.where(np.arange(N) < lengths[:, None], x * x + y * y, FAR_HEIGHT)])
    a, b, c = (lifted[:, :, tried[:, k]] for k in range(3))  # (3, B, M)
    plane = _cross_product(b - a, c - a)
    plane *= np.sign(plane[2])
    above = lifted.transpose(1, 2, 0) @ plane.transpose(1, 0, 2)  # (B, N, M)
    above += own
    nearest = above.min(1) - (plane * a).sum(0)
    there = tried[:, 2] < lengths[:, None]
    near = (np.abs(nearest) < DEGENERACY_TOLERANCE) | (plane[2] < DEGENERACY_TOLERANCE)
    rows, which = np.nonzero(there & (nearest > 0))
    return (rows, tried[which]), (there & near).any(1)


def _cross_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The products of vectors (3, ...), at right angles to both."""
    (x, y, z), (u, v, w) = a, b
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u])


def _qhull_triangles_of_rows(
    points: np.ndarray, lengths: np.ndarray
) -> tuple[_Triples, np.ndarray]:
    """The same by SciPy, for many points."""
    found = [
        _qhull_triangles(row[:n].astype(np.float64)) for row, n in zip(points, lengths, strict=True)
    ]
    counts = np.array([len(each) for each in found])
    return (np.repeat(np.arange(len(found)), counts), np.concatenate(found)), counts == 0


def _qhull_triangles(places: np.ndarray) -> np.ndarray:
    """The triangles (n, 3) of some points; none where they are too near to each other or a line."""
    try:
        from scipy.spatial import Delaunay as Qhull
        from scipy.spatial import QhullError
    except ModuleNotFoundError:
        raise ModuleNotFoundError("delaunay needs scipy: pip install 'regard[data]'") from None
    try:
        # far from the origin it would lose the digits that tell points apart
        with np.errstate(over="ignore"):
            found = Qhull(places - places.min(0))
    except QhullError:
        return np.zeros((0, 3), np.int64)
    triples = np.sort(found.simplices.astype(np.int64), 1)
    corners = [[(x, y) for x, y in corner] for corner in places[triples].tolist()]
    flat = [orientation(*corner) == 0 for corner in corners]
    whole = len(np.unique(triples)) == len(places)
    return triples[~np.array(flat)] if whole else triples[:0]


def _is_tiling(places: list[Point], corners: list[tuple[Point, ...]]) -> bool:
    """Whether triangles, counterclockwise, have all places as corners and cover their hull once.

    Two triangles on either side of an edge follow it in opposite directions. Edges that only one
    follows must be those of the rim: then the triangles wind around any spot in the hull as often
    as the rim does, and so just one of them holds it.
    """
    edges = [edge for a, b, c in corners for edge in ((a, b), (b, c), (c, a))]
    there = set(edges)
    rim = [(a, b) for a, b in there if (b, a) not in there]
    return (
        len(there) == len(edges)
        and {place for each in corners for place in each} == set(places)
        and all(_is_left_of_edge(a, b, place) for a, b in rim for place in places)
    )


def _is_left_of_edge(a: Point, b: Point, place: Point) -> bool:
    """Whether a place is neither to the right of the way from a to b nor on it between them."""
    way = orientation(a, b, place)
    return way > 0 or (way == 0 and not min(a, b) < place < max(a, b))


def _integer_points(places: list[Point]) -> dict[Point, tuple[int, int]]:
    """Places in whole numbers of a unit that all of them have, so that nothing is rounded."""
    unit = max(Fraction(number).denominator for place in places for number in place)
    return {(x, y): (int(Fraction(x) * unit), int(Fraction(y) * unit)) for x, y in places}


def _in_circle_sign(corners: Sequence[tuple[int, int]], point: tuple[int, int]) -> int:
    """1 inside the circle through three corners, counterclockwise; −1 outside, 0 on it."""
    (ax, ay), (bx, by), (cx, cy) = ((x - point[0], y - point[1]) for x, y in corners)
    a2, b2, c2 = ax * ax + ay * ay, bx * bx + by * by, cx * cx + cy * cy
    terms = [a2 * bx * cy, b2 * cx * ay, c2 * ax * by, -a2 * by * cx, -b2 * cy * ax, -c2 * ay * bx]
    depth = sum(terms)
    near = abs(depth) * COCIRCULAR_PRECISION <= sum(map(abs, terms))
    return 0 if near else (depth > 0) - (depth < 0)


def _answers(points: np.ndarray, rows: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Answers (B, T) of triangles in the order of the centers of the circles inside them."""
    corners = points[rows[:, None], triples].astype(np.float64)  # (n, 3, 2)
    sides = np.linalg.norm(corners[:, [1, 2, 0]] - corners[:, [2, 0, 1]], axis=2, keepdims=True)
    x, y = ((sides * corners).sum(1) / sides.sum(1)).T
    triples = triples[np.lexsort((y, x, rows))]
    counts = np.bincount(rows, minlength=len(points))
    place = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
    answers = np.full((len(points), counts.max(), 3), -1)
    answers[rows, place] = triples
    return answers.reshape(len(points), -1)


def _point_list(where: str, points: np.ndarray) -> list[Point]:
    return [(x, y) for x, y in check_points(where, points).tolist()]


def _check_distinct_points(points: np.ndarray) -> np.ndarray:
    """Points that can have a triangulation, as float64."""
    places = check_points("delaunay", points)
    _, first, which = np.unique(places, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[which] != np.arange(len(places)))
    if len(again):
        index = int(again[0])
        raise ValueError(
            f"delaunay: expected different points, got {places[index].tolist()} "
            f"at {first[which][index]} and again at {index}"
        )
    if len(places) < 3:
        raise ValueError(f"delaunay: expected three points or more, got {len(places)}")
    return places
