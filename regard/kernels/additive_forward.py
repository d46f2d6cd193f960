"""Additive attention forward: tile by tile with an online softmax, and split over keys to decode.

The twin is `regard.functional.attention` with `scores.Additive` and `selects.softmax`.
"""

import triton
import triton.language as tl

from regard.kernels.additive_rules import meet, shown, span
from regard.kernels.additive_scores import (
    LOG2E,
    bent,
    flat,
    flat_rows,
    load1,
    places,
    product,
    row_max,
    row_sum,
    scores,
)


@triton.jit(do_not_specialize=["base", "rows"])
def read(
    q_ptr,
    k_ptr,
    v_ptr,
    vector_ptr,
    u_ptr,
    w_ptr,
    u_bits_ptr,
    w_bits_ptr,
    index_ptr,
    out_ptr,
    lse_ptr,
    first_ptr,
    last_ptr,
    ids_ptr,
    mask_ptr,
    bias_ptr,
    base,
    rows,
    H,
    share,
    Q,
    K,
    D,
    E,
    groups,
    back,
    ahead,
    ids_stride,
    q_strides,
    k_strides,
    v_strides,
    mask_strides,
    bias_strides,
    WR: tl.constexpr,
    WC: tl.constexpr,
    MT: tl.constexpr,
    NP: tl.constexpr,
    DV: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNED: tl.constexpr,
    PTX: tl.constexpr,
):
    """What each query reads, or the log of its weight at `index`; the log-sum-exp.

    Runs over `rows` queries from `base` on; the factors u are those of these rows.
    """
    BQ: tl.constexpr = WR * MT * 16
    BK: tl.constexpr = WC * NP * 16
    # the last tiles first: under a causal rule they see most
    tile = (tl.num_programs(1) - 1 - tl.program_id(1)) * BQ
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    q_ptr += b * q_strides[0] + h * q_strides[1]
    k_ptr += b * k_strides[0] + (h // share) * k_strides[1]
    vector_ptr += h * D
    if u_ptr is not None:
        u_tiles, w_tiles = tl.cdiv(rows, BQ) * (BQ // 16), tl.cdiv(K, BK) * (BK // 16)
        u_ptr += bh * u_tiles * groups * 256
        u_bits_ptr += bh * u_tiles
        w_ptr += (b * (H // share) + h // share) * w_tiles * groups * 128
        w_bits_ptr += (b * (H // share) + h // share) * w_tiles
    row, col = places(WR, WC, MT, NP)
    i = base + tile + row
    top = tl.full([2, 1, MT, 1, WR * WC * 32], -float("inf"), tl.float32)
    total = tl.zeros([2, 1, MT, 1, WR * WC * 32], tl.float32)
    if index_ptr is not None:
        index = load1(index_ptr + bh * Q + tl.minimum(i, Q - 1), PTX)
        picked = tl.full([2, 1, MT, 1, WR * WC * 32], -float("inf"), tl.float32)
    else:
        v_ptr += b * v_strides[0] + (h // share) * v_strides[1]
        out = tl.zeros([BQ, DV], tl.float32)
    lowest, end = span(base + tile, BQ, b, Q, K, back, ahead, first_ptr, last_ptr)
    for start in range(lowest // BK * BK, end, BK):
        visit = True
        if ids_ptr is not None:
            visit = meet(base + tile, start, b, Q, K, ids_ptr, ids_stride, BQ, BK)
        if visit:
            s = scores(
                q_ptr,
                k_ptr,
                vector_ptr,
                u_ptr,
                w_ptr,
                u_bits_ptr,
                w_bits_ptr,
                base,
                tile,
                start,
                row,
                col,
                Q,
                K,
                D,
                groups,
                q_strides[2],
                k_strides[2],
                WR,
                WC,
                MT,
                NP,
                ALIGNED,
                PTX,
            )
            j = start + col
            s = shown(
                s,
                b,
                h,
                i,
                j,
                Q,
                K,
                back,
                ahead,
                first_ptr,
                last_ptr,
                ids_ptr,
                ids_stride,
                mask_ptr,
                mask_strides,
                bias_ptr,
                bias_strides,
                PTX,
            )
            new = tl.maximum(top, row_max(s, WR, WC))
            # a row that has seen nothing yet has the peak −inf: anything finite does instead
            peak = tl.where(new == -float("inf"), 0.0, new)
            p = tl.exp2((s - peak) * LOG2E)
            shrink = tl.exp2((top - peak) * LOG2E)
            total = total * shrink + row_sum(p, WR, WC)
            top = new
            if index_ptr is not None:
                chosen = tl.where(j == index, s, -float("inf"))
                picked = tl.maximum(picked, row_max(chosen, WR, WC))
            else:
                p2 = flat(p, WR, WC, MT, NP)
                key = start + tl.arange(0, BK)
                # a value that nobody here sees may be anything, even NaN
                there = (key < K) & (tl.max(p2, 0) > 0)
                e = tl.arange(0, DV)
                at = v_ptr + key.to(tl.int64)[:, None] * v_strides[2] + e[None, :]
                v = tl.load(at, mask=there[:, None] & (e < E)[None, :], other=0)
                out *= flat_rows(shrink, WR, WC, MT)[:, None]
                out = product(p2.to(v.dtype), v, out, PRECISION, PTX)
    seen = total > 0
    lse = tl.where(seen, top + tl.log(tl.where(seen, total, 1.0)), -float("inf"))
    at = bh * Q + i
    tl.store(lse_ptr + at, lse, mask=(i < Q) & (tile + row < rows))
    if index_ptr is not None:
        picked = tl.where(picked == -float("inf"), picked, picked - lse)
        tl.store(out_ptr + at, picked, mask=(i < Q) & (tile + row < rows))
    else:
        inverse = flat_rows(tl.where(seen, 1 / tl.where(seen, total, 1.0), 0.0), WR, WC, MT)
        r = tile + tl.arange(0, BQ)
        e = tl.arange(0, DV)
        at = out_ptr + (bh * Q + base + r)[:, None] * E + e[None, :]
        fits = (r < rows)[:, None] & (e < E)[None, :]
        tl.store(at, (out * inverse[:, None]).to(out_ptr.dtype.element_ty), mask=fits)


@triton.jit
def decode(
    q_ptr,
    k_ptr,
    v_ptr,
    vector_ptr,
    out_ptr,
    lse_ptr,
    parts_ptr,
    first_ptr,
    last_ptr,
    ids_ptr,
    mask_ptr,
    bias_ptr,
    H,
    share,
    Q,
    K,
    D,
    E,
    back,
    ahead,
    keys,
    ids_stride,
    q_strides,
    k_strides,
    v_strides,
    mask_strides,
    bias_strides,
    BK: tl.constexpr,
    BD: tl.constexpr,
    DV: tl.constexpr,
    EXACT: tl.constexpr,
    PTX: tl.constexpr,
):
    """What one query reads from `keys` keys, the program's share; all of it if nothing is shared.

    Parts are (programs, queries, 1 + Dv): log-sum-exp, then what was read.
    """
    n = tl.program_id(1).to(tl.int64)
    bh, i = n // Q, n % Q
    b, h = bh // H, bh % H
    d, e = tl.arange(0, BD), tl.arange(0, DV)
    q = tl.load(q_ptr + b * q_strides[0] + h * q_strides[1] + i * q_strides[2] + d, mask=d < D)
    vector = tl.load(vector_ptr + h * D + d, mask=d < D, other=0).to(tl.float32)
    k_ptr += b * k_strides[0] + (h // share) * k_strides[1]
    v_ptr += b * v_strides[0] + (h // share) * v_strides[1]
    top = -float("inf")
    total = 0.0
    out = tl.zeros([DV], tl.float32)
    lowest, end = span(i, 1, b, Q, K, back, ahead, first_ptr, last_ptr)
    lowest = tl.maximum(lowest, tl.program_id(0) * keys)
    end = tl.minimum(end, tl.program_id(0) * keys + keys)
    for start in range(lowest, end, BK):
        j = start + tl.arange(0, BK)
        at = j.to(tl.int64)[:, None]
        inside = (j < end)[:, None]
        k = tl.load(k_ptr + at * k_strides[2] + d[None, :], mask=inside & (d < D)[None, :], other=0)
        v = tl.load(v_ptr + at * v_strides[2] + e[None, :], mask=inside & (e < E)[None, :], other=0)
        x = tl.where(d < D, q.to(tl.float32), 0.0)[None, :] + k.to(tl.float32)
        s = tl.sum(vector[None, :] * bent(x, EXACT, PTX), 1)
        s = tl.where(j < end, s, -float("inf"))
        s = shown(
            s,
            b,
            h,
            i,
            j,
            Q,
            K,
            back,
            ahead,
            first_ptr,
            last_ptr,
            ids_ptr,
            ids_stride,
            mask_ptr,
            mask_strides,
            bias_ptr,
            bias_strides,
            PTX,
        )
        new = tl.maximum(top, tl.max(s, 0))
        peak = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp2((s - peak) * LOG2E)
        shrink = tl.exp2((top - peak) * LOG2E)
        total = total * shrink + tl.sum(p, 0)
        read = tl.where(p[:, None] > 0, v.to(tl.float32), 0.0)
        out = out * shrink + tl.sum(p[:, None] * read, 0)
        top = new
    seen = total > 0
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
def combine(parts_ptr, out_ptr, lse_ptr, parts, E, PARTS: tl.constexpr, DV: tl.constexpr):
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
    seen = total > 0
    out = tl.where(seen, out / tl.where(seen, total, 1.0), 0.0)
    tl.store(out_ptr + n * E + e, out.to(out_ptr.dtype.element_ty), mask=e < E)
    tl.store(lse_ptr + n, tl.where(seen, top + tl.log(tl.where(seen, total, 1.0)), top))
