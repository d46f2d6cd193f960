"""Losses: numbers by hand, agreement with PyTorch, and gradients that point the right way."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard.functional import losses

B, T, V = 2, 3, 5


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_cross_entropy_by_hand():
    logits = torch.tensor([[[0.0, math.log(3.0)]]])
    assert_close(losses.cross_entropy(logits, torch.tensor([[1]])).exp(), torch.tensor([[4 / 3]]))


def test_smoothing_spreads_a_share_over_all_tokens():
    logits, targets = drawn(B, T, V), torch.tensor([[0, 1, 2], [3, 4, 0]])
    plain = losses.cross_entropy(logits, targets)
    everywhere = -logits.log_softmax(-1).mean(-1)
    smooth = losses.cross_entropy(logits, targets, smoothing=0.1)
    assert_close(smooth, 0.9 * plain + 0.1 * everywhere)


def test_half_precision_is_widened_before_the_softmax():
    logits, targets = drawn(B, T, V).bfloat16(), torch.zeros(B, T, dtype=torch.long)
    exact = losses.cross_entropy(logits.float(), targets)
    assert_close(losses.cross_entropy(logits, targets), exact, rtol=0, atol=0)


def test_divergence_is_the_mean_of_both_directions_of_kl():
    p, q = drawn(B, T, V), drawn(B, T, V + 1)[..., 1:]
    kinds = {"log_target": True, "reduction": "none"}
    a, b = p.log_softmax(-1), q.log_softmax(-1)
    both = (F.kl_div(a, b, **kinds) + F.kl_div(b, a, **kinds)).sum(-1) / 2
    assert_close(losses.symmetric_kl(p, q), both)


def test_equal_predictions_do_not_diverge():
    assert losses.symmetric_kl(drawn(B, T, V), drawn(B, T, V) + 7).abs().max() < 1e-6


def test_a_draw_that_cost_less_than_the_baseline_becomes_likelier():
    log_p = torch.zeros(2, 1, requires_grad=True)
    cost = torch.tensor([1.0, 4.0], requires_grad=True)
    losses.reinforce(log_p, cost, torch.tensor(3.0)).sum().backward()
    assert log_p.grad.tolist() == [[-2.0], [1.0]]
    assert cost.grad is None


@pytest.mark.parametrize(
    "kept, expected", [([[True, False], [True, False]], 2.0), ([[False] * 2] * 2, 0.0)]
)
def test_a_mean_is_over_what_is_kept(kept, expected):
    assert (
        losses.masked_mean(torch.tensor([[1.0, 9.0], [3.0, 9.0]]), torch.tensor(kept)) == expected
    )
