"""The gates of recurrent cells are those of PyTorch's own cells."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.layers import gates

B, IN, E = 5, 3, 4


def multiplied(cell, x, h):
    return F.linear(x, cell.weight_ih, cell.bias_ih), F.linear(h, cell.weight_hh, cell.bias_hh)


def test_a_gru_is_that_of_torch():
    cell, x, h = nn.GRUCell(IN, E), torch.randn(B, IN), torch.randn(B, E)
    expected = cell(x, h)
    ours = gates.gru(*multiplied(cell, x, h), h)
    assert_close(ours, expected)
    weights = tuple(cell.parameters())
    found = torch.autograd.grad(ours.sum(), weights)
    assert_close(found, torch.autograd.grad(expected.sum(), weights))
    with torch.no_grad():
        assert_close(gates.gru(*multiplied(cell, x, h), h), expected)


def test_an_lstm_is_that_of_torch():
    cell, x = nn.LSTMCell(IN, E), torch.randn(B, IN)
    h, c = torch.randn(2, B, E)
    expected = cell(x, (h, c))
    ours = gates.lstm(*multiplied(cell, x, h), c)
    assert_close(ours, expected)
    weights = tuple(cell.parameters())
    found = torch.autograd.grad(ours[0].sum() + ours[1].sum(), weights)
    assert_close(found, torch.autograd.grad(expected[0].sum() + expected[1].sum(), weights))
    with torch.no_grad():
        assert_close(gates.lstm(*multiplied(cell, x, h), c), expected)


def test_what_was_before_stays_as_it_was():
    h, c = torch.randn(2, B, E)
    kept = h.clone(), c.clone()
    gates.gru(torch.randn(B, 3 * E), torch.randn(B, 3 * E), h)
    gates.lstm(torch.randn(B, 4 * E), torch.randn(B, 4 * E), c)
    assert torch.equal(h, kept[0]) and torch.equal(c, kept[1])
