"""The embedding of one step is the row of a table, scaled, with the position added."""

import torch
from torch.testing import assert_close

from regard.fast_decode.embedding import embed_at_position, embed_at_step, position_table
from regard.layers.positions import Learned, Sinusoidal

Q, E = 5, 6


def test_a_token_at_a_position_is_what_the_layer_gives():
    tokens, table, layer = torch.tensor([3, 0]), torch.randn(4, E), Sinusoidal(E)
    rows = position_table(layer, Q, table)
    for position in range(Q):
        expected = layer(2 * table[tokens][:, None], start=position)[:, 0]
        at = torch.tensor(position)
        assert_close(embed_at_position(tokens, table, rows, at, scale=2.0), expected)
        assert_close(embed_at_step(tokens, table, rows, position, scale=2.0), expected)


def test_learned_positions_are_not_prepared():
    assert position_table(Learned(Q, E), Q, torch.zeros(1)) is None
