"""Episodes: one shape always, silence behind their ends, and a seed that decides all of it."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from regard.data.ntm import episodes
from regard.data.ntm.copy import Copy, RepeatCopy
from regard.data.ntm.episodes import (
    BATCHES_PER_EPOCH,
    EpisodeBatches,
    Episodes,
    Task,
    curriculum_max,
    format_vectors,
    parse_vectors,
)
from regard.data.ntm.ngrams import NGrams
from regard.data.ntm.recall import Recall
from regard.data.ntm.sort import Sort
from regard.train.stream import Batch, Batches, Stream

TASKS = [
    Copy(bits=3, longest=5),
    RepeatCopy(bits=3, longest=4, max_repeats=3),
    Recall(bits=2, length=2, max_items=5),
    NGrams(order=3, length=11),
    Sort(bits=3, vectors=7, top_k=5),
]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)


def alike(a: Episodes, b: Episodes) -> bool:
    pairs = ((a.inputs, b.inputs), (a.targets, b.targets), (a.target_mask, b.target_mask))
    return all(torch.equal(one, other) for one, other in pairs)


@every_task
def test_every_task_is_a_task_and_its_batches_can_be_trained_on(task):
    batches = EpisodeBatches(task, rows=2, seed=0)
    assert isinstance(task, Task)
    assert isinstance(batches, Batches)
    assert isinstance(next(batches.epoch(0)), Batch)


@every_task
def test_every_batch_has_one_shape(task):
    for batch in islice(EpisodeBatches(task, rows=7, seed=0, curriculum=9).epoch(0), 20):
        assert batch.inputs.shape == (7, task.steps, task.inputs)
        assert batch.targets.shape == (7, task.steps, task.outputs)
        assert batch.target_mask.shape == (7, task.steps)
        assert len(batch) == batch.tokens == 7


@every_task
def test_the_longest_episode_fills_all_steps(task):
    drawn = task.draw(np.random.default_rng(0), 200)
    assert drawn.target_mask[:, -1].any()


@every_task
def test_behind_the_last_answer_all_is_silent(task):
    drawn = task.draw(np.random.default_rng(0), 200)
    over = drawn.target_mask.flip(1).cumsum(1).flip(1) == 0
    assert not drawn.inputs[over].any()
    assert not drawn.targets[~drawn.target_mask].any()


@every_task
def test_targets_are_bits(task):
    assert task.draw(np.random.default_rng(0), 50).targets.unique().tolist() == [0, 1]


@every_task
def test_the_seed_the_epoch_and_the_place_decide(task):
    batches = EpisodeBatches(task, rows=5, seed=3)
    first, second = islice(batches.epoch(4), 2)
    assert alike(first, next(EpisodeBatches(task, rows=5, seed=3).epoch(4)))
    others = [second, next(batches.epoch(5)), next(EpisodeBatches(task, rows=5, seed=2).epoch(4))]
    assert not any(alike(first, other) for other in others)


def test_a_later_start_gives_the_rest_of_the_same_epoch():
    batches = EpisodeBatches(TASKS[0], rows=2, seed=0)
    whole, rest = list(batches.epoch(1)), list(batches.epoch(1, BATCHES_PER_EPOCH - 3))
    assert len(whole) == len(batches) == BATCHES_PER_EPOCH
    assert len(rest) == 3
    assert all(map(alike, whole[-3:], rest))


def test_batches_before_the_start_are_never_drawn():
    class Counted(Copy):
        def draw(self, random, count, share=1.0):
            drawn.append(share)
            return super().draw(random, count, share)

    drawn = []
    stream = Stream(EpisodeBatches(Counted(), rows=1, seed=0), epoch=0, batch=BATCHES_PER_EPOCH - 1)
    stream.next_batch()
    stream.next_batch()
    assert (stream.epoch, stream.batch, len(drawn)) == (1, 1, 2)


def test_the_greatest_length_rises_to_the_longest_and_stays():
    task = Copy(bits=1, shortest=2, longest=6)
    batches = EpisodeBatches(task, rows=200, seed=0, curriculum=8)
    greatest = [int(batch.target_mask.sum(1).max()) for batch in islice(batches.epoch(0), 10)]
    assert greatest == [2, 3, 3, 4, 4, 5, 5, 6, 6, 6]
    # 1,000 batches later it is over
    assert next(batches.epoch(1)).target_mask.sum(1).max() == 6


def test_without_a_curriculum_all_lengths_come_at_once():
    batch = next(EpisodeBatches(Copy(longest=4), rows=200, seed=0).epoch(0))
    assert batch.target_mask.sum(1).unique().tolist() == [1, 2, 3, 4]


def test_a_curriculum_goes_on_over_epochs(monkeypatch):
    monkeypatch.setattr(episodes, "BATCHES_PER_EPOCH", 4)
    batches = EpisodeBatches(Copy(bits=1, longest=5), rows=200, seed=0, curriculum=8)
    greatest = [int(b.target_mask.sum(1).max()) for number in (0, 1) for b in batches.epoch(number)]
    assert greatest == [1, 2, 2, 3, 3, 4, 4, 5]


def test_lengths_rise_by_the_share_by_hand():
    assert [curriculum_max(2, 6, share) for share in (0.0, 0.24, 0.25, 0.99, 1.0)] == [
        2,
        2,
        3,
        5,
        6,
    ]
    with pytest.raises(ValueError, match=r"draw: expected a difficulty from 0 to 1, got 1\.5"):
        curriculum_max(1, 2, 1.5)


def test_a_batch_moves_as_a_whole():
    batch = next(EpisodeBatches(TASKS[0], rows=2, seed=0).epoch(0))
    moved = batch.to("meta")
    assert {moved.inputs.device.type, moved.targets.device.type, moved.target_mask.device.type} == {
        "meta"
    }
    assert moved.tokens == 2


@pytest.mark.parametrize("text", ["011 100", "011,100", " 011,  100 ", "011100"])
def test_vectors_are_read_with_anything_between_them(text):
    assert parse_vectors("copy", text, 3).tolist() == [[0, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("0120", "'0120'"),
        ("01101001 0110100", "'0110100'"),
        ("0110100x", "'0110100x'"),
        # digits to Python, and no bits
        ("0110100١", "'0110100١'"),
        ("", "''"),
        (" ", "' '"),
    ],
)
def test_what_is_no_vector_is_refused(text, got):
    message = f"^copy: expected vectors of 8 bits, as in 01101001 11110000, got {got}$"
    with pytest.raises(ValueError, match=message):
        parse_vectors("copy", text, 8)


def test_the_example_of_an_error_has_the_right_number_of_bits():
    with pytest.raises(ValueError, match="of 10 bits, as in 0110100101 1111000011, got 'a'"):
        parse_vectors("copy", "a", 10)


def test_what_is_spoken_can_be_typed():
    assert format_vectors(torch.tensor([[0.0, 1.0, 1.0], [0.9, 0.5, 0.1]])) == "011 100"
    assert parse_vectors("copy", format_vectors(torch.eye(3)), 3).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, "EpisodeBatches: expected rows of at least 1, got 0"),
        ({"seed": -1}, "EpisodeBatches: expected seed of at least 0, got -1"),
        ({"curriculum": -5}, "expected a curriculum of at least 0 batches, got -5"),
    ],
)
def test_batches_that_cannot_be_drawn_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        EpisodeBatches(Copy(), **{"rows": 1, "seed": 0, **settings})


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((-1,), "epoch: expected a number of at least 0, got -1"),
        ((0, BATCHES_PER_EPOCH + 1), "epoch: expected start from 0 to 1000, got 1001"),
    ],
)
def test_places_that_are_none_are_refused_at_once(place, message):
    with pytest.raises(ValueError, match=message):
        EpisodeBatches(Copy(), rows=1, seed=0).epoch(*place)


def test_a_task_is_one_value_that_can_be_changed():
    assert replace(Copy(), longest=120).steps == 242
    assert Copy() == Copy(bits=8, shortest=1, longest=20)
