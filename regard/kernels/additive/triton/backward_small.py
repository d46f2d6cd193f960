"""The whole backward of additive attention in one launch, for calls that fit into a tile a head.

A launch takes longer than the work on such a call.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.backward_softmax import (
    load_d_out,
    softmax_backward,
    tile_weights_and_grads,
)
from regard.kernels.additive.triton.backward_tanh import (
    backward_through_tanh,
    max_abs_keys,
    store_four_queries,
)
from regard.kernels.additive.triton.scores import dot_add


# fmt: off
@triton.jit
def small_bwd_kernel(
    q_ptr, k_ptr, v_ptr, vector_ptr, index_ptr, d_out_ptr, g_ptr,
    dq_ptr, dk_ptr, dv_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    H, Q, K, D, E, back, ahead, ids_stride,
    q_strides, k_strides, v_strides, mask_strides, bias_strides,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr, CHUNK: tl.constexpr,
    BD: tl.constexpr, PRECISION: tl.constexpr, ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """All gradients of one head, in some dimensions of its queries and keys.

    g is (B·H, K, BQ), and behind it is the vector's, (B·H, D). No head shares its keys.
    """
    # fmt: on
    BQ: tl.constexpr = WR * MT * 16
    N: tl.constexpr = BQ // 4
    EXACT: tl.constexpr = q_ptr.dtype.element_ty == tl.float32
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    weights, slopes = tile_weights_and_grads(
        q_ptr, k_ptr, v_ptr, vector_ptr, None, None, None, None, None,
        None, d_out_ptr, first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
        bh, 0, Q, 0, 0, H, 1, Q, K, D, E, 0, back, ahead, ids_stride,
        q_strides, k_strides, v_strides, mask_strides, bias_strides,
        WR, WC, MT, NP, CHUNK, PRECISION, ALIGNED, PTX,
    )  # fmt: skip
    r, key = tl.arange(0, BQ), tl.arange(0, WC * NP * 16)
    weights, slopes = softmax_backward(weights, slopes, r, key, index_ptr, d_out_ptr, bh * Q, Q)
    dw_ptr = g_ptr + tl.num_programs(1) * K * BQ
    g_ptr += bh * K * BQ
    tl.store(g_ptr + key[None, :] * BQ + r[:, None], slopes, mask=(key < K)[None, :])
    if v_ptr is not None:
        weights = weights.to(v_ptr.dtype.element_ty).trans(1, 0)
        for c in range(0, E, CHUNK):
            e = c + tl.arange(0, CHUNK)
            d_out = load_d_out(d_out_ptr, bh * Q, r, e, Q, E)
            dv = dot_add(
                weights, d_out, tl.zeros([WC * NP * 16, CHUNK], tl.float32), PRECISION, PTX
            )
            at = dv_ptr + (bh * K + key[:, None]) * E + e[None, :]
            fits = (key < K)[:, None] & (e < E)[None, :]
            tl.store(at, dv.to(dv_ptr.dtype.element_ty), mask=fits)
    tl.debug_barrier()  # threads need each other's slopes
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    inside, own = d < D, tl.minimum(d, D - 1)
    q_ptr += b * q_strides[0] + h * q_strides[1] + own[None, :]
    k_ptr += b * k_strides[0] + h * k_strides[1] + own
    most_k = tl.zeros([BD], tl.float32)
    if not EXACT:
        most_k = max_abs_keys(k_ptr, k_strides[2], K, BD, PTX)
    vector = tl.load(vector_ptr + h * D + own).to(tl.float32)
    dq1, dq2, dq3, dq4, dw = backward_through_tanh(
        q_ptr, k_ptr, g_ptr, dk_ptr + bh * K * D + own, 0, 0, most_k, vector, inside, Q, BQ, D,
        q_strides[2], k_strides[2], K, N, True, EXACT, PTX,
    )  # fmt: skip
    at = (tl.arange(0, N) * 4)[:, None]
    to = dq_ptr + (bh * Q + at) * D
    store_four_queries(to, dq1, dq2, dq3, dq4, at, Q, d, inside, D)
    tl.store(dw_ptr + bh * D + d, dw, mask=inside)
