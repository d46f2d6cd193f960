"""Loads by hand: four words side by side, and one number of any width."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard.kernels.additive.triton.memory import load1, load4
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED


@triton.jit
def _four(x_ptr, to_ptr):
    a, b, c, d = load4(x_ptr + tl.arange(0, 4) * 4, False)
    tl.store(to_ptr + tl.arange(0, 4), a + 10 * b + 100 * c + 1000 * d)


@triton.jit
def _one(x_ptr, to_ptr):
    at = tl.arange(0, 8)
    tl.store(to_ptr + at, load1(x_ptr + 7 - at, False))


def test_four_words_are_neighbours():
    found = torch.empty(4, dtype=torch.int32)
    _four[(1,)](torch.arange(16, dtype=torch.int32) % 10, found)
    assert found.tolist() == [3210, 7654, 1098, 5432]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64], ids=str)
def test_one_number_of_any_width_is_found_where_it_is_wanted(dtype):
    found = torch.empty(8, dtype=dtype)
    _one[(1,)](torch.arange(8).to(dtype), found)
    assert found.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
