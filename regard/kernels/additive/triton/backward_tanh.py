"""The last step of additive attention's backward: from the scores' gradient through tanh.

A thread has one dimension and some queries, and goes through keys: what a query gathers stays in
its registers, what a key gathers is added up within the thread. Nothing is added by atomics, so
that the same call gives the same bits. The algebra: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.memory import load1, load4, prefetch
from regard.kernels.additive.triton.pack import LOG2E
from regard.kernels.additive.triton.scores import reciprocal, tanh

PREFETCH_KEYS = tl.constexpr(4)  # how many keys ahead memory is fetched
# Two queries share a division up to this |q| + |k|; below the other, 1 − 2r would lose digits.
SHARED_DIVISION_MAX, SHARED_DIVISION_MIN = tl.constexpr(20.0), tl.constexpr(0.05)
MAX_FINITE = tl.constexpr(1e38)


@triton.jit
def _accumulate_four_queries(
    a1, a2, a3, a4, b, g1, g2, g3, g4, q1, q2, q3, q4, w, PTX: tl.constexpr
):
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
def _load_finite(ptr, PTX: tl.constexpr):
    """A finite number: what nobody sees may hold NaN or infinity, and has no gradient anyhow."""
    x = load1(ptr, PTX).to(tl.float32)
    return tl.where(x == x, tl.minimum(tl.maximum(x, -MAX_FINITE), MAX_FINITE), 0.0)


@triton.jit
def _load_query(rows_ptr, i, Q, q_stride, PTX: tl.constexpr):
    """Row i of the queries; past the end the last stands in, and its gradient is zero."""
    return _load_finite(rows_ptr + tl.minimum(i, Q - 1).to(tl.int64) * q_stride, PTX)


@triton.jit
def max_abs_keys(k_ptr, k_stride, keys, BD: tl.constexpr, PTX: tl.constexpr):
    """The largest |k| of some keys, in each dimension."""
    most = tl.zeros([BD], tl.float32)
    for _ in range(keys):
        most = tl.maximum(most, tl.abs(_load_finite(k_ptr, PTX)))
        k_ptr += k_stride
    return most


@triton.jit
def _add_key_gradient(dk_ptr, more, inside, FIRST: tl.constexpr):
    """Add to the gradient of a key; or store it, if this is the first."""
    if not FIRST:
        more += tl.load(dk_ptr)
    tl.store(dk_ptr, more.to(dk_ptr.dtype.element_ty), mask=inside)


@triton.jit
def store_four_queries(to_ptr, dq1, dq2, dq3, dq4, at, rows, d, inside, D):
    """Store the gradients of queries `at` and of the three after each."""
    _store_query(to_ptr, dq1, at < rows, d, inside)
    _store_query(to_ptr + D, dq2, at + 1 < rows, d, inside)
    _store_query(to_ptr + 2 * D, dq3, at + 2 < rows, d, inside)
    _store_query(to_ptr + 3 * D, dq4, at + 3 < rows, d, inside)


@triton.jit
def _store_query(to_ptr, dq, there, d, inside):
    tl.store(to_ptr + d[None, :], dq.to(to_ptr.dtype.element_ty), mask=there & inside[None, :])


# fmt: off
@triton.jit
def _backward_by_shared_division(
    a1, a2, a3, a4, k_ptr, g_ptr, line_ptr, dk_ptr, vector, inside, k_stride, R, D, keys,
    FIRST: tl.constexpr, PTX: tl.constexpr,
):
    """Gradients of queries and vector by shared divisions; those of keys go to memory."""
    # fmt: on
    a1, a2 = tl.exp2(a1 * (2 * LOG2E)), tl.exp2(a2 * (2 * LOG2E))
    a3, a4 = tl.exp2(a3 * (2 * LOG2E)), tl.exp2(a4 * (2 * LOG2E))
    dq1 = tl.zeros_like(a1)
    dq2, dq3, dq4, w = dq1, dq1, dq1, dq1
    for j in range(keys):
        if PTX:
            # what the keys after next need is on its way meanwhile
            then = tl.minimum(j + PREFETCH_KEYS, keys - 1) - j
            prefetch(line_ptr + (j + then) * R)
            prefetch(k_ptr + then * k_stride)
            prefetch(dk_ptr + then * D)
        key = tl.exp2(_load_finite(k_ptr, PTX) * (2 * LOG2E))[None, :]
        g1, g2, g3, g4 = load4(g_ptr, PTX)
        dq1, dq2, dq3, dq4, w, part = _accumulate_four_queries(
            a1, a2, a3, a4, key, g1, g2, g3, g4, dq1, dq2, dq3, dq4, w, PTX
        )
        _add_key_gradient(dk_ptr, 4 * vector * tl.sum(part, 0), inside, FIRST)
        k_ptr += k_stride
        g_ptr += R
        dk_ptr += D
    # −2 Σ g r is Σ g (tanh − 1), which is Σ g tanh over all keys of a row, where g add up to zero;
    # and 1 − tanh² is 4 r (1 − r)
    return 4 * dq1, 4 * dq2, 4 * dq3, 4 * dq4, -2 * tl.sum(w, 0)


# fmt: off
@triton.jit
def _backward_by_tanh(
    a1, a2, a3, a4, k_ptr, g_ptr, dk_ptr, vector, inside, k_stride, R, D, keys,
    LESS: tl.constexpr, FIRST: tl.constexpr, PTX: tl.constexpr,
):
    """The same by tanh itself; that of the vector is Σ g (tanh − LESS)."""
    # fmt: on
    dq1 = tl.zeros_like(a1)
    dq2, dq3, dq4, w = dq1, dq1, dq1, dq1
    for _ in range(keys):
        key = _load_finite(k_ptr, PTX)[None, :]
        g1, g2, g3, g4 = load4(g_ptr, PTX)
        t1, t2 = tanh(a1 + key, PTX), tanh(a2 + key, PTX)
        t3, t4 = tanh(a3 + key, PTX), tanh(a4 + key, PTX)
        e1, e2 = g1 * (1 - t1 * t1), g2 * (1 - t2 * t2)
        e3, e4 = g3 * (1 - t3 * t3), g4 * (1 - t4 * t4)
        w += (g1 * (t1 - LESS) + g2 * (t2 - LESS)) + (g3 * (t3 - LESS) + g4 * (t4 - LESS))
        dq1 += e1
        dq2 += e2
        dq3 += e3
        dq4 += e4
        _add_key_gradient(dk_ptr, vector * tl.sum((e1 + e2) + (e3 + e4), 0), inside, FIRST)
        k_ptr += k_stride
        g_ptr += R
        dk_ptr += D
    return dq1, dq2, dq3, dq4, tl.sum(w, 0)


# fmt: off
@triton.jit
def backward_through_tanh(
    q_ptr, k_ptr, g_ptr, dk_ptr, i, first, max_abs_k, vector, inside, Q, R, D, q_stride, k_stride,
    keys, N: tl.constexpr, FIRST: tl.constexpr, EXACT: tl.constexpr, PTX: tl.constexpr,
):
    """Gradients of 4 N queries and of the vector, from some keys, whose own go to memory.

    q, k and dk point to a dimension each, g to (keys, R). The queries are in g from i on, and in q
    from `first` on.
    """
    # fmt: on
    at = (tl.arange(0, N) * 4)[:, None]
    a1 = _load_query(q_ptr, first + at, Q, q_stride, PTX)
    a2 = _load_query(q_ptr, first + at + 1, Q, q_stride, PTX)
    a3 = _load_query(q_ptr, first + at + 2, Q, q_stride, PTX)
    a4 = _load_query(q_ptr, first + at + 3, Q, q_stride, PTX)
    plain = EXACT
    if not EXACT:
        most = tl.maximum(tl.abs(a1), tl.abs(a2))
        most = tl.maximum(most, tl.maximum(tl.abs(a3), tl.abs(a4)))
        most = tl.max(tl.max(most, 0) + max_abs_k)
        plain = (most > SHARED_DIVISION_MAX) | (most < SHARED_DIVISION_MIN)
    if plain:
        dq1, dq2, dq3, dq4, dw = _backward_by_tanh(
            a1, a2, a3, a4, k_ptr, g_ptr + i + at, dk_ptr, vector, inside, k_stride, R, D, keys,
            0.0 if EXACT else 1.0, FIRST, PTX,
        )  # fmt: skip
    else:
        dq1, dq2, dq3, dq4, dw = _backward_by_shared_division(
            a1, a2, a3, a4, k_ptr, g_ptr + i + at, g_ptr + i, dk_ptr, vector, inside, k_stride, R,
            D, keys, FIRST, PTX,
        )  # fmt: skip
    v = vector[None, :]
    return dq1 * v, dq2 * v, dq3 * v, dq4 * v, dw


# fmt: off
@triton.jit(do_not_specialize=["base", "rows", "dq_rows", "dq_first"])
def tanh_bwd_kernel(
    q_ptr, k_ptr, vector_ptr, g_ptr, dq_ptr, dk_ptr, dw_ptr,
    base, rows, H, group_size, Q, K, D, R, keys, back, ahead, dq_rows, dq_first, q_strides,
    k_strides,
    QUERIES: tl.constexpr, BD: tl.constexpr, EXACT: tl.constexpr, PTX: tl.constexpr,
):
    """Gradients of a band of queries, `rows` from `base` on, against one share of the keys.

    g is (B·H, K, R). dq is a part, (B·H, shares, dq_rows, D), and the band is in it from dq_first
    on. dk (B·G, K, D) and dw (B·H, shares, D) are added to from the second band on, each place by
    the one program that owns it.
    """
    # fmt: on
    N: tl.constexpr = QUERIES // 4
    jb, G = tl.program_id(0), H // group_size
    bg = tl.program_id(2).to(tl.int64)
    b = bg // G
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    inside, own = d < D, tl.minimum(d, D - 1)
    first = jb * keys
    some = tl.minimum(keys, K - first)
    k_ptr += b * k_strides[0] + (bg % G) * k_strides[1] + first.to(tl.int64) * k_strides[2] + own
    dk_ptr += (bg * K + first) * D + own
    if base == 0:
        for j in range(some):
            tl.store(dk_ptr + j * D, tl.zeros([BD], tl.float32), mask=inside)
        tl.debug_barrier()  # another thread may be the one that adds to it
    most_k = tl.zeros([BD], tl.float32)
    if not EXACT:
        most_k = max_abs_keys(k_ptr, k_strides[2], some, BD, PTX)
    # queries that see none of these keys have no part
    lowest = tl.maximum(first - ahead - (K - Q) - base, 0) // QUERIES * QUERIES
    end = tl.minimum(first + some + back - (K - Q) - base, rows)
    for head in range(group_size):
        h = (bg % G) * group_size + head
        bh = b * H + h
        vector = tl.load(vector_ptr + h * D + own).to(tl.float32)
        row_ptr = q_ptr + b * q_strides[0] + h * q_strides[1] + own[None, :]
        dw_at = dw_ptr + (bh * tl.num_programs(0) + jb) * D + own
        dw = tl.where(base > 0, tl.load(dw_at), 0.0)
        for i in range(0, R, QUERIES):
            dq1 = tl.zeros([N, BD], tl.float32)
            dq2, dq3, dq4 = dq1, dq1, dq1
            if (i >= lowest) & (i < end):
                dq1, dq2, dq3, dq4, more = backward_through_tanh(
                    row_ptr, k_ptr, g_ptr + (bh * K + first) * R, dk_ptr, i, base + i, most_k,
                    vector, inside, Q, R, D, q_strides[2], k_strides[2], some, N, False, EXACT, PTX,
                )  # fmt: skip
                dw += more
            at = (i + tl.arange(0, N) * 4)[:, None]  # (N, 1): the first query of each four
            to = dq_ptr + ((bh * tl.num_programs(0) + jb) * dq_rows + dq_first + at) * D
            store_four_queries(to, dq1, dq2, dq3, dq4, at, rows, d, inside, D)
        tl.store(dw_at, dw, mask=inside)
