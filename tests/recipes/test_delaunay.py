"""Delaunay triangulations: triangles judged by hand, and what is said of them."""

import re

import numpy as np
import pytest

from regard.data.geometry import triangulations
from regard.recipes import delaunay
from regard.recipes.pointer.problems import Problems
from tests.recipes.pointer.untrained import LSTM, untrained

#  3 · · 2
#  · 4 · ·
#  0 · · 1
POINTS = np.array([[0, 0], [3, 0], [3, 2], [0, 2], [1, 1]], float)
TRUTH = [0, 1, 4, 1, 2, 4, 2, 3, 4, 0, 3, 4]


def judged(*answers):
    posed = Problems([POINTS] * len(answers), [TRUTH] * len(answers))
    return delaunay.RECIPE.answer_metrics(posed, [*answers], delaunay.Evaluation())


def said(answer):
    return delaunay.RECIPE.describe_answer(POINTS, answer, False)


@pytest.mark.parametrize("answer", [TRUTH, TRUTH[::-1], TRUTH[6:] + TRUTH[:6]])
def test_triangles_are_right_in_any_order(answer):
    assert judged(answer) == {"accuracy": 1, "coverage": 1}


def test_coverage_is_the_share_of_the_true_triangles_that_were_found():
    assert judged([0, 1, 4]) == {"accuracy": 0, "coverage": 0.25}
    # half of a triangle is none, and a wrong one covers nothing
    assert judged([0, 1, 4, 1, 2]) == judged([0, 1, 4, 0, 1, 2]) == judged([0, 1, 4])
    assert judged([]) == {"accuracy": 0, "coverage": 0}


def test_a_triangle_too_many_is_not_wholly_right():
    assert judged([*TRUTH, 0, 1, 2]) == {"accuracy": 0, "coverage": 1}


def test_numbers_are_means():
    assert judged(TRUTH, TRUTH[:6], []) == {
        "accuracy": pytest.approx(1 / 3),
        "coverage": pytest.approx(1.5 / 3),
    }


def test_right_triangles_are_said_one_after_the_other():
    text, details = said(TRUTH)
    assert text == "0 1 4  1 2 4  2 3 4  0 3 4\n4 triangles, which are all"
    assert details["triangles"] == [[0, 1, 4], [1, 2, 4], [2, 3, 4], [0, 3, 4]]
    assert (details["coverage"], details["correct"], details["indices"]) == (1, True, TRUTH)


def test_wrong_triangles_are_said_beside_those_that_are_missing():
    text, details = said([0, 1, 4, 0, 1, 2])
    assert text == (
        "0 1 4  0 1 2\n1 of 4 triangles are right, 1 wrong; not found: 0 3 4  1 2 4  2 3 4"
    )
    assert (details["coverage"], details["correct"]) == (0.25, False)


SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)


@pytest.mark.parametrize("answer", [[0, 1, 2, 0, 2, 3], [0, 1, 3, 1, 2, 3]])
def test_either_diagonal_of_a_square_is_right(answer):
    text, details = delaunay.RECIPE.describe_answer(SQUARE, answer, False)
    assert text.endswith("\n2 triangles, which are all")
    assert (details["coverage"], details["correct"]) == (1, True)
    for truth in ([0, 1, 2, 0, 2, 3], [0, 1, 3, 1, 2, 3]):
        found = delaunay.RECIPE.answer_metrics(
            Problems([SQUARE], [truth]), [answer], delaunay.Evaluation()
        )
        assert found == {"accuracy": 1, "coverage": 1}


@pytest.mark.parametrize("answer", [[0, 1, 2], [0, 1, 3], [0, 1, 2, 0, 1, 3]])
def test_where_several_answers_are_right_no_triangle_is_called_wrong(answer):
    text, details = delaunay.RECIPE.describe_answer(SQUARE, answer, False)
    assert re.search(
        r"\nthis is no Delaunay triangulation; one of several is "
        r"(0 1 3  1 2 3|0 1 2  0 2 3|0 2 3  0 1 2|1 2 3  0 1 3), of which [01] of 2 were found$",
        text,
    )
    assert not details["correct"]


@pytest.mark.parametrize(("few", "accuracy"), [(4, 1), (3, 0)])
def test_only_of_few_points_other_answers_than_the_true_one_are_right(monkeypatch, few, accuracy):
    monkeypatch.setattr(delaunay, "MAX_POINTS", few)
    posed = Problems([SQUARE], [[0, 1, 2, 0, 2, 3]])
    found = delaunay.RECIPE.answer_metrics(posed, [[0, 1, 3, 1, 2, 3]], delaunay.Evaluation(3))
    assert found == {"accuracy": accuracy, "coverage": accuracy}


def test_an_answer_that_equals_the_true_one_is_not_judged_again(monkeypatch):
    monkeypatch.setattr(triangulations, "is_delaunay", None)
    assert judged(TRUTH, TRUTH[::-1]) == {"accuracy": 1, "coverage": 1}


def test_one_triangle_is_said_alone():
    text, _ = delaunay.RECIPE.describe_answer(POINTS[:3], [0, 1, 2], False)
    assert text == "0 1 2\nwhich is all"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,0 1,1", "delaunay: expected three points or more, got 2"),
        ("0,0 1,0 1,1 0,0", r"delaunay: expected different points, got \[0.0, 0.0\] at 0 and ag"),
        ("0,0 1,1 2,2", "delaunay: expected points that span an area and can be told apart"),
        (" ".join(f"0.{i},0.{i * i % 97}" for i in range(10, 61)), "expected at most 50 points, g"),
    ],
)
def test_points_without_a_triangulation_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        delaunay.predict(untrained(delaunay, LSTM), text)


def test_what_is_drawn_is_judged_by_its_own_triangles():
    found = delaunay.evaluate(untrained(delaunay, LSTM), delaunay.Evaluation(3, 5))
    # three points have one triangle, and a pointer must make one
    assert (found["accuracy"], found["coverage"]) == (1, 1)
