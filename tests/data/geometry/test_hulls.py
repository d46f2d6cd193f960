"""Hulls: the rim of some points, by hand, beside SciPy and beside the files of the paper."""

from itertools import islice

import numpy as np
import pytest

from regard.data.download import data_folders
from regard.data.geometry import vinyals
from regard.data.geometry.hulls import (
    Hull,
    batch_hulls,
    hull,
    is_same_polygon,
    is_simple,
    orientation,
    polygon_area,
)
from regard.data.geometry.instances import InstanceBatches, Task, draw_points

PLACE = "pointer_vinyals/convex_hull_5_test.txt.gz"
published = [folder / PLACE for folder in data_folders() if (folder / PLACE).is_file()]
needs_published = pytest.mark.skipif(
    not published, reason=f"needs {PLACE} in the folder of REGARD_DATA, which is not there"
)

SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])


def by_scipy(points):
    found = pytest.importorskip("scipy.spatial").ConvexHull(points).vertices.tolist()
    start = found.index(min(found))
    return found[start:] + found[:start]


def rows(answers):
    return [row[row >= 0].tolist() for row in answers]


def test_a_hull_by_hand():
    points = np.array([[0.9, 0.9], [0.1, 0.9], [0.5, 0.5], [0.9, 0.1], [0.1, 0.1]], np.float32)
    assert batch_hulls(points[None], np.array([5])).tolist() == [[0, 1, 4, 3]]
    assert hull(points.astype(np.float64)) == [0, 1, 4, 3]


def test_what_stands_behind_the_points_of_a_row_does_not_count():
    points = np.array([[[0.5, 0.2], [0.9, 0.8], [0.1, 0.9], [0, 0], [0, 0]]], np.float32)
    assert batch_hulls(points, np.array([3])).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(("least", "most"), [(3, 3), (5, 5), (3, 7), (5, 50), (50, 50)])
def test_hulls_of_a_batch_are_those_of_scipy(least, most):
    points, lengths = draw_points(np.random.default_rng(most), 500, least, most)
    for row, n, found in zip(points, lengths, rows(batch_hulls(points, lengths)), strict=True):
        assert found == by_scipy(row[:n].astype(np.float64))


@pytest.mark.parametrize("n", [3, 11, 101, 1009])
def test_one_hull_is_that_of_scipy(n):
    for points in np.random.default_rng(n).normal(size=(20, n, 2)):
        assert hull(points) == by_scipy(points)


@needs_published
def test_hulls_are_those_of_the_published_file():
    solved = vinyals.read_instances(published[0])
    points = np.stack([points for points, _ in solved])
    answers = [answer for _, answer in solved]
    assert len(answers) == 10_000
    assert [hull(each) for each in points[:1000]] == answers[:1000]
    assert rows(batch_hulls(points.astype(np.float32), np.full(10_000, 5))) == answers


def test_draws_are_points_of_the_unit_square_with_their_hulls():
    drawn = Hull(5, 11).draw(np.random.default_rng(0), 200)
    assert isinstance(Hull(), Task)
    assert drawn.points.shape == (200, 11, 2)
    assert drawn.lengths.unique().tolist() == [*range(5, 12)]
    for points, n, answer in zip(drawn.points, drawn.lengths, drawn.answers, strict=True):
        assert not points[n:].any() and points.min() >= 0 and points.max() < 1
        assert answer[answer >= 0].tolist() == hull(points[:n].double().numpy())


def test_the_seed_decides_what_is_drawn():
    one, other = (next(InstanceBatches(Hull(), rows=7, seed=3).epoch(1)) for _ in range(2))
    assert one.points.equal(other.points) and one.answers.equal(other.answers)
    assert len(list(islice(InstanceBatches(Hull(), rows=2, seed=3).epoch(0), 3))) == 3


def test_a_point_inside_an_edge_is_no_vertex():
    inside = np.array([[0.5, 0], [1, 0.5], [0.5, 0.5], [0, 0.25]])
    assert hull(np.concatenate([inside, SQUARE])) == [4, 5, 6, 7]


def test_of_equal_points_the_first_counts():
    assert hull(SQUARE[[0, 0, 1, 2, 1, 3, 0]]) == [0, 2, 3, 5]
    # to Python, zero is minus zero
    assert hull(np.array([[-0.0, 0.0], [0.0, -0.0], [1, 0], [0, 1]])) == [0, 2, 3]


