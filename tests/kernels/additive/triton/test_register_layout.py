"""Slots: every pair of a query and a key has its place, and rows find together."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard.kernels.additive.plan import Tile
from regard.kernels.additive.triton.register_layout import (
    row_max,
    row_sum,
    slot_indices,
    slots_to_rows,
    slots_to_tile,
)
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED

TILES = [Tile(1, 1, 1, 1), Tile(1, 2, 1, 1), Tile(2, 1, 1, 1), Tile(2, 2, 2, 2), Tile(1, 4, 2, 1)]


@triton.jit
def _spread(to_ptr, B: tl.constexpr, H: tl.constexpr, Q: tl.constexpr, K: tl.constexpr):
    """Each pair's number, flat; then the number of the last pair of each row and the row's sum."""
    row, col = slot_indices(B, H, Q, K)
    R: tl.constexpr = B * Q * 16
    C: tl.constexpr = H * K * 16
    pair = (row * C + col).to(tl.float32)
    at = tl.arange(0, R)
    to = at[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(to_ptr + to, slots_to_tile(pair, B, H, Q, K))
    tl.store(to_ptr + R * C + at, slots_to_rows(row_max(pair, B, H), B, H, Q))
    tl.store(to_ptr + R * C + R + at, slots_to_rows(row_sum(pair, B, H), B, H, Q))


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_pair_has_its_place(tile):
    R, C = tile.rows, tile.keys
    to = torch.empty(R * C + 2 * R)
    _spread[(1,)](to, *tile)
    pairs = torch.arange(R * C, dtype=torch.float32).view(R, C)
    assert torch.equal(to[: R * C].view(R, C), pairs)
    assert torch.equal(to[R * C : R * C + R], pairs.amax(1))
    torch.testing.assert_close(to[R * C + R :], pairs.sum(1))
