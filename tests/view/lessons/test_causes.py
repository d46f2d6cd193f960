"""Weight and influence: what moves when a key is taken away."""

import math

import pytest

from regard.view.lessons.causes import LESSON

TWO = {"scores": [math.log(3), 0.0], "values": [[2.0, 0.0], [0.0, 2.0]]}


def test_without_a_weight_its_share_is_missing_by_hand():
    # weights ¾ and ¼
    found = LESSON.answer({**TWO, "how": "zero"})
    assert found["read"] == pytest.approx([1.5, 0.5], abs=1e-2)
    assert found["changes"] == pytest.approx([1.5, 0.5], abs=1e-2)


def test_without_a_key_the_others_take_its_share_by_hand():
    found = LESSON.answer({**TWO, "how": "hide"})
    assert found["without"] == [[0.0, 2.0], [2.0, 0.0]]
    assert found["changes"] == pytest.approx([1.5 * 2**0.5, 0.5 * 2**0.5], abs=1e-2)


def test_the_largest_weight_is_not_the_largest_influence_as_it_begins():
    found = LESSON.answer({})
    weights, changes = found["weights"], found["changes"]
    assert weights.index(max(weights)) == 0 and weights[0] > 0.5
    assert changes.index(max(changes)) == 3 and weights[3] == min(weights)


def test_a_change_is_the_weight_times_the_length_of_the_value():
    found = LESSON.answer({})
    expected = [w * n for w, n in zip(found["weights"], found["lengths"], strict=True)]
    assert found["changes"] == pytest.approx(expected, rel=1e-4)


def test_each_score_has_a_value():
    with pytest.raises(ValueError, match="expected 5 values for 5 scores, got 2"):
        LESSON.answer({"values": [[1.0, 1.0], [0.0, 1.0]]})