def test_signs_are_exact_where_floats_would_err():
    line = np.array([[0.5 + k * 2.0**-52, 0.5 + k * 2.0**-52] for k in (0, 7, 19)])
    points = np.concatenate([line, [[12.0, 12.0], [24.0, 24.0], [24.0, np.nextafter(24, 25)]]])
    assert hull(points) == [0, 4, 5]
    assert hull(1e-200 * SQUARE) == hull(1e300 * SQUARE) == [0, 1, 2, 3]


def test_turns_are_exact_by_hand():
    a, b = (0.0, 0.0), (3.0, 1.0)
    assert [orientation(a, b, c) for c in ((6.0, 2.0), (6.0, 2.5), (6.0, 1.5))] == [0, 1, -1]
    assert orientation((0.5, 0.5), (12.0, 12.0), (24.0, float(np.nextafter(24, 25)))) == 1


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0, 0], [1, 1], [2, 2], [0.5, 0.5]], "points that span an area, got 4 on one line"),
        ([[3, 0], [3, 1], [3, 9]], "points that span an area, got 3 on one line"),
        ([[0, 0], [1, 1], [0, 0]], "expected three different points or more, got 2"),
        (np.zeros((0, 2)), "expected three different points or more, got 0"),
        ([[0, 0], [1, np.nan], [1, 0]], r"finite coordinates, got \[1.0, nan\] at point 1"),
        ([[0, 0, 1]], r"expected points of shape \(n, 2\), got \(1, 3\)"),
    ],
)
def test_what_has_no_hull_is_refused(points, message):
    with pytest.raises(ValueError, match=f"^hull: .*{message}$"):
        hull(np.array(points, np.float64))


def test_areas_by_hand():
    assert polygon_area(SQUARE, [0, 1, 2, 3]) == polygon_area(SQUARE, [3, 2, 1, 0]) == 1
    assert polygon_area(SQUARE + 1000, [0, 1, 2]) == 0.5
    assert polygon_area(SQUARE, []) == polygon_area(SQUARE, [0, 1]) == 0


@pytest.mark.parametrize("polygon", [[0, 1, 2, 3], [2, 1, 0, 3], [0, 1, 2], [0, 1, 4, 2, 3]])
def test_what_does_not_cross_itself_is_simple(polygon):
    assert is_simple(np.concatenate([SQUARE, [[0.5, 0.25]]]), polygon)


@pytest.mark.parametrize(
    "polygon",
    [
        *[[0, 2, 1, 3], [0, 1, 2, 0, 3], [0, 1], [], [0, 1, 1, 2]],
        # a corner on an edge, an edge on an edge, and a way forth and back
        *[[0, 1, 2, 4, 3], [0, 4, 1, 3, 5], [0, 1, 4], [0, 2, 5]],
    ],
)
def test_what_crosses_or_touches_itself_is_not_simple(polygon):
    assert not is_simple(np.concatenate([SQUARE, [[0.5, 0.0], [0.5, 0.5]]]), polygon)


def test_hulls_are_simple_and_shuffled_ones_are_not():
    random = np.random.default_rng(0)
    angle = np.sort(random.uniform(0, 6, 41))
    points = np.stack([np.cos(angle), np.sin(angle)], 1)
    assert is_simple(points, [*range(41)])
    assert not is_simple(points, random.permutation(41).tolist())


def test_a_polygon_is_the_same_from_anywhere_either_way():
    assert is_same_polygon([0, 1, 4, 3], [4, 3, 0, 1])
    assert is_same_polygon([0, 1, 4, 3], [1, 0, 3, 4])
    assert not is_same_polygon([0, 1, 4, 3], [0, 4, 1, 3])
    assert not is_same_polygon([0, 1, 4, 3], [0, 1, 4])
    assert not is_same_polygon([0, 1, 2], [0, 1, 2, 0])
    assert is_same_polygon([], []) and not is_same_polygon([], [0])


@pytest.mark.parametrize("settings", [{"min_points": 2}, {"max_points": 4}, {"min_points": 60}])
def test_what_cannot_be_drawn_is_refused(settings):
    with pytest.raises(
        ValueError, match=r"^Hull: expected 3 ≤ min_points ≤ max_points, got Hull\(min_points="
    ):
        Hull(**settings)
