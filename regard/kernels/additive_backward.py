"""Additive attention backward, a band of queries at a time: the weights again, and their slope.

The twin is autograd through `regard.functional.attention`; `additive_descent.py` has the last step.
The steps and their algebra: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive_rules import meet, seen_scores, span
from regard.kernels.additive_scores import LOG2E, load1, product
from regard.kernels.additive_slots import flat, places


# fmt: off
@triton.jit(do_not_specialize=["base", "rows"])
def weigh(
    q_ptr, k_ptr, v_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
    lse_ptr, d_out_ptr, p_ptr, g_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    base, rows, H, share, Q, K, D, E, R, groups, back, ahead, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr, CHUNK: tl.constexpr,
    PRECISION: tl.constexpr, ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """Weights and, where values are read, their gradient: (K, R) of a band of queries."""
    # fmt: on
    BQ: tl.constexpr = WR * MT * 16
    BK: tl.constexpr = WC * NP * 16
    start, tile = tl.program_id(0) * BK, tl.program_id(1) * BQ
    bh = tl.program_id(2).to(tl.int64)
    b, h = bh // H, bh % H
    r, key = tile + tl.arange(0, BQ), start + tl.arange(0, BK)
    to = (bh * K + key)[None, :] * R + r[:, None]  # (BQ, BK)
    fits = (r < R)[:, None] & (key < K)[None, :]
    lowest, end = span(base + tile, BQ, b, Q, K, back, ahead, first_ptr, last_ptr)
    visit = (start < end) & (start + BK > lowest) & (tile < rows)
    if ids_ptr is not None:
        visit &= meet(base + tile, start, b, Q, K, ids_ptr, ids_stride, BQ, BK)
    weights, d_weights = tl.zeros([BQ, BK], tl.float32), tl.zeros([BQ, BK], tl.float32)
    if visit:
        row, col = places(WR, WC, MT, NP)
        s = seen_scores(
            q_ptr, k_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
            first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
            bh, base, rows, tile, start, row, col, H, share, Q, K, D, groups, back, ahead,
            ids_stride, q_strides, k_strides, mask_strides, bias_strides,
            WR, WC, MT, NP, ALIGNED, PTX,
        )  # fmt: skip
        lse = load1(lse_ptr + bh * Q + tl.minimum(base + tile + row, Q - 1), PTX)
        # a blind row has weighed nothing, and a key that is not seen weighs nothing
        lse = tl.where(tile + row < rows, lse, -float("inf"))
        weighs = (s != -float("inf")) & (lse != -float("inf"))
        p = tl.where(weighs, tl.exp2((s - tl.where(weighs, lse, 0.0)) * LOG2E), 0.0)
        weights = flat(p, WR, WC, MT, NP)
        if v_ptr is not None:
            v_ptr += b * v_strides[0] + (h // share) * v_strides[1]
            d_out_ptr += (bh * Q + base) * E
            for c in range(0, E, CHUNK):
                e = c + tl.arange(0, CHUNK)
                at = d_out_ptr + r[:, None].to(tl.int64) * E + e[None, :]
                d_out = tl.load(at, mask=(r < rows)[:, None] & (e < E)[None, :], other=0)
                at = v_ptr + key[:, None].to(tl.int64) * v_strides[2] + e[None, :]
                v = tl.load(at, mask=(key < K)[:, None] & (e < E)[None, :], other=0)
                d_weights = product(d_out, v.trans(1, 0), d_weights, PRECISION, PTX)
            d_weights = tl.where(weights > 0, d_weights, 0.0)
    tl.store(p_ptr + to, weights, mask=fits)
    if v_ptr is not None:
        tl.store(g_ptr + to, d_weights, mask=fits)


# fmt: off
@triton.jit(do_not_specialize=["base", "rows"])
def slope(
    p_ptr, g_ptr, half_ptr, index_ptr, d_chosen_ptr, base, rows, Q, K, R,
    ROWS: tl.constexpr, BK: tl.constexpr,
):
    """Softmax backward: `p (d_p − Σ p d_p)` in place of d_p, or `d_chosen (1 at index − p)`.

    The weights are made to sum to one first, so that a row's gradients sum to zero: otherwise what
    rounding left of them would show where everything else cancels.
    """
    # fmt: on
    bh = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total, mean = tl.zeros([BK, ROWS], tl.float32), tl.zeros([BK, ROWS], tl.float32)
    for start in range(0, K, BK):
        j = start + tl.arange(0, BK)
        at = (bh * K + j)[:, None] * R + r[None, :]
        fits = (j < K)[:, None] & (r < R)[None, :]
        p = tl.load(p_ptr + at, mask=fits, other=0)
        total += p
        if index_ptr is None:
            mean += p * tl.load(g_ptr + at, mask=fits, other=0)
    total = tl.sum(total, 0)[None, :]
    total = 1 / tl.where(total > 0, total, 1.0)
    mean = tl.sum(mean, 0)[None, :] * total
    if index_ptr is not None:
        here = (r < rows) & (base + r < Q)
        index = tl.load(index_ptr + bh * Q + base + r, mask=here, other=-1)[None, :]
        d_chosen = tl.load(d_chosen_ptr + bh * Q + base + r, mask=here, other=0)
        d_chosen = d_chosen.to(tl.float32)[None, :]
    for start in range(0, K, BK):
        j = start + tl.arange(0, BK)
        at = (bh * K + j)[:, None] * R + r[None, :]
        fits = (j < K)[:, None] & (r < R)[None, :]
        p = tl.load(p_ptr + at, mask=fits, other=0) * total
        if index_ptr is not None:
            g = d_chosen * (tl.where(j[:, None] == index, 1.0, 0.0) - p)
        else:
            g = p * (tl.load(g_ptr + at, mask=fits, other=0) - mean)
            tl.store(half_ptr + at, p.to(half_ptr.dtype.element_ty), mask=fits)
        tl.store(g_ptr + at, g, mask=fits)
