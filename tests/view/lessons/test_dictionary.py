"""The soft dictionary: a lookup when cold, the mean when hot."""

import math

import pytest
import torch

from regard.dispatch import weigh
from regard.functional.scores import Dot
from regard.view.lessons.dictionary import LESSON, negative_squared_distance, plane_grid

KEYS = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.5]]
VALUES = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
ALL = {"keys": KEYS, "values": VALUES}


def test_weights_by_hand():
    # squared distances 0.25, 2.25 and 2.5 at temperature 1
    found = LESSON.answer({**ALL, "query": [0.5, 0.0], "temperature": 1.0})["weights"]
    powers = [math.exp(-0.25), math.exp(-2.25), math.exp(-2.5)]
    assert found == pytest.approx([p / sum(powers) for p in powers])


def test_without_warmth_it_is_an_exact_lookup():
    found = LESSON.answer({**ALL, "query": [0.4, 0.1], "temperature": 0.001})
    assert found["weights"] == [1.0, 0.0, 0.0] and found["read"] == VALUES[0]


def test_with_warmth_without_end_it_is_the_mean():
    found = LESSON.answer({**ALL, "query": [0.4, 0.1], "temperature": 1000.0})
    assert found["weights"] == pytest.approx([1 / 3] * 3, abs=1e-3)
    assert found["read"] == pytest.approx([1 / 3] * 3, abs=1e-3)


def test_nearness_to_keys_of_one_length_is_a_dot_product():
    angles = torch.rand(1, 1, 7, 1) * 6
    q, k = torch.randn(1, 1, 5, 2), torch.cat([angles.cos(), angles.sin()], -1)
    near = weigh(q, k, score=negative_squared_distance(0.5))
    assert torch.allclose(near, weigh(q, k, score=Dot(2 / 0.5)), atol=1e-6)


def test_the_field_is_what_a_query_there_would_read():
    found = LESSON.answer(ALL)
    side = found["side"]
    spot = plane_grid(found["reach"], side).view(side, side, 2)[3, 5].tolist()
    there = LESSON.answer({**ALL, "query": spot})["read"]
    assert found["field"][3 * side + 5] == pytest.approx(there, abs=0.006)


def test_the_plane_starts_at_the_top_left():
    places = plane_grid(2.0, 3)[0, 0].tolist()
    assert places[0] == [-2, 2] and places[2] == [2, 2] and places[-1] == [2, -2]


def test_each_key_has_a_value():
    with pytest.raises(ValueError, match="expected a value for each of 3 keys, got 2"):
        LESSON.answer({"keys": KEYS, "values": VALUES[:2]})
