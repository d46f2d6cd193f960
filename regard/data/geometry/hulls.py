"""Convex hulls: which of some points lie at the rim, in order. Vinyals et al. 2015, 4.2."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from regard.data.geometry.instances import (
    Instances,
    ReadingOrder,
    draw_points,
    instances_from_arrays,
)

# Shewchuk 1997: an orientation of doubles is surely of its sign beyond this share of its terms.
ORIENTATION_RELATIVE_ERROR = 3.4e-16
# Terms as small as this, or not finite, have lost digits that the share does not count.
MIN_RELIABLE_TERM = 1e-280

Point = tuple[float, float]


@dataclass(frozen=True)
class Hull:
    """Vinyals et al. 2015, 4.2: points of the unit square, and the rim of them counterclockwise.

    The answer begins with the vertex of the lowest index:

        3 · · 2
        · 4 · ·        0 1 2 3
        0 · · 1
    """

    # the fewest points of an instance
    min_points: int = 5
    # the most points of an instance
    max_points: int = 50
    # in which order the points are read
    order: ReadingOrder = "left"

    def __post_init__(self) -> None:
        if not 3 <= self.min_points <= self.max_points:
            raise ValueError(f"Hull: expected 3 ≤ min_points ≤ max_points, got {self}")

    @property
    def inputs(self) -> int:
        """Coordinates of a point."""
        return 2

    def draw(self, random: np.random.Generator, count: int) -> Instances:
        """So many instances, each of as many points as chance has it, with their hulls."""
        points, lengths = draw_points(
            random, count, self.min_points, self.max_points, order=self.order
        )
        return instances_from_arrays(points, lengths, batch_hulls(points, lengths))


def batch_hulls(points: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The hulls (B, T) of points (B, N, 2) of float32, `lengths` (B,) of them in each row.

    Counterclockwise from the lowest index, with −1 behind. Signs are exact for points as they are
    drawn: their coordinates are multiples of 2⁻²⁴, so that no product loses a digit.
    """
    places = points[..., 0] + 1j * points[..., 1].astype(np.float64)  # (B, N)
    behind = np.arange(points.shape[1]) >= lengths[:, None]
    # The upper rim is the lower one of the points upside down.
    rims, counts = _lower_hulls(np.concatenate([places, -places]), np.concatenate([behind, behind]))
    (low, high), both = np.split(counts[:, None] - 1, 2), np.hstack(np.split(rims, 2))
    # Each rim ends where the other begins.
    step, sizes = np.arange((low + high).max()), low + high
    place = np.where(step < low, step, (step - low) % rims.shape[1] + rims.shape[1])
    rim = np.where(step < sizes, np.take_along_axis(both, place, 1), points.shape[1])
    turned = (step + rim.argmin(1, keepdims=True)) % sizes
    return np.where(step < sizes, np.take_along_axis(rim, turned, 1), -1)


