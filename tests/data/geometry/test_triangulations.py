"""Triangulations: no point in the circle of a triangle, by hand and beside SciPy."""

import builtins

import numpy as np
import pytest

from regard.data.geometry.instances import Task
from regard.data.geometry.triangulations import (
    Delaunay,
    delaunay,
    is_ambiguous,
    is_delaunay,
    triangle_coverage,
    triangle_set,
)

# Two triangles on the short diagonal of a kite, and the long one from 0 to 2.
KITE = np.array([[0.0, 0.5], [0.5, 0.3], [1.0, 0.5], [0.5, 0.7]])
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
GRID = np.array([[x, y] for x in range(5) for y in range(7)]) * 0.1
CIRCLE = np.exp(2j * np.pi * np.arange(6) / 6).view(np.float64).reshape(6, 2)
# and on a circle with no rounding
FIVE = np.array([[5, 0], [3, 4], [0, 5], [-3, 4], [-5, 0], [0, -5]], float)


def by_scipy(points):
    found = pytest.importorskip("scipy.spatial").Delaunay(points).simplices
    return {frozenset(each) for each in found.tolist()}


def test_the_short_diagonal_divides_a_kite():
    pytest.importorskip("scipy")
    assert delaunay(KITE) == [(0, 1, 3), (1, 2, 3)]
    # from left to right, whatever the indices
    assert delaunay(KITE[::-1]) == [(0, 2, 3), (0, 1, 2)]


@pytest.mark.parametrize(("least", "most"), [(3, 3), (5, 5), (3, 10), (12, 12), (5, 17)])
def test_triangles_that_are_drawn_are_those_of_scipy(least, most):
    drawn = Delaunay(least, most).draw(np.random.default_rng(most), 500)
    for points, n, answer in zip(drawn.points, drawn.lengths, drawn.answers, strict=True):
        places = points[:n].double().numpy()
        assert triangle_set(answer.tolist()) == by_scipy(places)
        assert answer[answer >= 0].tolist() == np.ravel(delaunay(places)).tolist()


def test_every_circle_is_empty_and_all_of_the_hull_is_covered():
    pytest.importorskip("scipy")
    points = np.random.default_rng(0).random((23, 2))
    found = delaunay(points)
    lifted = np.concatenate([points, (points**2).sum(1, keepdims=True), np.ones((23, 1))], 1)
    for triple in found:
        below = [np.linalg.det(lifted[[*triple, k]]) for k in range(23) if k not in triple]
        assert len({value > 0 for value in below}) == 1
    assert len(set(found)) == len(found) == 2 * 23 - 2 - len(_edges_once(found))


def _edges_once(found):
    edges = [frozenset(edge) for a, b, c in found for edge in ((a, b), (a, c), (b, c))]
    return [edge for edge in edges if edges.count(edge) == 1]


def test_draws_are_points_of_the_unit_square_with_increasing_triples():
    drawn = Delaunay(5, 7).draw(np.random.default_rng(0), 100)
    assert isinstance(Delaunay(), Task)
    assert drawn.points.shape == (100, 7, 2)
    assert drawn.lengths.unique().tolist() == [5, 6, 7]
    for answer in drawn.answers:
        triples = answer[answer >= 0].reshape(-1, 3)
        assert (triples.diff(dim=1) > 0).all()
        assert (answer[len(triples) * 3 :] == -1).all()


def test_points_near_a_circle_or_a_line_are_drawn_anew():
    class Chance(np.random.Generator):
        def random(self, shape, kind):
            drawn.append(shape)
            points = super().random(shape, kind)
            if len(drawn) == 1:
                points[0] = [[0, 0], [1, 0], [1, 1], [0, 1]]
                points[1] = [[0, 0], [0.5, 0.5], [1, 1], [0, 1]]
            return points

    drawn = []
    Delaunay(4, 4).draw(Chance(np.random.PCG64(0)), 5)
    assert drawn == [(5, 4, 2), (2, 4, 2)]


def test_triangles_of_a_grid_cover_it_and_none_is_flat():
    pytest.importorskip("scipy")
    assert len(delaunay(GRID)) == 2 * 4 * 6


@pytest.mark.parametrize("far", [1e6, -1e6, 1e9])
def test_points_far_away_have_the_triangles_of_those_that_are_near(far):
    pytest.importorskip("scipy")
    # 1e6 ± 1e-3, in steps that a double has there
    near = np.random.default_rng(0).integers(-1000, 1000, (9, 2)) * 2.0**-20
    assert delaunay(near + far) == delaunay(near)


def divided(first, last):
    """All ways to divide a polygon of corners from the first to the last into triangles."""
    if last - first < 2:
        return [[]]
    return [
        [*one, *other, first, middle, last]
        for middle in range(first + 1, last)
        for one in divided(first, middle)
        for other in divided(middle, last)
    ]


@pytest.mark.parametrize("points", [SQUARE, CIRCLE, 0.3 * CIRCLE + 10, FIVE], ids=len)
def test_points_on_one_circle_may_be_divided_in_any_way(points):
    ways = divided(0, len(points) - 1)
    assert len(ways) == {4: 2, 6: 14}[len(points)]
    for answer in ways:
        assert is_delaunay(points, answer)
        assert is_ambiguous(points, answer)
        assert not is_delaunay(points, answer[3:])


