"""Measuring: numbers by hand, on episodes that no training draws."""

import math
from dataclasses import replace
from itertools import islice

import pytest
import torch

from regard.data.ntm.copy import Copy
from regard.data.ntm.episodes import EpisodeBatches
from regard.data.ntm.ngrams import NGrams
from regard.data.ntm.sort import Sort
from regard.recipes import copy
from regard.recipes.copy import Evaluation
from regard.recipes.ntm import metrics
from regard.recipes.ntm.metrics import held_out_episodes
from tests.recipes.untrained import NET, copying, saying, untrained

TASK = Copy(bits=2, longest=3)


def measured(loaded, **fields):
    return copy.evaluate(loaded, Evaluation(**{"length": 3, **fields}))


def test_who_knows_nothing_costs_bits_times_length():
    loaded = untrained(copy, bits=2)
    silent = saying(loaded, lambda inputs: torch.zeros(*inputs.shape[:2], 2))
    assert measured(silent, length=5)["bits_per_sequence"] == pytest.approx(2 * 5, abs=1e-6)


def test_who_can_copy_costs_nothing_and_is_perfect():
    found = measured(saying(untrained(copy, bits=2), copying), length=5, sequences=7)
    assert (found["bits_per_sequence"], found["perfect"]) == (pytest.approx(0), 1)
    assert (found["sequences"], found["slots"], found["seed"]) == (7, 8, 0)


def test_perfect_is_the_share_without_one_wrong_bit():
    def once_wrong(inputs):
        logits = copying(inputs)
        logits[2, -1, 0] *= -1
        return logits

    found = measured(saying(untrained(copy, bits=2), once_wrong), sequences=4)
    # one bit of four sequences, and it is as wrong as a logit of 100
    assert found["bits_per_sequence"] == pytest.approx(100 / math.log(2) / 4)
    assert found["perfect"] == 0.75


def test_the_same_seed_gives_the_same_number_and_another_one_another():
    loaded = untrained(copy, bits=2)
    first, again, other = (measured(loaded, seed=seed)["bits_per_sequence"] for seed in (0, 0, 1))
    assert first == again != other


def test_episodes_are_measured_some_at_a_time(monkeypatch):
    loaded = untrained(copy, bits=2)
    whole = measured(loaded, sequences=9)
    monkeypatch.setattr(metrics, "MAX_STATE_ELEMENTS", 2 * 8 * 5)
    parts = measured(loaded, sequences=9)
    assert parts["bits_per_sequence"] == pytest.approx(whole["bits_per_sequence"], abs=1e-5)


def test_seeds_draw_different_episodes():
    drawn = [held_out_episodes(Copy(), 5, seed).inputs for seed in range(9)]
    assert not any(torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])


@pytest.mark.parametrize("task", [TASK, NGrams(order=3, length=9), Sort(bits=2)], ids=repr)
def test_no_training_draws_what_is_measured(task):
    batches = [EpisodeBatches(task, rows=4, seed=seed) for seed in (0, 1)]
    drawn = [x for each in batches for epoch in range(3) for x in islice(each.epoch(epoch), 3)]
    held = [held_out_episodes(task, 4, seed) for seed in (0, 1)]
    assert not any(torch.equal(a.inputs, b.inputs) for a in drawn for b in held)


def test_a_sequence_longer_than_the_memory_is_refused():
    message = "copy: 9 vectors do not fit into a memory of 8 slots; set slots to at least 9"
    with pytest.raises(ValueError, match=message):
        measured(untrained(copy, bits=2), length=9)


def test_more_slots_hold_longer_sequences():
    assert measured(untrained(copy, bits=2), length=9, slots=16)["slots"] == 16


def test_a_net_without_a_memory_takes_any_length_and_no_slots():
    net = untrained(copy, NET, bits=2)
    assert measured(net, length=9)["slots"] is None
    with pytest.raises(ValueError, match="copy: a model of kind lstm has no slots"):
        measured(net, slots=8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"length": 0}, "copy: expected length of at least 1, got 0"),
        ({"sequences": 0}, "copy: expected sequences of at least 1, got 0"),
        ({"slots": 0}, "copy: expected slots of at least 1, got 0"),
        ({"slots": 10**20}, "copy: expected slots of at most 16777216, got 100000000000000000000"),
        ({"seed": -1}, "copy: expected seed of at least 0, got -1"),
    ],
)
def test_evaluations_of_nothing_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(Evaluation(), **fields)
