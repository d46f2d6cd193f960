"""Tours: lengths by hand, and the shortest beside all others."""

from itertools import permutations

import numpy as np
import pytest

from regard.config import fields
from regard.data.download import data_folders
from regard.data.geometry import vinyals
from regard.data.geometry.hulls import Hull
from regard.data.geometry.instances import Task
from regard.data.geometry.numbers import Numbers
from regard.data.geometry.tours import (
    Tour,
    canonical_tour,
    distances,
    held_karp_tour,
    tour_length,
    tour_lengths,
)
from regard.data.geometry.triangulations import Delaunay

PLACE = "pointer_vinyals/tsp10_2000.txt.gz"
published = [folder / PLACE for folder in data_folders() if (folder / PLACE).is_file()]
needs_published = pytest.mark.skipif(
    not published, reason=f"needs {PLACE} in the folder of REGARD_DATA, which is not there"
)
FINITE = "expected distances that add up to a finite length"


def test_lengths_by_hand():
    points = np.array([[0, 0], [3, 0], [3, 4], [0, 4]])
    assert tour_length(points, [0, 1, 2, 3]) == 14
    assert tour_length(points, [0, 2, 1, 3]) == 18
    both = tour_lengths(np.stack([points, 2 * points]), np.array([[0, 1, 2], [2, 1, 0]]))
    assert both.tolist() == [12, 24]


def test_distances_by_hand():
    assert distances(np.array([[0, 0], [3, 4]], np.float32)).tolist() == [[0, 5], [5, 0]]


@pytest.mark.parametrize("cities", [1, 2, 3, 5, 7])
def test_no_other_order_is_shorter(cities):
    for points in np.random.default_rng(cities).random((3, cities, 2)):
        tour = held_karp_tour(points)
        shortest = min(tour_length(points, [0, *rest]) for rest in permutations(range(1, cities)))
        assert tour_length(points, tour) == pytest.approx(shortest, abs=1e-12)
        assert sorted(tour) == [*range(cities)]
        assert tour == canonical_tour(tour)


def test_the_shortest_tour_of_a_circle_goes_round_it():
    angle = 2 * np.pi * np.arange(13) / 13
    assert held_karp_tour(np.stack([np.cos(angle), np.sin(angle)], 1)) == [*range(13)]


@needs_published
def test_published_tours_of_ten_cities_are_the_shortest():
    for points, tour in vinyals.read_instances(published[0])[:200]:
        assert tour_length(points, held_karp_tour(points)) == pytest.approx(
            tour_length(points, tour)
        )


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((17, 2)), "expected 1 to 16 cities, got 17"),
        (np.zeros((0, 2)), "expected 1 to 16 cities, got 0"),
        (np.full((5, 2), np.nan), r"expected finite coordinates, got \[nan, nan\] at point 0"),
        (np.zeros((5, 3)), r"expected points of shape \(n, 2\), got \(5, 3\)"),
        (1e308 * np.array([[1, 0], [-1, 0], [0, 1]]), f"{FINITE}, got 3 cities up to inf apart"),
        (1e308 * np.eye(2)[[0, 1, 0]], rf"{FINITE}, got 3 cities up to 1.41421e\+308 apart"),
    ],
)
def test_what_is_too_much_or_no_number_is_refused(points, message):
    with pytest.raises(ValueError, match=f"^held_karp_tour: {message}$"):
        held_karp_tour(points)


def test_a_round_trip_has_one_normal_form():
    ways = [[0, 3, 1, 2], [3, 1, 2, 0], [2, 1, 3, 0], [1, 3, 0, 2]]
    assert [canonical_tour(way) for way in ways] == [[0, 2, 1, 3]] * 4
    assert canonical_tour([5]) == [5] and canonical_tour([7, 2]) == [2, 7]


def test_all_instances_of_a_batch_have_one_size_and_a_batch_about_as_many_cities():
    random = np.random.default_rng(0)
    task = Tour(min_points=5, max_points=20, points_step=5)
    drawn = [task.draw(random, 3) for _ in range(50)]
    assert isinstance(task, Task)
    shapes = {(12, 5, 2), (6, 10, 2), (4, 15, 2), (3, 20, 2)}
    assert {tuple(each.points.shape) for each in drawn} == shapes
    for each in drawn:
        assert each.lengths.tolist() == [each.points.shape[1]] * len(each)
        assert each.answers.shape == (len(each), 0)
        assert each.points.min() >= 0 and each.points.max() < 1


def test_cities_are_read_from_left_to_right_or_as_they_are_given():
    left, given = (
        Tour(order=order).draw(np.random.default_rng(0), 7) for order in ("left", "given")
    )
    assert (left.points[..., 0].diff(dim=1) >= 0).all()
    assert not (given.points[..., 0].diff(dim=1) >= 0).all()


@pytest.mark.parametrize("task", [Delaunay, Hull, Numbers, Tour])
def test_every_setting_of_a_task_has_its_words_in_the_help(task):
    assert [field.name for field in fields(task) if not field.about] == []


@pytest.mark.parametrize("settings", [{"min_points": 2}, {"max_points": 4}, {"points_step": 0}])
def test_what_cannot_be_drawn_is_refused(settings):
    message = (
        r"^Tour: expected 3 ≤ min_points ≤ max_points and 1 ≤ points_step, got Tour\(min_points="
    )
    with pytest.raises(ValueError, match=message):
        Tour(**settings)


def test_there_are_as_many_instances_of_each_number_of_cities():
    random, task = np.random.default_rng(0), Tour(min_points=5, max_points=20, points_step=5)
    sizes = [len(row) for _ in range(2000) for row in task.draw(random, 3).points]
    often = np.bincount(sizes)[[5, 10, 15, 20]] / len(sizes)
    assert np.abs(often - 1 / 4).max() < 0.03
