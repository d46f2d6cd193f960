"""The layer before the output, beside the formulas of the papers."""

import pytest
import torch
from torch.testing import assert_close

from regard.layers.readouts import AttentionalReadout, Readout

B, T, W, E, M, R = 2, 3, 7, 5, 4, 6


def some():
    return torch.randn(B, T, W), torch.randn(B, T, E), torch.randn(B, T, M)


def test_the_readout_is_the_better_of_two():
    read, (state, word, context) = Readout(W, E, M, R), some()
    both = state @ read.state.weight.T + read.state.bias
    both = both + word @ read.word.weight.T + context @ read.context.weight.T
    assert_close(read(state, word, context), torch.maximum(both[..., ::2], both[..., 1::2]))


def test_without_a_context_it_says_nothing():
    read, (state, word, context) = Readout(W, E, None, R), some()
    assert read.context is None
    assert torch.equal(read(state, word, context), read(state, word, 2 * context))


def test_one_context_serves_all_steps():
    read, (state, word, context) = Readout(W, E, M, R), some()
    once = context[:, :1]
    assert_close(read(state, word, once), read(state, word, once.expand(-1, T, -1)))


def test_attended_is_the_tanh_of_context_and_state():
    layer, (state, word, context) = AttentionalReadout(W, M, R), some()
    by_context, by_state = layer.both.weight.split([M, W], 1)
    expected = torch.tanh(context @ by_context.T + state @ by_state.T)
    assert_close(layer(state, word, context), expected)


@pytest.mark.parametrize("kind", [Readout, AttentionalReadout])
def test_dropout_is_for_training(kind):
    layer = (
        Readout(W, E, M, R, dropout=0.5)
        if kind is Readout
        else AttentionalReadout(W, M, R, dropout=0.5)
    )
    given = some()
    assert not torch.equal(layer(*given), layer(*given))
    layer.eval()
    assert torch.equal(layer(*given), layer(*given))
