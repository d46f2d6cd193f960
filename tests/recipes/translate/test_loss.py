"""What is learned: the loss by hand, passes that agree, and hard looks by reward."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard.data.text.batches import PAD, TokenBatches
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.recipes.translate.loss import BASELINE_DECAY, loss, mean_loss

TINY = Seq2SeqConfig(vocabulary=11, embedding=6, width=5, alignment=4, readout=6, tied=True)
EXAMPLES = [([5, 6, 7], [8, 9]), ([4], [3]), ([9, 9], [7, 6, 5, 4])]


@pytest.fixture
def batch():
    return next(TokenBatches(EXAMPLES, tokens=64, seed=0).epoch(0))


def made(**fields):
    torch.manual_seed(0)
    return Seq2Seq(replace(TINY, **fields))


def test_the_loss_is_the_mean_over_words_and_padding_is_none(batch):
    model = made().eval()
    logits = model((batch.source, batch.source_lengths), batch.target[:, :-1])
    targets = batch.target[:, 1:]
    each = -logits.log_softmax(-1).gather(2, targets[..., None])[..., 0]
    found = loss(model, batch, smoothing=0.0, r_drop_weight=0.0)
    assert_close(found, each[targets != PAD].mean())
    assert mean_loss(model, TokenBatches(EXAMPLES, tokens=8, seed=0)) == pytest.approx(
        float(found.detach())
    )


def test_passes_without_dropout_agree_so_that_r_drop_costs_nothing(batch):
    model = made()
    alone, twice = (loss(model, batch, smoothing=0.1, r_drop_weight=c) for c in (0.0, 5.0))
    assert_close(alone, twice)


def test_passes_with_dropout_are_drawn_together(batch):
    model = made(dropout=0.5)
    torch.manual_seed(3)
    apart = loss(model, batch, smoothing=0.0, r_drop_weight=1e-9)
    torch.manual_seed(3)
    assert loss(model, batch, smoothing=0.0, r_drop_weight=1.0) > apart


def test_hard_attention_is_rewarded_and_its_baseline_follows_the_cost(batch):
    model, targets = made(select="hard"), batch.target[:, 1:]
    torch.manual_seed(1)
    logits = model.forward_sampled(
        (batch.source, batch.source_lengths), batch.target[:, :-1]
    ).logits
    each = -logits.log_softmax(-1).gather(2, targets[..., None])[..., 0] * (targets != PAD)
    torch.manual_seed(1)
    loss(model, batch, smoothing=0.0, r_drop_weight=0.0).backward()
    assert model.decoder.attention.score.vector.grad.abs().max() > 0
    cost = each.sum(1) / (targets != PAD).sum(1)
    assert_close(model.baseline, (1 - BASELINE_DECAY) * cost.mean().detach())
