"""Order and attention: equivariant without positions, and not with."""

import itertools

import pytest

from regard.view.lessons.permutation import LESSON


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))][1:])
def test_without_positions_rows_are_shuffled_as_their_tokens_are(order):
    found = LESSON.answer({"order": list(order), "positions": "none"})
    assert found["error"] < 1e-12 and found["pooled"] < 1e-12


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_with_positions_order_counts(positions):
    found = LESSON.answer({"order": [2, 1, 0], "positions": positions})
    assert found["error"] > 0.1 and found["pooled"] > 0.01


@pytest.mark.parametrize("positions", ["none", "sinusoidal", "rotary"])
def test_tokens_that_stay_read_the_same(positions):
    found = LESSON.answer({"order": [0, 1, 2, 3], "positions": positions})
    assert found["error"] == 0 and found["after"] == found["before"]


def test_errors_of_rows_make_up_the_whole():
    found = LESSON.answer({"order": [2, 1, 0], "positions": "rotary"})
    assert sum(e**2 for e in found["errors"]) ** 0.5 == pytest.approx(found["error"])
