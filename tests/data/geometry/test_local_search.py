"""Local search: tours that are short, and that no small change makes shorter."""

import numpy as np
import pytest

from regard.data.geometry.local_search import short_tour
from regard.data.geometry.tours import canonical_tour, held_karp_tour, tour_length

# Each number is finite, but their distances are not, or not the sum of them.
FAR = 1e308 * np.array([[1, 0], [-1, 0], [0, 1]] * 4)
FINITE = "expected distances that add up to a finite length"


@pytest.mark.parametrize("cities", [1, 2, 3, 5, 7, 8, 11, 53])
def test_a_tour_visits_each_city_once(cities):
    tour = short_tour(np.random.default_rng(cities).random((cities, 2)), kicks=20)
    assert sorted(tour) == [*range(cities)]
    assert tour == canonical_tour(tour)


def test_few_cities_have_their_shortest_tour():
    for points in np.random.default_rng(0).random((5, 11, 2)):
        assert short_tour(points, kicks=50) == held_karp_tour(points)


def test_without_kicks_no_two_edges_cross():
    points = np.random.default_rng(0).random((31, 2))
    tour = short_tour(points, kicks=0)
    before = tour_length(points, tour)
    for i in range(30):
        for j in range(i + 1, 31):
            turned = tour[:i] + tour[i:j][::-1] + tour[j:]
            assert tour_length(points, turned) > before - 1e-9


def test_kicks_never_make_a_tour_longer():
    points = np.random.default_rng(0).random((101, 2))
    short, shorter = (tour_length(points, short_tour(points, kicks=kicks)) for kicks in (0, 100))
    assert shorter < short
    # Beardwood, Halton and Hammersley 1959, with the rim of Johnson and McGeoch 1996
    assert shorter < 0.7124 * np.sqrt(101) * (1 + 0.33 / 101) * 1.15


def test_the_seed_decides():
    points = np.random.default_rng(0).random((29, 2))
    assert short_tour(points, kicks=50, seed=3) == short_tour(points, kicks=50, seed=3)


@pytest.mark.parametrize(
    "points", [np.zeros((13, 2)), np.repeat(np.eye(2), 11, 0), np.arange(26.0).reshape(13, 2)]
)
def test_equal_cities_and_cities_on_a_line_have_a_tour(points):
    tour = short_tour(points, kicks=20)
    assert sorted(tour) == [*range(len(points))]
    assert tour_length(points, tour) == pytest.approx(2 * np.linalg.norm(np.ptp(points, 0)))


@pytest.mark.parametrize(
    ("points", "kicks", "message"),
    [
        (np.zeros((0, 2)), 1, "expected a city or more and kicks of at least 0, got 0 and 1"),
        (np.zeros((5, 2)), -1, "expected a city or more and kicks of at least 0, got 5 and -1"),
        (np.full((3, 2), np.inf), 1, r"expected finite coordinates, got \[inf, inf\] at point 0"),
        (FAR[:3], 1, f"{FINITE}, got 3 cities up to inf apart"),
        (FAR, 1, f"{FINITE}, got 12 cities up to inf apart"),
        (FAR / 4, 1, rf"{FINITE}, got 12 cities up to 5e\+307 apart"),
    ],
)
def test_what_cannot_be_toured_is_refused(points, kicks, message):
    with pytest.raises(ValueError, match=f"^short_tour: {message}$"):
        short_tour(points, kicks=kicks)
