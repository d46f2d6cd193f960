"""Recurrent layers beside PyTorch's own: packed and bidirectional, cell by cell."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from regard.layers.rnn import (
    RNNEncoder,
    RNNLayer,
    gather_at,
    init_weights,
    reverse_sequence,
    step_cells,
    unroll_cells,
)

B, S, E, W = 3, 5, 7, 4
LENGTHS = torch.tensor([2, 5, 1])
KINDS = {"gru": (nn.GRU, nn.GRUCell), "lstm": (nn.LSTM, nn.LSTMCell)}
either = pytest.mark.parametrize("cell", KINDS)


def packed(ours, cell, x):
    """What PyTorch's bidirectional net with the same weights makes of packed sentences."""
    theirs = KINDS[cell][0](E, W, batch_first=True, bidirectional=True).double()
    state = ours.forward_rnn.state_dict()
    state |= {f"{name}_reverse": weight for name, weight in ours.backward_rnn.state_dict().items()}
    theirs.load_state_dict(state)
    out, left = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    left = left[0] if cell == "lstm" else left
    return pad_packed_sequence(out, batch_first=True, total_length=S)[0], torch.cat([*left], -1)


@either
def test_both_directions_are_pytorchs_packed_ones_gradients_too(cell):
    ours, x = RNNLayer(E, W, cell=cell).double(), torch.randn(B, S, E, dtype=torch.float64)
    x.requires_grad_()
    found, expected = ours(x, LENGTHS), packed(ours, cell, x)
    assert_close(found, expected)
    grads = (torch.autograd.grad(a.sin().sum() + b.sum(), x)[0] for a, b in (found, expected))
    assert_close(next(grads), next(grads))


@either
def test_one_direction_is_half_as_wide_and_ends_at_the_lengths(cell):
    layer, x = RNNLayer(E, W, cell=cell, bidirectional=False), torch.randn(B, S, E)
    states, last = layer(x, LENGTHS)
    assert layer.backward_rnn is None and states.shape == (B, S, W)
    assert_close(states[1], layer.forward_rnn(x)[0][1])
    assert_close(last, torch.stack([states[0, 1], states[1, 4], states[2, 0]]))


def test_padding_is_zero_and_changes_nothing_else():
    layer, x = RNNLayer(E, W), torch.randn(B, S, E)
    states, last = layer(x, LENGTHS)
    assert not states[0, 2:].any() and not states[2, 1:].any()
    other = x.clone()
    other[0, 2:] = 9.0
    assert_close(layer(other, LENGTHS), (states, last), rtol=0, atol=0)


def test_turning_by_hand_and_twice_is_nothing():
    x = torch.arange(10).view(2, 5)
    there = reverse_sequence(x, torch.tensor([3, 5]))
    assert there.tolist() == [[2, 1, 0, 3, 4], [9, 8, 7, 6, 5]]
    assert torch.equal(reverse_sequence(there, torch.tensor([3, 5])), x)


def test_one_place_a_row():
    x = torch.arange(12.0).view(2, 3, 2)
    assert gather_at(x, torch.tensor([2, 0], dtype=torch.int32)).tolist() == [
        [4.0, 5.0],
        [6.0, 7.0],
    ]


def test_a_reversed_source_is_read_from_its_end_and_comes_out_in_its_own_order():
    plain = RNNEncoder(E, W, bidirectional=False)
    back = RNNEncoder(E, W, bidirectional=False, reversed=True)
    back.load_state_dict(plain.state_dict())
    x = torch.randn(B, S, E)
    memory, last = plain(reverse_sequence(x, LENGTHS), LENGTHS)
    assert_close(back(x, LENGTHS).memory, reverse_sequence(memory, LENGTHS))
    assert_close(back(x, LENGTHS).last, last)
    assert_close(back(x, LENGTHS).memory[:, 0], last[0])


def test_layers_stand_on_one_another_and_may_be_joined():
    encoder, x = RNNEncoder(E, W, layers=2, memory_width=W), torch.randn(B, S, E)
    memory, last = encoder(x, LENGTHS)
    low, first = encoder.layers[0](x, LENGTHS)
    high, second = encoder.layers[1](low, LENGTHS)
    assert_close(memory, high @ encoder.join.weight.T)
    assert_close(last, (first, second))
    assert not memory[2, 1:].any()


def test_dropout_stands_between_layers():
    for layers, same in ((1, True), (2, False)):
        encoder, x = RNNEncoder(E, W, layers=layers, dropout=0.5), torch.randn(B, S, E)
        assert torch.equal(encoder(x, LENGTHS).memory, encoder(x, LENGTHS).memory) == same


@either
def test_cells_all_at_once_are_cells_one_by_one(cell):
    kind, n = KINDS[cell][1], 2
    cells, nothing = nn.ModuleList([kind(E, W), kind(W, W)]), nn.Identity()
    hidden = tuple(torch.randn(B, W) for _ in range(n * (2 if cell == "lstm" else 1)))
    x, tops, now = torch.randn(B, S, E), [], hidden
    for part in x.unbind(1):
        now = step_cells(cells, part, now, nothing)
        tops.append(now[n - 1])
    assert len(now) == len(hidden)
    assert_close(unroll_cells(cells, x, hidden, nothing), torch.stack(tops, 1))


def test_a_step_by_hand():
    cells = nn.ModuleList([nn.LSTMCell(E, W), nn.LSTMCell(W, W)])
    x, (a, b, c, d) = torch.randn(B, E), torch.randn(4, B, W)
    low, kept = cells[0](x, (a, c))
    high, top = cells[1](3 * low, (b, d))
    assert_close(step_cells(cells, x, (a, b, c, d), lambda x: 3 * x), (low, high, kept, top))


def test_recurrent_matrices_begin_orthogonal_and_biases_at_zero():
    layer = RNNLayer(E, W, cell="lstm").apply(init_weights)
    for gate in layer.backward_rnn.weight_hh_l0.split(W):
        assert_close(gate @ gate.T, torch.eye(W), rtol=0, atol=1e-5)
    assert not layer.forward_rnn.bias_ih_l0.any()
