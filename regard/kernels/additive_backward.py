"""Additive attention backward, a band of queries at a time: weights again, then through tanh.

The twin is autograd through `regard.functional.attention`. Nothing here is added by atomics, so
that the same call gives the same bits. The steps and their algebra: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive_rules import meet, shown, span
from regard.kernels.additive_scores import (
    LOG2E,
    flat,
    load1,
    load4,
    places,
    product,
    reciprocal,
    scores,
    tanh,
)


@triton.jit(do_not_specialize=["base", "rows"])
def weigh(
    q_ptr,
    k_ptr,
    v_ptr,
    vector_ptr,
    u_ptr,
    w_ptr,
    u_bits_ptr,
    w_bits_ptr,
    lse_ptr,
    d_out_ptr,
    p_ptr,
    g_ptr,
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
    R,
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
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
    ALIGNED: tl.constexpr,
    PTX: tl.constexpr,
):
    """Weights and, where values are read, their gradient: (K, R) of a band of queries."""
    BQ: tl.constexpr = WR * MT * 16
    BK: tl.constexpr = WC * NP * 16
    start, tile = tl.program_id(0) * BK, tl.program_id(1) * BQ
    bh = tl.program_id(2).to(tl.int64)
    b, h = bh // H, bh % H
    r, key, e = tile + tl.arange(0, BQ), start + tl.arange(0, BK), tl.arange(0, CHUNK)
    to = (bh * K + key)[None, :] * R + r[:, None]  # (BQ, BK)
    fits = (r < R)[:, None] & (key < K)[None, :]
    lowest, end = span(base + tile, BQ, b, Q, K, back, ahead, first_ptr, last_ptr)
    visit = (start < end) & (start + BK > lowest)
    if ids_ptr is not None:
        visit &= meet(base + tile, start, b, Q, K, ids_ptr, ids_stride, BQ, BK)
    if visit:
        if u_ptr is not None:
            u_tiles, w_tiles = tl.cdiv(rows, BQ) * (BQ // 16), tl.cdiv(K, BK) * (BK // 16)
            u_ptr += bh * u_tiles * groups * 256
            u_bits_ptr += bh * u_tiles
            w_ptr += (b * (H // share) + h // share) * w_tiles * groups * 128
            w_bits_ptr += (b * (H // share) + h // share) * w_tiles
        row, col = places(WR, WC, MT, NP)
        s = scores(
            q_ptr + b * q_strides[0] + h * q_strides[1],
            k_ptr + b * k_strides[0] + (h // share) * k_strides[1],
            vector_ptr + h * D,
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
        i = base + tile + row
        s = shown(
            s,
            b,
            h,
            i,
            start + col,
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
        lse = load1(lse_ptr + bh * Q + tl.minimum(i, Q - 1), PTX)
        # a blind row has weighed nothing, and a key that is not seen weighs nothing
        lse = tl.where(tile + row < rows, lse, -float("inf"))
        weighs = (s != -float("inf")) & (lse != -float("inf"))
        p = tl.where(weighs, tl.exp2((s - tl.where(weighs, lse, 0.0)) * LOG2E), 0.0)
        p = flat(p, WR, WC, MT, NP)
        tl.store(p_ptr + to, p, mask=fits)
        if v_ptr is not None:
            v_ptr += b * v_strides[0] + (h // share) * v_strides[1]
            d_out_ptr += (bh * Q + base) * E
            here = (r < rows) & (base + r < Q)
            d_p = tl.zeros([BQ, BK], tl.float32)
            for c in range(0, E, CHUNK):
                wide = (c + e < E)[None, :]
                at = d_out_ptr + r[:, None].to(tl.int64) * E + (c + e)[None, :]
                d_out = tl.load(at, mask=here[:, None] & wide, other=0)
                at = v_ptr + key[:, None].to(tl.int64) * v_strides[2] + (c + e)[None, :]
                v = tl.load(at, mask=(key < K)[:, None] & wide, other=0)
                d_p = product(d_out, v.trans(1, 0), d_p, PRECISION, PTX)
            tl.store(g_ptr + to, tl.where(p > 0, d_p, 0.0), mask=fits)
    else:
        tl.store(p_ptr + to, tl.zeros([BQ, BK], tl.float32), mask=fits)
        if v_ptr is not None:
            tl.store(g_ptr + to, tl.zeros([BQ, BK], tl.float32), mask=fits)


@triton.jit(do_not_specialize=["base", "rows"])
def slope(
    p_ptr,
    g_ptr,
    half_ptr,
    index_ptr,
    d_chosen_ptr,
    base,
    rows,
    Q,
    K,
    R,
    ROWS: tl.constexpr,
    BK: tl.constexpr,
):
    """Softmax backward: `p (d_p − Σ p d_p)` in place of d_p, or `d_chosen (1 at index − p)`.

    The weights are made to sum to one first, so that a row's gradients sum to zero: otherwise what
    rounding left of them would show where everything else cancels.
    """
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


@triton.jit
def _four(a1, a2, a3, a4, b, g1, g2, g3, g4, q1, q2, q3, q4, w, PTX: tl.constexpr):
    """Four queries against one key: their gradients so far and Σ g r; and Σ g r (1 − r).

    r is 1 / (1 + e^{2(q + k)}); two queries share a division.
    """
    if PTX:
        return tl.inline_asm_elementwise(
            """{ .reg .f32 x, y, z, r, s, u;
fma.rn.ftz.f32 x, $6, $10, 0f3F800000;
fma.rn.ftz.f32 y, $7, $10, 0f3F800000;
mul.ftz.f32 z, x, y;
rcp.approx.ftz.f32 z, z;
mul.ftz.f32 r, z, y;
mul.ftz.f32 s, z, x;
neg.ftz.f32 u, r;
fma.rn.ftz.f32 u, u, r, r;
neg.ftz.f32 z, s;
fma.rn.ftz.f32 z, z, s, s;
fma.rn.ftz.f32 $0, $11, u, $15;
fma.rn.ftz.f32 $1, $12, z, $16;
mul.ftz.f32 x, $11, u;
fma.rn.ftz.f32 x, $12, z, x;
fma.rn.ftz.f32 y, $11, r, $19;
fma.rn.ftz.f32 y, $12, s, y;
{ .reg .f32 k, l, m;
fma.rn.ftz.f32 k, $8, $10, 0f3F800000;
fma.rn.ftz.f32 l, $9, $10, 0f3F800000;
mul.ftz.f32 m, k, l;
rcp.approx.ftz.f32 m, m;
mul.ftz.f32 r, m, l;
mul.ftz.f32 s, m, k;
neg.ftz.f32 u, r;
fma.rn.ftz.f32 u, u, r, r;
neg.ftz.f32 z, s;
fma.rn.ftz.f32 z, z, s, s;
fma.rn.ftz.f32 $2, $13, u, $17;
fma.rn.ftz.f32 $3, $14, z, $18;
fma.rn.ftz.f32 x, $13, u, x;
fma.rn.ftz.f32 $5, $14, z, x;
fma.rn.ftz.f32 y, $13, r, y;
fma.rn.ftz.f32 $4, $14, s, y; } }""",
            "=&r,=&r,=&r,=&r,=&r,=&r,r,r,r,r,r,r,r,r,r,r,r,r,r,r",
            [a1, a2, a3, a4, b, g1, g2, g3, g4, q1, q2, q3, q4, w],
            dtype=(tl.float32,) * 6,
            is_pure=True,
            pack=1,
        )
    x, y = a1 * b + 1, a2 * b + 1
    z = reciprocal(x * y, PTX)
    r1, r2 = z * y, z * x
    x, y = a3 * b + 1, a4 * b + 1
    z = reciprocal(x * y, PTX)
    r3, r4 = z * y, z * x
    u1, u2, u3, u4 = r1 - r1 * r1, r2 - r2 * r2, r3 - r3 * r3, r4 - r4 * r4
    part = g1 * u1 + g2 * u2 + g3 * u3 + g4 * u4
    w += g1 * r1 + g2 * r2 + g3 * r3 + g4 * r4
    return q1 + g1 * u1, q2 + g2 * u2, q3 + g3 * u3, q4 + g4 * u4, w, part


@triton.jit
def _number(ptr, PTX: tl.constexpr):
    """A number that is one: what nobody sees may hold NaN, and its gradient is zero anyhow."""
    x = load1(ptr, PTX).to(tl.float32)
    return tl.where(x == x, x, 0.0)


@triton.jit
def _query(rows_ptr, i, Q, q_stride, PTX: tl.constexpr):
    """Row i of the queries; past the end the last stands in, and its gradient is zero."""
    return _number(rows_ptr + tl.minimum(i, Q - 1).to(tl.int64) * q_stride, PTX)


@triton.jit(do_not_specialize=["base", "rows"])
def descend(
    q_ptr,
    k_ptr,
    vector_ptr,
    g_ptr,
    dq_ptr,
    dk_ptr,
    dw_ptr,
    base,
    rows,
    H,
    share,
    Q,
    K,
    D,
    R,
    keys,
    back,
    ahead,
    q_strides,
    k_strides,
    I: tl.constexpr,
    BD: tl.constexpr,
    EXACT: tl.constexpr,
    PTX: tl.constexpr,
):
    """Gradients of a band through tanh: a thread has one dimension, I queries and, in turn, each key.

    dk and dw are added to, by the one program that owns a place; dq is this program's part.
    """
    N: tl.constexpr = I // 4
    jb, G = tl.program_id(0), H // share
    bg = tl.program_id(2).to(tl.int64)
    b = bg // G
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    inside = d < D
    at_d = tl.minimum(d, D - 1)
    n = tl.arange(0, N) * 4
    first, last = jb * keys, tl.minimum(jb * keys + keys, K)
    k_ptr += b * k_strides[0] + (bg % G) * k_strides[1] + first.to(tl.int64) * k_strides[2] + at_d
    dk_ptr += (bg * K + first) * D + at_d
    far = tl.zeros([BD], tl.float32)
    if not EXACT:
        at_k = k_ptr
        for _ in range(first, last):
            far = tl.maximum(far, tl.abs(_number(at_k, PTX)))
            at_k += k_strides[2]
    # queries that see none of these keys have no part
    lowest = tl.maximum(first - ahead - (K - Q) - base, 0) // I * I
    end = tl.minimum(last + back - (K - Q) - base, rows)
    for head in range(share):
        bh = b * H + (bg % G) * share + head
        h = (bg % G) * share + head
        vector = tl.load(vector_ptr + h * D + at_d).to(tl.float32)
        to_w = dw_ptr + (bh * tl.num_programs(0) + jb) * D + at_d
        dw = tl.load(to_w)
        for i in range(0, R, I):
            at = (i + n)[:, None]  # (N, 1): the first query of each four
            dq1 = tl.zeros([N, BD], tl.float32)
            dq2, dq3, dq4, w = dq1, dq1, dq1, dq1
            if (i >= lowest) & (i < end):
                rows_ptr = q_ptr + b * q_strides[0] + h * q_strides[1] + at_d[None, :]
                a1 = _query(rows_ptr, base + at, Q, q_strides[2], PTX)
                a2 = _query(rows_ptr, base + at + 1, Q, q_strides[2], PTX)
                a3 = _query(rows_ptr, base + at + 2, Q, q_strides[2], PTX)
                a4 = _query(rows_ptr, base + at + 3, Q, q_strides[2], PTX)
                plain = EXACT
                if not EXACT:
                    most = tl.maximum(tl.abs(a1), tl.abs(a2))
                    most = tl.maximum(most, tl.maximum(tl.abs(a3), tl.abs(a4)))
                    most = tl.max(tl.max(most, 0) + far)
                    # out of the range of shared divisions, or so small that 1 − 2r loses digits
                    plain = (most > 20.0) | (most < 0.05)
                at_k, at_g, to = k_ptr, g_ptr + (bh * K + first) * R + at, dk_ptr
                if plain:
                    for _ in range(first, last):
                        key = _number(at_k, PTX)[None, :]
                        g1, g2, g3, g4 = load4(at_g, PTX)
                        t1, t2 = tanh(a1 + key, True, PTX), tanh(a2 + key, True, PTX)
                        t3, t4 = tanh(a3 + key, True, PTX), tanh(a4 + key, True, PTX)
                        e1, e2 = g1 * (1 - t1 * t1), g2 * (1 - t2 * t2)
                        e3, e4 = g3 * (1 - t3 * t3), g4 * (1 - t4 * t4)
                        w += (g1 * t1 + g2 * t2) + (g3 * t3 + g4 * t4)
                        dq1 += e1
                        dq2 += e2
                        dq3 += e3
                        dq4 += e4
                        more = vector * tl.sum((e1 + e2) + (e3 + e4), 0)
                        tl.store(to, tl.load(to) + more, mask=inside)
                        at_k += k_strides[2]
                        at_g += R
                        to += D
                    dw += tl.sum(w, 0)
                else:
                    a1, a2 = tl.exp2(a1 * (2 * LOG2E)), tl.exp2(a2 * (2 * LOG2E))
                    a3, a4 = tl.exp2(a3 * (2 * LOG2E)), tl.exp2(a4 * (2 * LOG2E))
                    for _ in range(first, last):
                        key = tl.exp2(_number(at_k, PTX) * (2 * LOG2E))[None, :]
                        g1, g2, g3, g4 = load4(at_g, PTX)
                        dq1, dq2, dq3, dq4, w, part = _four(
                            a1, a2, a3, a4, key, g1, g2, g3, g4, dq1, dq2, dq3, dq4, w, PTX
                        )
                        tl.store(to, tl.load(to) + 4 * vector * tl.sum(part, 0), mask=inside)
                        at_k += k_strides[2]
                        at_g += R
                        to += D
                    # a row's g add up to zero, so Σ g tanh is −2 Σ g r; and 1 − tanh² is 4 r (1 − r)
                    dw -= 2 * tl.sum(w, 0)
                    dq1, dq2, dq3, dq4 = 4 * dq1, 4 * dq2, 4 * dq3, 4 * dq4
            to = dq_ptr + ((bh * tl.num_programs(0) + jb) * R + at) * D + d[None, :]
            tl.store(to, dq1 * vector[None, :], mask=inside[None, :])
            tl.store(to + D, dq2 * vector[None, :], mask=inside[None, :])
            tl.store(to + 2 * D, dq3 * vector[None, :], mask=inside[None, :])
            tl.store(to + 3 * D, dq4 * vector[None, :], mask=inside[None, :])
        tl.store(to_w, dw, mask=inside)