def _lower_hulls(places: np.ndarray, behind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower rims (R, N) of places (R, N) from left to right, and how many each has (R,).

    Andrew 1979, in all rows at once: in each step a row takes its next point or drops its last.
    """
    left = np.where(behind, np.inf, places).min(1, keepdims=True)
    right = np.where(behind, -np.inf, places).max(1, keepdims=True)
    aside = behind | (_orientations(left, right, places) > 0)
    order = np.where(aside, np.inf, places).argsort(1)  # by x, then by y
    counts = (~aside).sum(1)
    (R, N), W = places.shape, counts.max() + 1
    places = np.take_along_axis(places, order, 1)[:, np.arange(W) % N]
    taken, rim = np.zeros((R, W), np.complex128), np.zeros((R, W), np.int64)
    rows, top, coming = np.arange(R), np.full(R, -1), np.zeros(R, np.int64)
    while (going := coming < counts).any():
        point = places[rows, coming]
        # the place above the top is free: what is written there counts only where it is taken
        taken[rows, top + 1], rim[rows, top + 1] = point, coming
        wrong = (top > 0) & (_orientations(taken[rows, top - 1], taken[rows, top], point) <= 0)
        top += np.where(wrong, -1, 1) * going
        coming += going & ~wrong
    return np.take_along_axis(order, rim.clip(max=N - 1), 1), top + 1


def _orientations(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Above zero where the way from a to b to c turns left, below where it turns right."""
    first, second = b - a, c - a
    # not as one complex product: fused, it would not be zero where c is b
    return first.real * second.imag - first.imag * second.real


def hull(points: np.ndarray) -> list[int]:
    """The hull of points (n, 2) of float64, counterclockwise from the lowest index.

    A point inside an edge is no vertex, and of equal points the first counts. Signs are exact.

    Raises:
        ValueError: no numbers, fewer than three different points, or all of them on one line.
    """
    places = _point_list("hull", points)
    first: dict[Point, int] = {}
    for index, place in enumerate(places):
        first.setdefault(place, index)
    if len(first) < 3:
        raise ValueError(f"hull: expected three different points or more, got {len(first)}")
    ordered = sorted(first)
    lower, upper = _half_hull(ordered), _half_hull(ordered[::-1])
    if len(lower) + len(upper) < 5:
        raise ValueError(f"hull: expected points that span an area, got {len(places)} on one line")
    rim = [first[place] for place in lower[:-1] + upper[:-1]]
    start = rim.index(min(rim))
    return rim[start:] + rim[:start]


def _half_hull(ordered: list[Point]) -> list[Point]:
    """The points that a string from the first to the last touches, if it is pulled tight."""
    rim: list[Point] = []
    for place in ordered:
        while len(rim) > 1 and orientation(rim[-2], rim[-1], place) <= 0:
            rim.pop()
        rim.append(place)
    return rim


def orientation(a: Point, b: Point, c: Point) -> int:
    """1 where the way from a to b to c turns left, −1 where it turns right, 0 on a line; exact.

    >>> orientation((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
    1
    >>> orientation((0.1, 0.1), (0.2, 0.2), (0.3, 0.3))
    0
    """
    left, right = (b[0] - a[0]) * (c[1] - a[1]), (b[1] - a[1]) * (c[0] - a[0])
    size = abs(left) + abs(right)
    if not (
        MIN_RELIABLE_TERM < size < np.inf and abs(left - right) > ORIENTATION_RELATIVE_ERROR * size
    ):
        (ax, ay), (bx, by), (cx, cy) = (map(Fraction, place) for place in (a, b, c))
        left, right = (bx - ax) * (cy - ay), (by - ay) * (cx - ax)  # type: ignore[assignment]
    return (left > right) - (left < right)


def polygon_area(points: np.ndarray, polygon: Sequence[int]) -> float:
    """The area inside a polygon that does not cross itself.

    >>> polygon_area(np.array([[0, 0], [2, 0], [2, 3], [0, 3]]), [0, 1, 2, 3])
    6.0
    """
    if not len(polygon):
        return 0.0
    x, y = (np.asarray(points, np.float64)[list(polygon)] - points[polygon[0]]).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def is_simple(points: np.ndarray, polygon: Sequence[int]) -> bool:
    """Whether a closed polygon of three vertices or more neither crosses nor touches itself."""
    places = _point_list("is_simple", points)
    corners = [places[index] for index in polygon]
    n = len(corners)
    if n < 3 or len(set(corners)) < n:
        return False
    edges = list(zip(corners, corners[1:] + corners[:1], strict=True))
    folded = any(
        orientation(a, b, c) == 0 and (a < b) == (c < b)
        for (a, b), (_, c) in zip(edges, edges[1:] + edges[:1], strict=True)
    )
    pairs = ((i, j) for i in range(n) for j in range(i + 2, n - (i == 0)))
    return not folded and not any(_has_intersection(*edges[i], *edges[j]) for i, j in pairs)


def _has_intersection(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether the segments from a to b and from c to d have a point in common."""
    apart = any(
        max(a[k], b[k]) < min(c[k], d[k]) or max(c[k], d[k]) < min(a[k], b[k]) for k in (0, 1)
    )
    return (
        not apart
        and orientation(a, b, c) * orientation(a, b, d) <= 0
        and orientation(c, d, a) * orientation(c, d, b) <= 0
    )


def is_same_polygon(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two lists of vertices are one polygon, wherever they begin and whichever way they go.

    >>> is_same_polygon([0, 1, 2, 3], [2, 1, 0, 3])
    True
    >>> is_same_polygon([0, 1, 2, 3], [0, 2, 1, 3])
    False
    """
    one, other = list(a), list(b)
    turned = [way[k:] + way[:k] for way in (one, one[::-1]) for k in range(max(len(one), 1))]
    return other in turned


def check_points(where: str, points: np.ndarray) -> np.ndarray:
    """The points (n, 2) as float64, if they are such."""
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"{where}: expected points of shape (n, 2), got {points.shape}")
    strange = np.flatnonzero(~np.isfinite(points).all(1))
    if len(strange):
        raise ValueError(
            f"{where}: expected finite coordinates, got {points[strange[0]].tolist()} "
            f"at point {strange[0]}"
        )
    return points.astype(np.float64)


def _point_list(where: str, points: np.ndarray) -> list[Point]:
    return [(x, y) for x, y in check_points(where, points).tolist()]
