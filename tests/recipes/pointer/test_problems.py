"""Questions: drawn anew, held by a file, or given by a person; and answers in their numbers."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.geometry import vinyals
from regard.data.geometry.hulls import Hull
from regard.data.geometry.instances import InstanceBatches
from regard.data.geometry.numbers import Numbers
from regard.data.geometry.tours import Tour
from regard.recipes.pointer.problems import (
    collate_points,
    draw_problems,
    example_points,
    load_problems,
    parse_points,
    parse_prefix,
    to_input_indices,
    to_unit_square,
)

POINTS = [np.array([[0.9, 0.1], [0.2, 0.5], [0.4, 0.8]]), np.array([[0.3, 0.7], [0.1, 0.2]])]


def test_all_that_are_drawn_have_as_many_points_as_were_asked_for():
    found = draw_problems(Hull(), 7, 3, seed=0)
    assert [each.shape for each in found.points] == [(7, 2)] * 3
    assert all(len(truth) >= 3 and min(truth) >= 0 for truth in found.truths)


def test_tours_that_are_drawn_have_no_answers():
    found = draw_problems(Tour(5, 20), 7, 3, seed=0)
    assert (len(found.points), found.truths) == (3, None)


def test_the_same_seed_draws_the_same_and_another_one_something_else():
    first, again, other = (draw_problems(Numbers(), 5, 3, seed).points for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("task", [Hull(5, 5), Numbers(5, 5), Tour(5, 5)], ids=repr)
def test_no_training_draws_what_is_asked(task):
    batches = [InstanceBatches(task, rows=4, seed=seed) for seed in (0, 1)]
    seen = [x for each in batches for epoch in (0, 1) for x in islice(each.epoch(epoch), 3)]
    asked = np.stack(
        draw_problems(task, 5, 4, seed=0).points + draw_problems(task, 5, 4, seed=1).points
    )
    learned = torch.cat([batch.points for batch in seen]).numpy()
    assert not any((row == learned).all((1, 2)).any() for row in asked)


def test_a_file_is_asked_with_its_own_answers(tmp_path):
    path = vinyals.write_instances(tmp_path / "a.txt", [(POINTS[0], [2, 0, 1])])
    found = load_problems("hull", path, "subset")
    assert np.array_equal(found.points[0], POINTS[0])
    assert found.truths == [[2, 0, 1]]


@pytest.mark.parametrize(
    ("pointing_rule", "answer", "message"),
    [
        ("permutation", "1 3 1", "each point once, got 0 2 for 3 points"),
        ("permutation", "", "each point once, got none for 3 points"),
        ("subset", "1 2 1", "three points or more, none twice, got 0 1 for 3 points"),
        ("subset", "1 2 2 3", "three points or more, none twice, got 0 1 1 2 for 3 points"),
        ("triangles", "1 2 3 1 2", "three points a triangle, got 0 1 2 0 1 for 3 points"),
    ],
)
def test_a_file_with_answers_of_another_form_is_refused(tmp_path, pointing_rule, answer, message):
    path = tmp_path / "a.txt"
    path.write_text(f"0 0 1 0 1 1 output 1 2 3 {'1' * (pointing_rule != 'triangles')}\n" * 2)
    load_problems("hull", path, pointing_rule)
    path.write_text(f"{path.read_text()}0 0 1 0 1 1 output {answer}\n")
    with pytest.raises(
        ValueError, match=f"^hull: {path}, line 3: expected an answer of {message}$"
    ):
        load_problems("hull", path, pointing_rule)


def test_points_are_read_as_many_numbers_each_as_a_task_has():
    assert parse_points("hull", "1,2 3,4", 2).tolist() == [[1, 2], [3, 4]]
    assert parse_points("sort", "1,2 3,4", 1).tolist() == [[1], [2], [3], [4]]


def test_from_left_to_right_by_hand():
    found, orders = collate_points(POINTS, "left")
    assert [places.tolist() for places in orders] == [[1, 2, 0], [1, 0]]
    assert found.lengths.tolist() == [3, 2]
    expected = [[[0.2, 0.5], [0.4, 0.8], [0.9, 0.1]], [[0.1, 0.2], [0.3, 0.7], [0, 0]]]
    assert torch.equal(found.points, torch.tensor(expected))


def test_an_answer_is_told_in_the_numbers_of_who_asked_up_to_its_end():
    _, orders = collate_points(POINTS, "left")
    # what stands behind the end is no answer
    answers = np.array([[2, 0, 1, -1], [1, 0, -1, 1]])
    assert to_input_indices(answers, orders) == [[0, 1, 2], [0, 1]]


@pytest.mark.parametrize("order", ["given", "left"])
def test_what_is_told_stands_where_it_was_read(order):
    found, orders = collate_points(POINTS, order)
    ((first, *_), _) = to_input_indices(np.array([[0, 1, 2], [0, 1, -1]]), orders)
    assert found.points[0, 0].tolist() == pytest.approx(POINTS[0][first].tolist())


def test_the_unit_square_by_hand():
    assert to_unit_square(np.array([[3.0, 5.0], [7.0, 6.0]])).tolist() == [[0, 0], [1, 0.25]]
    assert to_unit_square(np.array([[3.0, 5.0], [3.0, 5.0]])).tolist() == [[0, 0], [0, 0]]


def test_directions_are_scaled_alike_so_that_no_angle_changes():
    points = np.random.default_rng(0).normal(size=(7, 2)) * [100, 3] + [1e6, -5]
    moved = to_unit_square(points)
    ratios = (points[1:] - points[0]) / (moved[1:] - moved[0])
    assert np.ptp(ratios) < 1e-6 * ratios.mean()
    assert (moved.min(), moved.max()) == (0, 1)


@pytest.mark.parametrize("number", [1e151, -1e308])
def test_numbers_whose_squares_are_none_are_refused(number):
    with pytest.raises(ValueError, match=r"hull: expected numbers of at most 1e\+150, got .*e\+"):
        parse_points("hull", f"0,0 1,0 {number},1", 2)


def test_points_whose_area_would_be_nothing_are_refused():
    message = "^hull: expected points at least 1e-150 apart, got 1e-200$"
    with pytest.raises(ValueError, match=message):
        parse_points("hull", "0,0 1e-200,0 0,1e-200", 2)
    assert len(parse_points("tsp", "1,1 1,1 1,1", 2)) == 3


def test_a_task_is_not_changed_by_what_is_drawn_from_it():
    task = Hull(5, 50)
    draw_problems(task, 7, 1, seed=0)
    assert task == replace(task, min_points=5, max_points=50)


def test_a_prefix_is_some_points_by_their_numbers():
    assert parse_prefix("hull", "3 0", 5) == [3, 0]
    assert parse_prefix("hull", " 3,0 ", 5) == [3, 0]
    assert parse_prefix("hull", "", 5) == []


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("5", "^hull: expected a prefix of points from 0 to 4, got '5'$"),
        ("1 -1", "got '-1'$"),
        ("1 x", "got 'x'$"),
        ("²", "got '²'$"),
        ("9" * 5000, "^hull: expected a prefix of points from 0 to 4, got '9999"),
        ("1 2 1", "^hull: expected no point twice in a prefix, got 1 again$"),
    ],
)
def test_what_is_no_prefix_is_refused(prefix, message):
    with pytest.raises(ValueError, match=message):
        parse_prefix("hull", prefix, 5)


def test_points_that_are_numbers_already_are_only_checked():
    assert parse_points("hull", POINTS[0], 2) is POINTS[0]
    with pytest.raises(
        ValueError, match=r"^hull: expected points of shape \(n, 1\), got \(3, 2\)$"
    ):
        parse_points("hull", POINTS[0], 1)
    with pytest.raises(ValueError, match="hull: expected numbers of at most 1e"):
        parse_points("hull", POINTS[0] * 1e200, 2)


def test_an_example_is_so_many_points_as_one_would_type_them():
    assert parse_points("hull", example_points(2, 7), 2).shape == (7, 2)
    assert parse_points("sort", example_points(1, 7), 1).shape == (7, 1)
    assert example_points(2, 7) == example_points(2, 7)


def test_a_file_of_the_data_folder_goes_by_its_place_there(tmp_path, monkeypatch):
    (tmp_path / "tsp_lkh").mkdir()
    (tmp_path / "tsp_lkh" / "a.txt").write_text("0 0 1 0 1 1 output 1 3 2 1\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    found = load_problems("tsp", Path("tsp_lkh/a.txt"), "permutation")
    assert found.truths == [[0, 2, 1]]
    with pytest.raises(
        ValueError, match=r"read_instances: expected a file, got nothing at tsp_lkh/b\.txt"
    ):
        load_problems("tsp", Path("tsp_lkh/b.txt"), "permutation")
