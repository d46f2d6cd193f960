"""Additive attention forward: tile by tile with an online softmax, and split over keys to decode.

The twin is `regard.functional.attention` with `scores.Additive` and `selects.softmax`.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.masks import (
    can_share_document,
    masked_scores,
    masked_tile_scores,
    visible_key_range,
)
from regard.kernels.additive.triton.memory import load1
from regard.kernels.additive.triton.pack import LOG2E
from regard.kernels.additive.triton.register_layout import (
    row_max,
    row_sum,
    slot_indices,
    slots_to_rows,
    slots_to_tile,
)
from regard.kernels.additive.triton.scores import dot_add, reciprocal, tanh


# fmt: off
@triton.jit(do_not_specialize=["base", "rows"])
def additive_fwd_kernel(
    q_ptr, k_ptr, v_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr, index_ptr,
    out_ptr, lse_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    base, rows, H, group_size, Q, K, D, E, groups, back, ahead, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr, DV: tl.constexpr,
    UNEVEN: tl.constexpr, PRECISION: tl.constexpr, ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """What each query reads, or the log of its weight at `index`; the log-sum-exp, if wanted.

    Runs over `rows` queries from `base` on; the factors u are those of these rows.
    """
    # fmt: on
    BQ: tl.constexpr = WR * MT * 16
    BK: tl.constexpr = WC * NP * 16
    if UNEVEN:
        # the last tiles of all heads first: under a causal rule they see most
        tile = (tl.num_programs(1) - 1 - tl.program_id(1)) * BQ
        bh = tl.program_id(0).to(tl.int64)
    else:
        # head after head, so that programs at work at one time share keys
        tile, bh = tl.program_id(0) * BQ, tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    row, col = slot_indices(WR, WC, MT, NP)
    i = base + tile + row
    top = tl.full([2, 1, MT, 1, WR * WC * 32], -float("inf"), tl.float32)
    total, picked = tl.zeros_like(top), top
    out = tl.zeros([BQ, DV], tl.float32)
    lowest, end = visible_key_range(base + tile, BQ, b, Q, K, back, ahead, first_ptr, last_ptr)
    for start in range(lowest // BK * BK, end, BK):
        visit = True
        if ids_ptr is not None:
            visit = can_share_document(base + tile, start, b, Q, K, ids_ptr, ids_stride, BQ, BK)
        if visit:
            s = masked_tile_scores(
                q_ptr, k_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
                first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
                bh, base, rows, tile, start, row, col, H, group_size, Q, K, D, groups, back, ahead,
                ids_stride, q_strides, k_strides, mask_strides, bias_strides,
                WR, WC, MT, NP, ALIGNED, PTX,
            )  # fmt: skip
            new = tl.maximum(top, row_max(s, WR, WC))
            # a row that has seen nothing yet has the peak −inf: anything finite does instead
            peak = tl.where(new == -float("inf"), 0.0, new)
            p = tl.exp2((s - peak) * LOG2E)
            shrink = tl.exp2((top - peak) * LOG2E)
            total = total * shrink + row_sum(p, WR, WC)
            top = new
            if index_ptr is not None:
                index = load1(index_ptr + bh * Q + tl.minimum(i, Q - 1), PTX)
                chosen = tl.where(start + col == index, s, -float("inf"))
                picked = tl.maximum(picked, row_max(chosen, WR, WC))
            else:
                weights = slots_to_tile(p, WR, WC, MT, NP)
                key, e = start + tl.arange(0, BK), tl.arange(0, DV)
                # a value that nobody here sees may be anything, even NaN
                there = (key < K) & (tl.max(weights, 0) > 0)
                at = v_ptr + b * v_strides[0] + (h // group_size) * v_strides[1]
                at = at + key.to(tl.int64)[:, None] * v_strides[2] + e[None, :]
                v = tl.load(at, mask=there[:, None] & (e < E)[None, :], other=0)
                out *= slots_to_rows(shrink, WR, WC, MT)[:, None]
                out = dot_add(weights.to(v.dtype), v, out, PRECISION, PTX)
    seen = total != 0
    lse = tl.where(seen, top + tl.log(tl.where(seen, total, 1.0)), -float("inf"))
    here = (i < Q) & (tile + row < rows)
    if lse_ptr is not None:
        tl.store(lse_ptr + bh * Q + i, lse, mask=here)
    if index_ptr is not None:
        picked = tl.where(picked == -float("inf"), picked, picked - lse)
        tl.store(out_ptr + bh * Q + i, picked, mask=here)
    else:
        inverse = slots_to_rows(tl.where(seen, 1 / tl.where(seen, total, 1.0), 0.0), WR, WC, MT)
        r, e = tile + tl.arange(0, BQ), tl.arange(0, DV)
        at = out_ptr + (bh * Q + base + r)[:, None] * E + e[None, :]
        fits = (r < rows)[:, None] & (e < E)[None, :]
        tl.store(at, (out * inverse[:, None]).to(out_ptr.dtype.element_ty), mask=fits)


# fmt: off
@triton.jit
def decode_fwd_kernel(
    q_ptr, k_ptr, v_ptr, vector_ptr, out_ptr, lse_ptr, parts_ptr,
    first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    H, group_size, Q, K, D, E, back, ahead, keys, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    BK: tl.constexpr, BD: tl.constexpr, DV: tl.constexpr, STAGES: tl.constexpr,
    WHOLE: tl.constexpr, HIDES: tl.constexpr, EXACT: tl.constexpr, PTX: tl.constexpr,
):
    """What one query reads from `keys` keys, the program's share; all of it if nothing is shared.

    Parts are (programs, queries, 1 + Dv): log-sum-exp, then what was read. WHOLE rows fill their
    blocks; a rule that HIDES keys may hide NaN.
    """
    # fmt: on
    n = tl.program_id(1).to(tl.int64)
    bh, i = n // Q, n % Q
    b, h = bh // H, bh % H
    d, e = tl.arange(0, BD), tl.arange(0, DV)
    q_ptr += b * q_strides[0] + h * q_strides[1] + i * q_strides[2]
    q = tl.load(q_ptr + d, mask=d < D, other=0).to(tl.float32)[None, :]
    vector = tl.load(vector_ptr + h * D + d, mask=d < D, other=0).to(tl.float32)[None, :]
    if not EXACT:
        # what is the same for all keys of `shifted_tanh` is done before
        q, vector = q * (2 * LOG2E), -2 * vector
    k_ptr += b * k_strides[0] + (h // group_size) * k_strides[1]
    v_ptr += b * v_strides[0] + (h // group_size) * v_strides[1]
    top, total = -float("inf"), 0.0
    out = tl.zeros([DV], tl.float32)
    lowest, end = visible_key_range(i, 1, b, Q, K, back, ahead, first_ptr, last_ptr)
    lowest = tl.maximum(lowest, tl.program_id(0) * keys)
    end = tl.minimum(end, tl.program_id(0) * keys + keys)
    for start in tl.range(lowest, end, BK, num_stages=STAGES):
        j = start + tl.arange(0, BK)
        at, there = j.to(tl.int64)[:, None], (j < end)[:, None]
        has_k = there if WHOLE else there & (d < D)[None, :]
        has_v = there if WHOLE else there & (e < E)[None, :]
        k = tl.load(k_ptr + at * k_strides[2] + d[None, :], mask=has_k, other=0).to(tl.float32)
        v = tl.load(v_ptr + at * v_strides[2] + e[None, :], mask=has_v, other=0).to(tl.float32)
        if EXACT:
            s = tl.sum(vector * tanh(q + k, PTX), 1)
        else:
            s = tl.sum(vector * reciprocal(tl.exp2(k * (2 * LOG2E) + q) + 1, PTX), 1)
        s = masked_scores(
            tl.where(j < end, s, -float("inf")), b, h, i, j, Q, K, back, ahead, first_ptr, last_ptr,
            ids_ptr, ids_stride, mask_ptr, mask_strides, bias_ptr, bias_strides, PTX,
        )  # fmt: skip
        new = tl.maximum(top, tl.max(s, 0))
        peak = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp2((s - peak) * LOG2E)
        shrink = tl.exp2((top - peak) * LOG2E)
        total = total * shrink + tl.sum(p, 0)
        if HIDES:
            v = tl.where(p[:, None] > 0, v, 0.0)
        out = out * shrink + tl.sum(p[:, None] * v, 0)
        top = new
    seen = total != 0
    out = tl.where(seen, out / tl.where(seen, total, 1.0), 0.0)
    lse = tl.where(seen, top + tl.log(tl.where(seen, total, 1.0)), -float("inf"))
    if parts_ptr is None:
        tl.store(out_ptr + n * E + e, out.to(out_ptr.dtype.element_ty), mask=e < E)
        tl.store(lse_ptr + n, lse)
    else:
        parts_ptr += (tl.program_id(0) * tl.num_programs(1) + n) * (1 + E)
        tl.store(parts_ptr, lse)
        tl.store(parts_ptr + 1 + e, out, mask=e < E)


@triton.jit
def combine_splits_fwd_kernel(
    parts_ptr, out_ptr, lse_ptr, parts, E, PARTS: tl.constexpr, DV: tl.constexpr
):
    """What a query reads, from its parts."""
    n, N = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    part, e = tl.arange(0, PARTS), tl.arange(0, DV)
    at = parts_ptr + (part * N + n) * (1 + E)
    lse = tl.load(at, mask=part < parts, other=-float("inf"))
    top = tl.max(lse, 0)
    share = tl.exp2((lse - tl.where(top == -float("inf"), 0.0, top)) * LOG2E)
    total = tl.sum(share, 0)
    read = tl.load(at[:, None] + 1 + e[None, :], mask=(part < parts)[:, None] & (e < E)[None, :])
    out = tl.sum(tl.where(share[:, None] > 0, share[:, None] * read, 0.0), 0)
    seen = total != 0
    out = tl.where(seen, out / tl.where(seen, total, 1.0), 0.0)
    tl.store(out_ptr + n * E + e, out.to(out_ptr.dtype.element_ty), mask=e < E)
    tl.store(lse_ptr + n, tl.where(seen, top + tl.log(tl.where(seen, total, 1.0)), top))