@pytest.mark.parametrize("scale", [1e-300, 1e-99, 1, 1e99, 1e307])
@pytest.mark.parametrize("moved", [0, 1])
def test_only_one_way_to_divide_is_right_elsewhere(scale, moved):
    kite = (KITE + moved) * scale
    assert is_delaunay(kite, [0, 1, 3, 1, 2, 3])
    assert not is_delaunay(kite, [0, 1, 2, 0, 2, 3])
    assert not is_ambiguous(kite, [0, 1, 3, 1, 2, 3])


def test_what_scipy_finds_is_right_and_whatever_else_of_it_is_wrong():
    pytest.importorskip("scipy")
    random = np.random.default_rng(0)
    for points in [*random.random((20, 11, 2)), GRID, GRID[:, ::-1] - 1e6]:
        found = delaunay(points)
        assert is_delaunay(points, found)
        assert is_delaunay(points, [*np.ravel(found), -1, -1, -1, 0, 1])
        which = int(random.integers(len(found)))
        others = [found[:which] + found[which + 1 :] + [other] for other in found[:which]]
        assert not any(is_delaunay(points, other) for other in [found[1:], found[:-1], *others])
        # a point more, inside or at the rim, is one that should have been a corner
        for place in (points[list(found[which])].mean(0), points[:2].mean(0), points.max(0) + 1):
            assert not is_delaunay(np.concatenate([points, place[None]]), found)


def test_circles_may_be_empty_where_triangles_overlap():
    for answer in ([0, 1, 2, 1, 2, 3], [0, 1, 2, 0, 2, 3, 0, 1, 3], [0, 1, 2, 0, 2, 3, 1, 3, 2]):
        assert not is_delaunay(SQUARE, answer)
    # twice around the centre, with every edge on two sides
    star = [(i, (i + 2) % 5) for i in range(5)]
    points = np.exp(2j * np.pi * np.arange(5) / 5).view(np.float64).reshape(5, 2)
    assert not is_delaunay(np.concatenate([points, [[0, 0]]]), [[a, b, 5] for a, b in star])


@pytest.mark.parametrize(
    "answer",
    [
        *[[], [-1, -1, -1], [0, 1], [0, 1, 2, 0, 2], [0, 1, 2, 0, 2, 4], [0, 1, 2, 0, 2, 2]],
        *[[0, 1, 2, 0, 2, 3, 3, 3, 3], [0, 1, 2, 0, 2, 3, 0, 2, 3]],
    ],
)
def test_what_is_no_triangle_makes_an_answer_wrong(answer):
    assert not is_delaunay(SQUARE, answer)


def test_a_point_inside_an_edge_of_the_rim_is_a_corner():
    points = np.concatenate([SQUARE, [[0.5, 0]]])
    assert is_delaunay(points, [0, 4, 3, 4, 1, 2, 4, 2, 3])
    assert not is_delaunay(points, [0, 1, 2, 0, 2, 3])
    # flat triangles are none, though all edges would match
    assert not is_delaunay(points, [0, 4, 1, 0, 1, 2, 0, 2, 3])


@pytest.mark.parametrize("asked", [is_delaunay, is_ambiguous])
def test_points_that_are_no_numbers_are_not_judged(asked):
    with pytest.raises(ValueError, match=f"^{asked.__name__}: expected finite coordinates, got"):
        asked(np.full((3, 2), np.nan), [0, 1, 2])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0, 0], [1, 1], [2, 2], [3, 3]], "can be told apart, got 4 too near to one line or"),
        ([[0, 0], [1, 0], [0.5, 1], [0.5, 1 + 3e-16]], "got 4 too near to one line or to each"),
        (
            [[0, 1], [2, 3], [4, 4], [2, 3]],
            r"different points, got \[2.0, 3.0\] at 1 and again at 3",
        ),
        ([[0, 1], [2, 3]], "expected three points or more, got 2"),
        (
            [[0, 1], [2, 3], [np.inf, 0]],
            r"expected finite coordinates, got \[inf, 0.0\] at point 2",
        ),
    ],
)
def test_what_has_no_triangulation_is_refused(points, message):
    pytest.importorskip("scipy")
    with pytest.raises(ValueError, match=f"^delaunay: .*{message}"):
        delaunay(np.array(points, np.float64))


def test_without_scipy_the_way_to_it_is_told(monkeypatch):
    def without(name, *rest):
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return found(name, *rest)

    found = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"delaunay needs scipy: pip install"):
        delaunay(KITE)
    assert len(Delaunay().draw(np.random.default_rng(0), 3)) == 3


def test_coverage_is_the_share_of_the_true_triangles_by_hand():
    truth = [0, 1, 3, 1, 2, 3, -1, -1]
    assert triangle_coverage([3, 1, 0, 0, 1, 2], truth) == 0.5
    assert triangle_coverage([1, 2, 3, 1, 2, 3, 0, 1, 3], truth) == 1
    assert (
        triangle_coverage([(0, 1, 2)], truth)
        == triangle_coverage([], truth)
        == triangle_coverage([0, 1], truth)
        == 0
    )


def test_without_a_true_triangle_there_is_no_share():
    with pytest.raises(
        ValueError, match="triangle_coverage: expected a truth of one triangle or more, got"
    ):
        triangle_coverage([0, 1, 2], [-1, -1, -1])


@pytest.mark.parametrize("settings", [{"min_points": 2}, {"max_points": 4}, {"min_points": 60}])
def test_what_cannot_be_drawn_is_refused(settings):
    with pytest.raises(
        ValueError, match=r"^Delaunay: expected 3 ≤ min_points ≤ max_points, got Delaunay\(min"
    ):
        Delaunay(**settings)
