"""Rows of many lengths become padded ones, and it is known where they end."""

import pytest
import torch

from regard.looking import nested_tensors

A, B = torch.randn(2, 3, 4), torch.randn(2, 5, 4)


def rows(layout):
    if layout is torch.strided:
        return torch.nested.nested_tensor([A, B])
    made = torch.nested.nested_tensor([A.transpose(0, 1), B.transpose(0, 1)], layout=layout)
    return made.transpose(1, 2)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_rows_are_padded_with_zeros_and_marked(layout):
    whole = nested_tensors.to_padded(rows(layout))
    assert torch.equal(whole[0, :, :3], A) and torch.equal(whole[1], B)
    assert not whole[0, :, 3:].any()
    assert nested_tensors.length_mask(rows(layout)).tolist() == [
        [True] * 3 + [False] * 2,
        [True] * 5,
    ]
