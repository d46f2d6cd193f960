"""Sorting: rows judged by hand, and what is said of them."""

import numpy as np
import pytest

from regard.config import override
from regard.recipes import sort
from regard.recipes.pointer.problems import Problems
from tests.recipes.pointer.untrained import untrained

NUMBERS = np.array([[0.7], [0.1], [0.4], [0.1]])
RIGHT = [1, 3, 2, 0]


def judged(*answers):
    posed = Problems([NUMBERS] * len(answers), None)
    return sort.RECIPE.answer_metrics(posed, [*answers], sort.Evaluation())["accuracy"]


def test_equal_numbers_may_come_in_any_order():
    assert judged(RIGHT) == judged([3, 1, 2, 0]) == 1


@pytest.mark.parametrize("answer", [[0, 2, 1, 3], [1, 3, 0, 2], [1, 3, 2], [1, 1, 2, 0], []])
def test_one_mistake_is_enough_to_be_wrong(answer):
    assert judged(answer) == 0


def test_accuracy_is_the_share_of_rows_that_are_right():
    assert judged(RIGHT, [3, 1, 2, 0], [0, 1, 2, 3]) == pytest.approx(2 / 3)


def test_what_is_right_is_said_with_its_numbers():
    text, details = sort.RECIPE.describe_answer(NUMBERS, RIGHT, False)
    assert text == "1 3 2 0\n0.1 0.1 0.4 0.7"
    assert details == {"indices": RIGHT, "values": [0.1, 0.1, 0.4, 0.7], "correct": True}


def test_what_is_wrong_is_said_beside_what_is_right():
    text, details = sort.RECIPE.describe_answer(NUMBERS, [0, 1, 2, 3], False)
    assert text == "0 1 2 3\n0.7 0.1 0.4 0.1\nthese are not in order; right is 1 3 2 0"
    assert not details["correct"]


def test_numbers_are_read_from_0_to_1_in_the_same_order():
    assert sort.RECIPE.normalize_points(np.array([[30.0], [-10], [10]])).tolist() == [
        [1],
        [0],
        [0.5],
    ]
    assert sort.RECIPE.normalize_points(np.array([[7.0], [7.0]])).tolist() == [[0], [0]]


def test_one_number_is_in_order():
    assert sort.predict(untrained(sort), "5").text == "0\n5"


def test_numbers_elsewhere_and_larger_are_answered_alike():
    one, other = (sort.predict(untrained(sort), t) for t in ("0.5 0.25 1 0", "768 512 1280 256"))
    assert one.details["indices"] == other.details["indices"]


def test_more_numbers_than_can_be_read_are_refused():
    with pytest.raises(ValueError, match=r"^sort: expected 1 to 2000 numbers, got 2001$"):
        sort.predict(untrained(sort), " ".join(["1"] * 2001))


def test_points_of_the_plane_are_no_numbers():
    with pytest.raises(ValueError, match="sort: expected numbers, got points of the plane"):
        sort.predict(untrained(sort), "0 0 1 0 1 1 output 1 2 3 1")


def test_no_file_holds_numbers_to_be_sorted():
    with pytest.raises(ValueError, match="file"):
        override(sort.Evaluation(), ["file=numbers.txt"])
