"""What is learned: a mean over bits that are asked for; and errors in bits, by hand."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard.data.ntm.copy import Copy
from regard.data.ntm.episodes import EpisodeBatches
from regard.recipes.ntm.loss import loss, output_logits, score_episodes
from tests.recipes.untrained import Says, copying

BITS, ROWS = 3, 5
TASK = Copy(bits=BITS, longest=4)


@pytest.fixture
def batch():
    return next(EpisodeBatches(TASK, rows=ROWS, seed=1).epoch(0))


def zeros(inputs):
    return torch.zeros(*inputs.shape[:2], BITS)


def drawn(inputs):
    """Logits that hang on their place alone."""
    fixed = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, TASK.steps, BITS, generator=fixed)[:, : inputs.shape[1]]


def test_who_knows_nothing_costs_one_bit_a_bit(batch):
    lengths = batch.target_mask.sum(1)
    assert lengths.unique().numel() > 1
    bits, right = score_episodes(Says(zeros), batch)
    assert_close(bits, BITS * lengths.double())
    assert not right[batch.targets.flatten(1).any(1)].any()
    assert_close(loss(Says(zeros), batch), torch.tensor(math.log(2)))


def test_the_loss_is_the_mean_over_all_bits_that_are_asked_for(batch):
    each = F.binary_cross_entropy_with_logits(drawn(batch.inputs), batch.targets, reduction="none")
    assert_close(loss(Says(drawn), batch), each[batch.target_mask].mean())


def test_what_is_not_asked_for_does_not_count(batch):
    other = batch.map_tensors(lambda x: x)
    other.targets[~batch.target_mask] = 1
    assert_close(score_episodes(Says(drawn), other), score_episodes(Says(drawn), batch))
    assert_close(loss(Says(drawn), other), loss(Says(drawn), batch))


def test_an_error_by_hand():
    episode = Copy(bits=2).parse_episode("01")
    # the right bits are as likely as 3/4 and 1/8: 2 - log2(3) and 3 bits
    found = Says(lambda inputs: torch.tensor([-math.log(3), -math.log(7)]).expand(1, 4, 2))
    bits, right = score_episodes(found, episode)
    assert_close(bits, torch.tensor([5 - math.log2(3)], dtype=torch.float64))
    assert right.tolist() == [False]


def test_all_bits_right_is_perfect_and_one_wrong_bit_is_not():
    batch = Copy(bits=BITS, shortest=4, longest=4).draw(np.random.default_rng(0), ROWS)

    def once_wrong(inputs):
        logits = copying(inputs)
        logits[2, -1, 0] *= -1
        return logits

    assert score_episodes(Says(copying), batch)[1].all()
    assert score_episodes(Says(once_wrong), batch)[1].tolist() == [True, True, False, True, True]


def test_steps_behind_the_last_answer_are_not_taken():
    batch = Copy(bits=BITS, longest=20).parse_episode("011 100")
    longer = batch.map_tensors(lambda x: torch.cat([x, torch.zeros_like(x)], 1))
    seen = []
    score_episodes(Says(lambda inputs: seen.append(inputs.shape[1]) or zeros(inputs)), longer)
    assert seen == [6]


def test_slots_are_named_only_where_they_are_asked_for(batch):
    told = []

    class Told(Says):
        def forward(self, inputs, **more):
            told.append(more)
            return super().forward(inputs)

    output_logits(Told(zeros), batch.inputs)
    output_logits(Told(zeros), batch.inputs, slots=32)
    assert told == [{}, {"slots": 32}]
