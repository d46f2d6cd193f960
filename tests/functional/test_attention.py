"""Attention itself: numbers by hand, its laws, and agreement with PyTorch's own."""

import math

import pytest
import torch
from torch.nn import functional as F

from regard import biases, rules, scores, selects
from regard.functional.attention import (
    attention,
    dense_bias,
    dense_mask,
    log_probability,
    logits,
    self_attention,
    weights,
    without_blind_queries,
    without_hidden_keys,
)

B, H, Q, K, D, DV = 2, 3, 5, 7, 11, 13


@pytest.fixture
def qkv():
    return torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, DV)


def test_attention_by_hand():
    q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[0.0], [math.log(3)]]]])
    v = torch.tensor([[[[4.0, 0.0], [8.0, 4.0]]]])
    out = attention(q, k, v, score=scores.dot)
    assert out.flatten().tolist() == pytest.approx([7.0, 3.0])


def test_attention_to_oneself_by_hand():
    x = torch.tensor([[[0.0], [1.0]]])
    e = math.e
    assert self_attention(x).flatten().tolist() == pytest.approx([0.5, e / (1 + e)])


def test_weights_by_hand():
    q, k = torch.ones(1, 1, 1, 4), torch.tensor([[[[0.0] * 4, [math.log(3) / 2] * 4]]])
    assert weights(q, k).flatten().tolist() == pytest.approx([0.25, 0.75])


def test_logits_by_hand():
    q, k = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0, 4.0], [5.0, 6.0]]]])
    found = logits(q, k, score=scores.dot, rule=rules.prefix(1), bias=torch.tensor([0.5, 0.5]))
    assert found.flatten().tolist() == [11.5, -math.inf]


@pytest.mark.parametrize("size", [0.0, 1e3, 1e9, -1e30])
def test_keys_that_are_alike_share_alike_however_large_their_scores(size):
    q = torch.tensor([[[[1.0]]]], requires_grad=True)
    k = torch.full((1, 1, 130, 1), size)
    found = log_probability(q, k, torch.tensor([[[3]]]), score=scores.dot)
    found.sum().backward()
    assert found.item() == pytest.approx(-math.log(130), abs=1e-6)
    # no key gains by another query; the sum of 130 equal terms may be off by its rounding
    assert abs(q.grad.item()) <= 1e-5 * abs(size)


def test_log_probability_by_hand():
    q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[0.0], [math.log(3)]]]])
    found = log_probability(q, k, torch.tensor([[[1]]]), score=scores.dot)
    assert found.item() == pytest.approx(math.log(0.75))


def test_visible_by_hand(qkv):
    q, k, _ = qkv
    assert dense_mask(q, k, None) is None
    assert dense_mask(q, k, rules.causal).shape == (1, 1, Q, K)
    assert dense_mask(q, k, rules.causal)[0, 0, :, -1].tolist() == [False] * 4 + [True]


def test_addend_is_as_small_as_can_be(qkv):
    q, k, _ = qkv
    bias = torch.ones(K)
    assert dense_bias(q, k, bias) is bias
    assert dense_bias(q, k, biases.alibi(H)).shape[-3:] == (H, Q, K)


def test_what_is_hidden_or_blind_is_zeroed_by_hand():
    x = torch.tensor([[[[1.0], [math.nan]]]])
    seen = torch.tensor([[[[True, False], [False, False]]]])
    assert without_hidden_keys(x, seen).flatten().tolist() == [1, 0]
    assert without_blind_queries(x, seen).flatten().tolist() == [1, 0]
    assert without_hidden_keys(x, None) is x and without_blind_queries(x, None) is x


def test_attention_is_pytorch_s(qkv):
    theirs = F.scaled_dot_product_attention(*qkv)
    assert torch.allclose(attention(*qkv), theirs, atol=1e-5)


def test_masked_attention_is_pytorch_s(qkv):
    mask, bias = torch.rand(B, 1, Q, K) < 0.8, torch.randn(H, Q, K)
    full = bias.expand(B, H, Q, K).masked_fill(~mask, -math.inf)
    theirs = F.scaled_dot_product_attention(*qkv, attn_mask=full)
    assert torch.allclose(attention(*qkv, rule=mask, bias=bias), theirs, atol=1e-5)


def test_equal_keys_read_the_mean(qkv):
    q, _, v = qkv
    out = attention(q, torch.ones(B, H, K, D), v)
    assert torch.allclose(out, v.mean(2, keepdim=True).expand(B, H, Q, DV), atol=1e-6)


def test_one_strong_key_is_looked_up_like_in_a_dictionary(qkv):
    _, k, v = qkv
    out = attention(100 * k, F.normalize(k, dim=-1) * 10, v, score=scores.dot)
    assert torch.allclose(out, v, atol=1e-3)


def test_a_row_that_sees_nothing_is_zero_forward_and_backward(qkv):
    q, k, v = (x.requires_grad_() for x in qkv)
    rule = torch.ones(Q, K).bool()
    rule[2] = False
    out = attention(q, k, v, rule=rule)
    out.sum().backward()
    assert out[:, :, 2].eq(0).all() and q.grad[:, :, 2].eq(0).all() and k.grad.isfinite().all()


def test_no_keys_read_zeros(qkv):
    q, k, v = qkv
    assert attention(q, k[:, :, :0], v[:, :, :0]).tolist() == torch.zeros(B, H, Q, DV).tolist()


def test_the_output_keeps_its_dtype_and_the_weights_are_wide(qkv):
    q, k, v = (x.half() for x in qkv)
    assert attention(q, k, v).dtype == torch.float16
    assert weights(q, k).dtype == torch.float32


def test_weights_of_every_select_go_through_the_same_scores(qkv):
    q, k, _ = qkv
    best = weights(q, k, select=selects.hard).argmax(-1)
    assert torch.equal(best, logits(q, k).argmax(-1))
