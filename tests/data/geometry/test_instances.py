"""Instances: drawn from seed, epoch and place alone, and read in the order that is asked for."""

import numpy as np
import pytest
import torch

from regard.data.geometry.hulls import Hull
from regard.data.geometry.instances import (
    InstanceBatches,
    draw_points,
    instances_from_arrays,
    reading_order,
)

TASK = Hull(3, 7)


def equal(one, other):
    names = ("points", "lengths", "answers")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_the_same_place_gives_the_same_batch_wherever_an_epoch_begins():
    batches = InstanceBatches(TASK, rows=5, seed=3)
    epoch = batches.epoch(2)
    first = [next(epoch) for _ in range(4)]
    assert equal(next(batches.epoch(2, 3)), first[3])
    assert not equal(first[0], first[1])
    assert not equal(first[0], next(batches.epoch(1)))


def test_an_epoch_ends():
    batches = InstanceBatches(TASK, rows=1, seed=0)
    assert len(list(batches.epoch(0, len(batches) - 7))) == 7
    assert list(batches.epoch(0, len(batches))) == []


def test_points_are_read_from_the_left_and_padding_stays_behind():
    points, lengths = draw_points(np.random.default_rng(0), 50, 3, 7, order="left")
    for row, length in zip(points, lengths, strict=True):
        assert (np.diff(row[:length, 0]) >= 0).all()
        assert not row[length:].any()
    assert set(lengths) == set(range(3, 8))


def test_an_order_says_which_point_is_read_when():
    points = np.array([[0.7, 0.0], [0.1, 0.5], [0.7, 0.2], [0.3, 0.9]])
    assert reading_order(points, "left").tolist() == [1, 3, 0, 2]
    assert reading_order(points, "given").tolist() == [0, 1, 2, 3]


def test_answers_are_filled_up_to_few_lengths():
    made = instances_from_arrays(np.zeros((2, 5, 2)), np.array([5, 5]), np.zeros((2, 5), int))
    assert made.answers.tolist() == [[0] * 5 + [-1] * 3] * 2
    assert (len(made), made.tokens) == (2, 2)


def test_a_change_is_made_to_every_tensor():
    made = TASK.draw(np.random.default_rng(0), 5).map_tensors(lambda x: x[:2])
    assert [len(x) for x in (made.points, made.lengths, made.answers)] == [2, 2, 2]


@pytest.mark.parametrize(("name", "value"), [("rows", 0), ("seed", -1)])
def test_what_cannot_be_drawn_is_refused(name, value):
    given = {"rows": 1, "seed": 0} | {name: value}
    with pytest.raises(ValueError, match=f"InstanceBatches: expected {name} of at least"):
        InstanceBatches(TASK, **given)


def test_an_epoch_that_is_not_there_is_refused():
    batches = InstanceBatches(TASK, rows=1, seed=0)
    with pytest.raises(ValueError, match="expected a number of at least 0, got -1"):
        batches.epoch(-1)
    with pytest.raises(ValueError, match="expected start from 0 to 1000, got 1001"):
        batches.epoch(0, 1001)
