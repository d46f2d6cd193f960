"""Positions: which scores know the distance alone."""

import math

import pytest
import torch

from regard.view.lessons.positions import LENGTH, LESSON, WIDTH, max_score_spread


@pytest.mark.parametrize("kind", ["sinusoidal", "relative", "rotary"])
def test_scores_depend_on_the_distance_only(kind):
    assert LESSON.answer({"kind": kind})["spread"] < 1e-4


def test_a_learned_table_knows_nothing_of_distances_before_it_is_trained():
    assert LESSON.answer({"kind": "learned"})["spread"] > 1


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_the_score_at_a_distance_is_a_sum_of_cosines(kind):
    found = LESSON.answer({"kind": kind, "position": 10, "base": 100.0})
    turns = [100.0 ** (-2 * i / WIDTH) for i in range(WIDTH // 2)]
    # ones are as long as two sines and cosines
    size = 1 if kind == "sinusoidal" else 2
    expected = [size * sum(math.cos((k - 10) * turn) for turn in turns) for k in range(LENGTH)]
    assert found["row"] == pytest.approx(expected, abs=1e-4)


def test_a_pair_turns_by_its_own_angle():
    found = LESSON.answer({"kind": "sinusoidal", "pair": 3, "base": 100.0})
    assert found["turn"] == pytest.approx(100 ** (-6 / WIDTH))
    x, y = found["waves"][5]
    assert (x, y) == pytest.approx(
        (math.sin(5 * found["turn"]), math.cos(5 * found["turn"])), abs=1e-3
    )


def test_the_row_is_that_of_the_position():
    found = LESSON.answer({"kind": "learned", "position": 7})
    assert found["row"] == pytest.approx(found["dots"][7], abs=1e-3)


def test_spread_by_hand():
    assert max_score_spread(torch.tensor([[1.0, 2.0], [3.0, 1.0]])) == 0
    assert max_score_spread(torch.tensor([[1.0, 2.0], [3.0, 5.0]])) == 4
