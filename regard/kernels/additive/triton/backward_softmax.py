"""Additive attention backward, a band of queries at a time: the weights again, and their slope.

The weights are made to sum to one, so that a row's gradients sum to zero: otherwise what rounding
left of them would show where everything else cancels.

The twin is autograd through `regard.functional.attention`; `backward_tanh.py` has the last step.
The steps and their algebra: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.masks import (
    can_share_document,
    masked_tile_scores,
    visible_key_range,
)
from regard.kernels.additive.triton.memory import load1
from regard.kernels.additive.triton.pack import LOG2E
from regard.kernels.additive.triton.register_layout import row_max, slot_indices, slots_to_tile
from regard.kernels.additive.triton.scores import dot_add


# fmt: off
@triton.jit
def tile_weights_and_grads(
    q_ptr, k_ptr, v_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
    lse_ptr, d_out_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    bh, base, rows, tile, start, H, group_size, Q, K, D, E, groups, back, ahead, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr, CHUNK: tl.constexpr,
    PRECISION: tl.constexpr, ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """The weights of one tile (BQ, BK) and, where values are read, their gradient.

    Without `lse` a row's largest weight is one.
    """
    # fmt: on
    b, h = bh // H, bh % H
    r, key = tile + tl.arange(0, WR * MT * 16), start + tl.arange(0, WC * NP * 16)
    row, col = slot_indices(WR, WC, MT, NP)
    s = masked_tile_scores(
        q_ptr, k_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
        first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
        bh, base, rows, tile, start, row, col, H, group_size, Q, K, D, groups, back, ahead,
        ids_stride, q_strides, k_strides, mask_strides, bias_strides,
        WR, WC, MT, NP, ALIGNED, PTX,
    )  # fmt: skip
    if lse_ptr is None:
        lse = row_max(s, WR, WC)
    else:
        lse = load1(lse_ptr + bh * Q + tl.minimum(base + tile + row, Q - 1), PTX)
    # a blind row has weighed nothing, and a key that is not seen weighs nothing
    lse = tl.where(tile + row < rows, lse, -float("inf"))
    weighs = (s != -float("inf")) & (lse != -float("inf"))
    p = tl.where(weighs, tl.exp2((s - tl.where(weighs, lse, 0.0)) * LOG2E), 0.0)
    weights = slots_to_tile(p, WR, WC, MT, NP)
    slopes = tl.zeros_like(weights)
    if v_ptr is not None:
        v_ptr += b * v_strides[0] + (h // group_size) * v_strides[1]
        for c in range(0, E, CHUNK):
            e = c + tl.arange(0, CHUNK)
            d_out = load_d_out(d_out_ptr, bh * Q + base, r, e, rows, E)
            at = v_ptr + key[:, None].to(tl.int64) * v_strides[2] + e[None, :]
            v = tl.load(at, mask=(key < K)[:, None] & (e < E)[None, :], other=0)
            slopes = dot_add(d_out, v.trans(1, 0), slopes, PRECISION, PTX)
        slopes = tl.where(weights > 0, slopes, 0.0)
    return weights, slopes


@triton.jit
def load_d_out(d_out_ptr, first, r, e, rows, E):
    """The gradient of what rows r read, numbers e of it."""
    at = d_out_ptr + (first + r[:, None]) * E + e[None, :]
    return tl.load(at, mask=(r < rows)[:, None] & (e < E)[None, :], other=0)


@triton.jit
def softmax_backward(weights, grads, r, key, index_ptr, d_out_ptr, first, rows):
    """Weights that sum to one and the gradient of the scores, where all keys are in one tile."""
    weights /= _nonzero_total(tl.sum(weights, 1))[:, None]
    if index_ptr is None:
        # less their mean, and once more what rounding left of it: equal ones have no slope
        grads -= tl.sum(weights * grads, 1)[:, None]
        grads = weights * (grads - tl.sum(weights * grads, 1)[:, None])
    else:
        grads = _log_probability_grads(
            weights, r[:, None], key[None, :], index_ptr, d_out_ptr, first, rows
        )
    return weights, grads


# fmt: off
@triton.jit(do_not_specialize=["base", "rows"])
def weights_bwd_kernel(
    q_ptr, k_ptr, v_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
    lse_ptr, index_ptr, d_out_ptr, p_ptr, g_ptr, sums_ptr,
    first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    base, rows, H, group_size, Q, K, D, E, R, groups, back, ahead, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr, CHUNK: tl.constexpr,
    PRECISION: tl.constexpr, ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """Weights and, where values are read, their gradient: (K, R) of a band of queries.

    And what both add up to in each row, (key tiles, 2, R). Without `sums_ptr` all keys are in one
    tile: then it is the gradient of the scores at once.
    """
    # fmt: on
    BQ: tl.constexpr = WR * MT * 16
    BK: tl.constexpr = WC * NP * 16
    start, tile = tl.program_id(0) * BK, tl.program_id(1) * BQ
    bh = tl.program_id(2).to(tl.int64)
    r, key = tile + tl.arange(0, BQ), start + tl.arange(0, BK)
    lowest, end = visible_key_range(
        base + tile, BQ, bh // H, Q, K, back, ahead, first_ptr, last_ptr
    )
    visit = (start < end) & (start + BK > lowest) & (tile < rows)
    if ids_ptr is not None:
        visit &= can_share_document(base + tile, start, bh // H, Q, K, ids_ptr, ids_stride, BQ, BK)
    weights, slopes = tl.zeros([BQ, BK], tl.float32), tl.zeros([BQ, BK], tl.float32)
    if visit:
        weights, slopes = tile_weights_and_grads(
            q_ptr, k_ptr, v_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
            lse_ptr, d_out_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
            bh, base, rows, tile, start, H, group_size, Q, K, D, E, groups, back, ahead, ids_stride,
            q_strides, k_strides, v_strides, mask_strides, bias_strides,
            WR, WC, MT, NP, CHUNK, PRECISION, ALIGNED, PTX,
        )  # fmt: skip
    if sums_ptr is None:
        weights, slopes = softmax_backward(
            weights, slopes, r, key, index_ptr, d_out_ptr, bh * Q + base, rows
        )
    else:
        sums_ptr += (bh * tl.num_programs(0) + tl.program_id(0)) * 2 * R + r
        tl.store(sums_ptr, tl.sum(weights, 1), mask=r < R)
        tl.store(sums_ptr + R, tl.sum(weights * slopes, 1), mask=r < R)
    to = (bh * K + key)[None, :] * R + r[:, None]  # (BQ, BK)
    fits = (r < R)[:, None] & (key < K)[None, :]
    tl.store(p_ptr + to, weights.to(p_ptr.dtype.element_ty), mask=fits)
    if index_ptr is None or sums_ptr is None:
        tl.store(g_ptr + to, slopes, mask=fits)


@triton.jit
def _nonzero_total(total):
    """What weights add up to; one in a row where none does."""
    return tl.where(total > 0, total, 1.0)


@triton.jit
def _log_probability_grads(p, r, key, index_ptr, d_chosen_ptr, first, rows):
    """The gradient of the scores of rows r and some keys, if the log weight `at` one is asked."""
    index = tl.load(index_ptr + first + r, mask=r < rows, other=-1)
    d_chosen = tl.load(d_chosen_ptr + first + r, mask=r < rows, other=0).to(tl.float32)
    return d_chosen * (tl.where(key == index, 1.0, 0.0) - p)


# fmt: off
@triton.jit(do_not_specialize=["base", "rows"])
def softmax_bwd_kernel(
    p_ptr, g_ptr, sums_ptr, half_ptr, index_ptr, d_chosen_ptr, base, rows, tiles, Q, K, R,
    ROWS: tl.constexpr, BK: tl.constexpr, TILES: tl.constexpr,
):
    """Softmax backward: `p (d_p − Σ p d_p)` in place of d_p, or `d_chosen (1 at index − p)`."""
    # fmt: on
    bh = tl.program_id(2).to(tl.int64)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[None, :]
    total, mean = tl.zeros([1, ROWS], tl.float32), tl.zeros([1, ROWS], tl.float32)
    for first in range(0, tiles, TILES):
        tile = first + tl.arange(0, TILES)[:, None]
        at, fits = sums_ptr + (bh * tiles + tile) * 2 * R + r, (tile < tiles) & (r < R)
        total += tl.sum(tl.load(at, mask=fits, other=0), 0)[None, :]
        mean += tl.sum(tl.load(at + R, mask=fits, other=0), 0)[None, :]
    total = _nonzero_total(total)
    j = tl.program_id(0) * BK + tl.arange(0, BK)[:, None]
    at, fits = (bh * K + j) * R + r, (j < K) & (r < R)
    p = tl.load(p_ptr + at, mask=fits, other=0) / total
    if index_ptr is not None:
        g = _log_probability_grads(p, r, j, index_ptr, d_chosen_ptr, bh * Q + base, rows)
    else:
        g = p * (tl.load(g_ptr + at, mask=fits, other=0) - mean / total)
        tl.store(half_ptr + at, p.to(half_ptr.dtype.element_ty), mask=fits)
    tl.store(g_ptr + at, g, mask=fits)
