"""The whole backward of additive attention in one launch, for calls of one query, as decoders make.

Tiles of scores have rows for many queries, and with one of them nearly all of their work is in
vain. Here a program has one head and goes through its keys: at most twice, and once if they fit
into one block. It forms no tile of queries.

The twin is autograd through `regard.functional.attention`. The algebra: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.masks import masked_scores, visible_key_range
from regard.kernels.additive.triton.pack import LOG2E
from regard.kernels.additive.triton.scores import shifted_tanh, tanh


# fmt: off
@triton.jit
def single_query_bwd_kernel(
    q_ptr, k_ptr, v_ptr, vector_ptr, lse_ptr, d_out_ptr, scratch_ptr, g_ptr,
    dq_ptr, dk_ptr, dv_ptr, dw_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    H, K, D, E, back, ahead, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    BK: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr, CHUNKS: tl.constexpr, PTX: tl.constexpr,
):
    """All gradients of one head's only query, its keys, their values and the vector.

    Rows of keys and values are gone through in CHUNKS, of BD and BE numbers. Weights and their
    gradient wait in room (B·H, 2, K); without it all keys are in one block and nothing waits. That
    of the scores goes to g (B·H, K), if somebody wants it. No head shares its keys.
    """
    # fmt: on
    ONE: tl.constexpr = scratch_ptr is None
    EXACT: tl.constexpr = q_ptr.dtype.element_ty == tl.float32
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    q_ptr += b * q_strides[0] + h * q_strides[1]
    k_ptr += b * k_strides[0] + h * k_strides[1]
    v_ptr += b * v_strides[0] + h * v_strides[1]
    vector_ptr += h * D
    d_out_ptr += bh * E
    lse = tl.load(lse_ptr + bh)
    lowest, end = visible_key_range(0, 1, b, 1, K, back, ahead, first_ptr, last_ptr)
    total, mean = 0.0, 0.0
    p, slopes = tl.zeros([BK], tl.float32), tl.zeros([BK], tl.float32)
    for start in range(0, BK if ONE else K, BK):
        j = start + tl.arange(0, BK)
        s, slopes = _scores_and_weight_grads(
            q_ptr, k_ptr, v_ptr, vector_ptr, d_out_ptr, j, (j >= lowest) & (j < end), D, E,
            k_strides[2], v_strides[2], BK, BD, BE, CHUNKS, PTX,
        )  # fmt: skip
        s = masked_scores(
            s, b, h, tl.full([], 0, tl.int64), j, 1, K, back, ahead, first_ptr, last_ptr,
            ids_ptr, ids_stride, mask_ptr, mask_strides, bias_ptr, bias_strides, PTX,
        )  # fmt: skip
        # a key that is not seen weighs nothing; a blind query sees none
        weighs = s != -float("inf")
        p = tl.where(weighs, tl.exp2((s - tl.where(weighs, lse, 0.0)) * LOG2E), 0.0)
        # a value that is not seen may be anything, even NaN; one that is NaN shows
        slopes = tl.where(p != 0, slopes, 0.0)
        total += tl.sum(p, 0)
        mean += tl.sum(p * slopes, 0)
        if not ONE:
            tl.store(scratch_ptr + bh * 2 * K + j, p, mask=j < K)
            tl.store(scratch_ptr + bh * 2 * K + K + j, slopes, mask=j < K)
    if not ONE:
        scratch_ptr += bh * 2 * K
        tl.debug_barrier()  # threads need each other's weights
    total = tl.where(total > 0, total, 1.0)
    mean /= total
    # what rounding leaves of the mean: without it, gradients of the scores would not sum to zero
    left = 0.0
    for start in range(0, BK if ONE else K, BK):
        if not ONE:
            p, slopes = _load_weights_and_grads(scratch_ptr, start + tl.arange(0, BK), K)
        left += tl.sum(p * (slopes - mean), 0)
    left /= total
    for chunk in range(CHUNKS):
        d, e = chunk * BD + tl.arange(0, BD), chunk * BE + tl.arange(0, BE)
        q, vector = _load_row(q_ptr, d, D), _load_row(vector_ptr, d, D)
        q = tl.where(q == q, q, 0.0)  # NaN that sees something has come through the weights
        d_out = _load_row(d_out_ptr, e, E)
        dq, dw = tl.zeros([BD], tl.float32), tl.zeros([BD], tl.float32)
        for start in range(0, BK if ONE else K, BK):
            j = start + tl.arange(0, BK)
            if not ONE:
                p, slopes = _load_weights_and_grads(scratch_ptr, j, K)
            weights = p / total
            g = weights * (slopes - mean - left)
            if g_ptr is not None:
                tl.store(g_ptr + bh * K + j, g, mask=(j < K) & (chunk == 0))
            seen, row = (weights != 0)[:, None], (bh * K + j)[:, None]
            k = _load_rows(k_ptr, k_strides[2], j, d, seen, D)
            t, steep = _tanh_and_derivative(q[None, :] + k, EXACT, PTX)
            gained = g[:, None] * steep  # (BK, BD)
            dq += tl.sum(gained, 0)
            dw += tl.sum(g[:, None] * t, 0)
            inside = (j < K)[:, None] & (d < D)[None, :]
            dk = gained * vector[None, :]
            tl.store(dk_ptr + row * D + d[None, :], dk.to(dk_ptr.dtype.element_ty), mask=inside)
            inside = (j < K)[:, None] & (e < E)[None, :]
            dv = tl.where(seen, weights[:, None] * d_out[None, :], 0.0)  # (BK, BE)
            tl.store(dv_ptr + row * E + e[None, :], dv.to(dv_ptr.dtype.element_ty), mask=inside)
        dq = (dq * vector).to(dq_ptr.dtype.element_ty)
        tl.store(dq_ptr + bh * D + d, dq, mask=d < D)
        tl.store(dw_ptr + bh * D + d, dw, mask=d < D)


# fmt: off
@triton.jit
def _scores_and_weight_grads(
    q_ptr, k_ptr, v_ptr, vector_ptr, d_out_ptr, j, there, D, E, k_stride, v_stride,
    BK: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr, CHUNKS: tl.constexpr, PTX: tl.constexpr,
):
    """The scores of the query with keys j, where any are, and the gradient of their weights.

    In half precision the scores are less by the sum of the vector, as in `shifted_tanh`.
    """
    # fmt: on
    EXACT: tl.constexpr = q_ptr.dtype.element_ty == tl.float32
    s, slopes = tl.zeros([BK], tl.float32), tl.zeros([BK], tl.float32)
    for chunk in range(CHUNKS):
        d, e = chunk * BD + tl.arange(0, BD), chunk * BE + tl.arange(0, BE)
        # all that is loaded is under way before anything waits for it
        k = _load_rows(k_ptr, k_stride, j, d, there[:, None], D)
        v = _load_rows(v_ptr, v_stride, j, e, there[:, None], E)
        q, vector = _load_row(q_ptr, d, D), _load_row(vector_ptr, d, D)
        d_out = _load_row(d_out_ptr, e, E)
        s += tl.sum(vector[None, :] * shifted_tanh(q[None, :] + k, EXACT, PTX), 1)
        slopes += tl.sum(d_out[None, :] * v, 1)
    return s, slopes


@triton.jit
def _load_weights_and_grads(scratch_ptr, j, K):
    """The weights of keys j and their gradient, from a room of (2, K)."""
    p = tl.load(scratch_ptr + j, mask=j < K, other=0)
    return p, tl.load(scratch_ptr + K + j, mask=j < K, other=0)


@triton.jit
def _tanh_and_derivative(x, EXACT: tl.constexpr, PTX: tl.constexpr):
    """tanh of x and its slope, 1 − tanh²."""
    if EXACT:
        t = tanh(x, PTX)
        steep = 1 - t * t
    else:
        less = shifted_tanh(x, False, PTX)  # tanh − 1
        t, steep = less + 1, -less * (less + 2)
    return t, steep


@triton.jit
def _load_row(ptr, at, N):
    """Numbers of one row, and zeros past its end."""
    return tl.load(ptr + at, mask=at < N, other=0).to(tl.float32)


@triton.jit
def _load_rows(ptr, stride, j, at, there, N):
    """Numbers of rows j, where they are `there`, and zeros elsewhere."""
    at, j = at[None, :], j[:, None].to(tl.int64)
    return tl.load(ptr + j * stride + at, mask=there & (at < N), other=0).to(tl.float32)
