"""How a tile of scores lies in registers: in slots (row half, key slot, MT, NP, thread).

That is where tensor cores leave 16 queries × 8 keys: a thread has two rows and two neighbouring
keys. A program has WR × WC warps along queries and keys, each with MT × NP such tiles of 16 × 16.
Triton gives the last axis to threads and the others to registers, so nothing has to be moved.
"""

import triton
import triton.language as tl


@triton.jit
def _arange_along(n: tl.constexpr, at: tl.constexpr):
    """0 to n - 1 along one axis of five."""
    x = tl.arange(0, n)
    for axis in tl.static_range(5):
        if axis != at:
            x = tl.expand_dims(x, axis)
    return x


@triton.jit
def slot_indices(WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr):
    """The row (2, 1, MT, 1, T) and the column (1, 4, 1, NP, T) of each slot within a tile."""
    thread = _arange_along(WR * WC * 32, 4)
    warp, lane = thread // 32, thread % 32
    slot = _arange_along(4, 1)
    row = ((warp // WC) * MT + _arange_along(MT, 2)) * 16 + _arange_along(2, 0) * 8 + lane // 4
    col = (
        (((warp % WC) * NP + _arange_along(NP, 3)) * 2 + slot // 2) * 8 + (lane % 4) * 2 + slot % 2
    )
    return row, col


@triton.jit
def slots_to_tile(x, WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr):
    """A tile from slots to (rows, keys)."""
    x = x.reshape([2, 2, 2, MT, NP, WR, WC, 8, 4])  # half, n-tile, parity, …, lane
    return x.permute(5, 3, 0, 7, 6, 4, 1, 8, 2).reshape([WR * MT * 16, WC * NP * 16])


@triton.jit
def slots_to_rows(x, WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr):
    """What each row has, (2, 1, MT, 1, T) the same in all threads of a row, as (rows,)."""
    x = tl.max(tl.max(x.reshape([2, MT, WR, WC, 8, 4]), 5), 3)  # (2, MT, WR, 8)
    return x.permute(2, 1, 0, 3).reshape([WR * MT * 16])


@triton.jit
def row_max(x, WR: tl.constexpr, WC: tl.constexpr):
    """The largest of each row, in all threads of that row."""
    x = tl.max(tl.max(x, 1, keep_dims=True), 3, keep_dims=True)  # (2, 1, MT, 1, T)
    MT: tl.constexpr = x.shape[2]
    each = tl.max(tl.max(x.reshape([2, MT, WR, WC, 8, 4]), 5, keep_dims=True), 3, keep_dims=True)
    return tl.broadcast_to(each, [2, MT, WR, WC, 8, 4]).reshape(x.shape)


@triton.jit
def row_sum(x, WR: tl.constexpr, WC: tl.constexpr):
    """The sum of each row, in all threads of that row."""
    x = tl.sum(tl.sum(x, 1, keep_dims=True), 3, keep_dims=True)
    MT: tl.constexpr = x.shape[2]
    each = tl.sum(tl.sum(x.reshape([2, MT, WR, WC, 8, 4]), 5, keep_dims=True), 3, keep_dims=True)
    return tl.broadcast_to(each, [2, MT, WR, WC, 8, 4]).reshape(x.shape)
