"""Weights that a model formed by itself are a call of ours, whatever form they have."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import look
from regard.functional import attention as plain
from regard.looking.eager_calls import (
    CellLayout,
    SoftmaxWithSinks,
    head_count,
    weights_source,
    with_sink_columns,
)

B, H, Q, K = 2, 3, 5, 7


def eagerly(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize("shape, heads, batches, four", [
    ((Q, K), None, (), (1, 1, Q, K)),
    ((B, Q, K), None, (), (B, 1, Q, K)),
    ((B * H, Q, K), H, (B,), (B, H, Q, K)),
    ((B * H, Q, K), H, (), (B * H, 1, Q, K)),
    ((B, H, Q, K), H, (B,), (B, H, Q, K)),
    ((B, Q, H, K), H, (B,), (B, H, Q, K)),
    ((B, 4, H, Q, K), H, (B,), (4 * B, H, Q, K)),
    ((B, H, 4, Q, K), H, (B,), (4 * B, H, Q, K)),
    ((B, H, 4, Q, K), None, (B,), (B * H, 4, Q, K)),
    ((H, B, Q, K), H, (B,), (B, H, Q, K)),
    ((B * H, 4, Q, K), H, (B,), (4 * B, H, Q, K)),
], ids=str)  # fmt: skip
def test_cells_of_any_form_are_batch_heads_queries_and_keys_and_back(shape, heads, batches, four):
    x = torch.randn(shape)
    layout = CellLayout.from_shape(x.shape, heads, batches)
    assert layout.to_bhqk(x).shape == four and torch.equal(layout.from_bhqk(layout.to_bhqk(x)), x)


def test_a_call_of_weights_that_ran_has_these_very_weights():
    weights = torch.rand(B, H, Q, K)
    made = weights_source(weights, CellLayout.from_shape(weights.shape, H, (B,)), (1, 4))
    call = made.make(*made.tensors)
    assert call.sizes == (B, H, Q, 3)
    found = plain.weights(call.q, call.k, score=call.score, select=call.select)
    assert torch.equal(found, weights[..., 1:4])


def test_sinks_take_their_part_of_a_softmax():
    scores, sinks = torch.randn(B, H, Q, K), torch.randn(B, H, Q, 2)
    found = SoftmaxWithSinks(sinks)(scores)
    whole = torch.cat([scores, sinks], -1).softmax(-1)
    torch.testing.assert_close(found, whole[..., :K])
    torch.testing.assert_close(with_sink_columns(found, (2, K + 2), K + 2)[..., 2:], found)
    torch.testing.assert_close(with_sink_columns(found, (0, K), K + 2).sum(-1), torch.ones(B, H, Q))


def test_a_module_says_how_many_heads_it_has():
    layer = torch.nn.MultiheadAttention(12, 3)
    assert head_count(layer) == 3 and head_count(torch.nn.Linear(2, 2)) is None


@pytest.mark.parametrize("attends", [F.scaled_dot_product_attention, eagerly])
def test_a_module_that_cannot_say_how_many_heads_it_has_runs_as_ever(attends):
    class Lazy(nn.Module):
        @property
        def num_heads(self):
            raise RuntimeError("not known yet")

        def forward(self, x):
            return attends(x, x, x)

    x = torch.randn(2, 3, 5, 4)
    with look(model := Lazy()) as seen:
        out = model(x)
    assert torch.equal(out, attends(x, x, x)) and seen["Lazy"].sizes == (2, 3, 5, 5)
