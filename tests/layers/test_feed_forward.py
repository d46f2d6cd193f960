"""Each token is thought about on its own."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.layers import FeedForward

B, Q, E, INNER = 2, 5, 7, 11


def test_by_hand():
    layer = FeedForward(1, 2)
    with torch.no_grad():
        layer.inner.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        layer.inner.bias.copy_(torch.tensor([1.0, 0.0]))
        layer.out.weight.copy_(torch.tensor([[10.0, 100.0]]))
        layer.out.bias.fill_(3.0)
    # relu(2 + 1) · 10 + relu(−2) · 100 + 3, and relu(−2 + 1) · 10 + relu(2) · 100 + 3
    assert layer(torch.tensor([[2.0], [-2.0]])).flatten().tolist() == [33.0, 203.0]


def test_it_is_two_linear_layers_around_the_activation():
    layer, x = FeedForward(E, INNER, activation=F.gelu), torch.randn(B, Q, E)
    assert_close(layer(x), nn.Sequential(layer.inner, nn.GELU(), layer.out)(x))


def test_tokens_do_not_meet():
    layer, x = FeedForward(E, INNER), torch.randn(B, Q, E)
    assert_close(layer(x)[:, 3:4], layer(x[:, 3:4]))


def test_dropout_is_for_training():
    layer, x = FeedForward(E, INNER, dropout=0.5), torch.randn(B, Q, E)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
