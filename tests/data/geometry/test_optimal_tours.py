"""Proofs: tours that are the shortest, beside every other way to find them."""

import builtins

import numpy as np
import pytest

from regard.data.download import data_folders
from regard.data.geometry import optimal_tours, vinyals
from regard.data.geometry.optimal_tours import solve_tsp
from regard.data.geometry.tours import canonical_tour, held_karp_tour, tour_length

TEN = "pointer_vinyals/tsp10_2000.txt.gz"
TWENTY, FIFTY = "tsp_lkh/tsp20_test.txt.gz", "tsp_lkh/tsp50_test.txt.gz"
# Each number is finite, but their distances are not, or not the sum of them.
FAR = 1e308 * np.array([[1, 0], [-1, 0], [0, 1]] * 4)
FINITE = "expected distances that add up to a finite length"


@pytest.fixture(autouse=True)
def few_kicks(monkeypatch):
    """A shorter search before the proof: checks of types make it slow in tests."""
    monkeypatch.setattr(optimal_tours, "KICKS_PER_CITY", 2)


def published(place, count):
    """The first instances of a file, where it is at hand."""
    for folder in data_folders():
        if (folder / place).is_file():
            return vinyals.read_instances(folder / place)[:count]
    return pytest.skip(f"needs {place} in the folder of REGARD_DATA, which is not there")


def test_a_proof_agrees_with_dynamic_programming():
    pytest.importorskip("scipy")
    for points in np.random.default_rng(0).random((5, 11, 2)):
        found = solve_tsp(points)
        assert found.is_optimal
        assert found.tour == held_karp_tour(points)


@pytest.mark.parametrize(("place", "count"), [(TEN, 5), (TWENTY, 5), (FIFTY, 3)])
def test_a_proof_agrees_with_published_tours(place, count):
    pytest.importorskip("scipy")
    for points, tour in published(place, count):
        found = solve_tsp(points)
        assert found.is_optimal
        assert found.length == pytest.approx(tour_length(points, tour), abs=1e-9)


@pytest.mark.parametrize("cities", [1, 2, 3, 7, 8, 23])
def test_a_proved_tour_visits_each_city_once(cities):
    pytest.importorskip("scipy")
    points = np.random.default_rng(cities).random((cities, 2))
    tour, long, sure, bound = solve_tsp(points)
    assert sorted(tour) == [*range(cities)]
    assert tour == canonical_tour(tour)
    assert sure and long == tour_length(points, tour)
    assert bound == pytest.approx(long, rel=1e-8)


def test_a_bad_start_is_made_good(monkeypatch):
    pytest.importorskip("scipy")
    points = np.random.default_rng(0).random((11, 2))
    monkeypatch.setattr(optimal_tours, "short_tour", lambda places, kicks: [*range(len(places))])
    assert solve_tsp(points).tour == held_karp_tour(points)


def test_many_equal_tours_are_no_trouble():
    pytest.importorskip("scipy")
    grid = np.array([[x, y] for x in range(4) for y in range(5)])
    found = solve_tsp(grid)
    assert found.is_optimal
    assert found.length == pytest.approx(20)


@pytest.mark.parametrize("points", [np.zeros((13, 2)), np.repeat(np.eye(2), 5, 0)])
def test_equal_cities_have_a_shortest_tour(points):
    pytest.importorskip("scipy")
    found = solve_tsp(points)
    assert found.is_optimal
    assert found.length == pytest.approx(2 * np.linalg.norm(np.ptp(points, 0)))


def test_without_time_the_best_tour_comes_with_a_bound(monkeypatch):
    pytest.importorskip("scipy")
    points = np.random.default_rng(0).random((29, 2))
    monkeypatch.setattr(optimal_tours, "short_tour", lambda places, kicks: [*range(len(places))])
    found = solve_tsp(points, seconds=1e-9)
    assert not found.is_optimal
    assert found.tour == [*range(29)]
    assert 0 < found.bound < solve_tsp(points).length + 1e-9


def test_a_set_that_few_edges_leave_is_found_by_hand():
    # two triangles, held together by two halves of edges
    edges = optimal_tours._Edges(
        np.array([0, 0, 1, 3, 3, 4, 0, 1]), np.array([1, 2, 2, 4, 5, 5, 3, 4]), np.ones(8)
    )
    rules = optimal_tours._violated_constraints(
        edges, np.array([0.75, 1, 1, 0.75, 1, 1, 0.25, 0.25]), 6
    )
    assert [0, 0, 0, 0, 0, 0, 1, 1] in rules.coefficients.tolist()
    assert (rules.lower_bounds == 2).any()


@pytest.mark.parametrize(
    ("points", "seconds", "message"),
    [
        (np.zeros((0, 2)), 1, "expected a city or more and seconds above 0, got 0 and 1"),
        (np.zeros((3, 2)), 0, "expected a city or more and seconds above 0, got 3 and 0"),
        (np.full((3, 2), np.nan), 1, r"expected finite coordinates, got \[nan, nan\] at point 0"),
        (FAR[:3], 1, f"{FINITE}, got 3 cities up to inf apart"),
        (FAR, 1, f"{FINITE}, got 12 cities up to inf apart"),
        (FAR / 4, 1, rf"{FINITE}, got 12 cities up to 5e\+307 apart"),
    ],
)
def test_what_cannot_be_proved_is_refused(points, seconds, message):
    with pytest.raises(ValueError, match=f"^solve_tsp: {message}$"):
        solve_tsp(points, seconds=seconds)


def test_without_scipy_the_way_to_it_is_told(monkeypatch):
    def without(name, *rest):
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return found(name, *rest)

    found = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"proved needs scipy: pip install"):
        solve_tsp(np.random.default_rng(0).random((8, 2)))
