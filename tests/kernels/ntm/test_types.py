"""The orders of a machine: how many there are, and which is which."""

import torch

from regard.kernels.ntm.types import Sizes

SIZES = Sizes(reads=2, writes=1, cell=2, shifts=3)


def test_orders_are_counted_by_hand():
    # three keys and one vector to add; one to erase and three gates; three β and three γ; shifts
    assert SIZES.activation_sizes == [8, 2 + 3, 6, 9]
    assert (SIZES.heads, SIZES.num_head_parameters) == (3, 28)


def test_orders_are_told_apart_by_hand():
    key, add, erase, gate, strength, sharpness, shift = SIZES.split_head_parameters(
        torch.arange(28)[None]
    )
    assert key.tolist() == [[[0, 1], [2, 3], [4, 5]]]
    assert (add.tolist(), erase.tolist()) == ([[[6, 7]]], [[[8, 9]]])
    assert (gate.tolist(), strength.tolist()) == ([[10, 11, 12]], [[13, 14, 15]])
    assert sharpness.tolist() == [[16, 17, 18]]
    assert shift.tolist() == [[[19, 20, 21], [22, 23, 24], [25, 26, 27]]]


def test_parts_are_views_so_that_a_bias_can_be_filled():
    told = torch.zeros(1, SIZES.num_head_parameters)
    for part in SIZES.split_head_parameters(told):
        part += 1
    assert (told == 1).all()
