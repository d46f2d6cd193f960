"""How likely tours were, all steps at once, forward and backward.

A program of the forward pass takes some steps of one tour and all heads; one of the backward pass
takes one head and many tours, so that what the points of an instance learn is summed where it is.
No mask is formed: a point is left at step t if it is taken at t or later. The algebra is in
docs/kernels.md. The twin is `TourDecoder.log_probability`.
"""

import triton
import triton.language as tl


@triton.jit
def _load_queries(
    fixed_ptr, first_ptr, last_ptr, b, h, table, start, at, now, E: tl.constexpr, D: tl.constexpr
):
    """The queries (R, D) of one head, of steps at `at` in a tour that began at `began`."""
    d = h * D + tl.arange(0, D)
    part = tl.load(fixed_ptr + b * E + d).to(tl.float32)
    part += tl.load(first_ptr + table + start * E + d).to(tl.float32)
    here = last_ptr + table + at[:, None] * E + d[None, :]
    return tl.load(here, mask=now[:, None], other=0.0).to(tl.float32) + part[None, :]


@triton.jit
def _attention_weights(q, kh, left, scale, PRECISION: tl.constexpr):
    """What each query (R, D) weighs the points by, (R, K): 0 where none is left."""
    match = tl.dot(q.to(kh.dtype), kh, input_precision=PRECISION) * scale
    match = tl.where(left, match, float("-inf"))
    peak = tl.max(match, 1)
    weights = tl.exp(match - tl.where(peak == float("-inf"), 0.0, peak)[:, None])
    return weights / tl.maximum(tl.sum(weights, 1), 1e-30)[:, None]


@triton.jit
def log_probability_fwd_kernel(
    keys_ptr,
    values_ptr,
    pointers_ptr,
    first_ptr,
    last_ptr,
    fixed_ptr,
    tours_ptr,
    visit_steps_ptr,
    lengths_ptr,
    out_ptr,
    score_grads_ptr,
    N,
    S,
    T,
    glimpse_scale,
    pointer_scale,
    clip,
    E: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
    CLIPPED: tl.constexpr,
    LEARNS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write log-probabilities (B, S, T), and how each score moves its own (B, S, T, K)."""
    b, s, tile = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    k, d = tl.arange(0, K), tl.arange(0, D)
    t = 1 + tile * R + tl.arange(0, R)
    row = b.to(tl.int64) * S + s
    length = tl.load(lengths_ptr + b)
    now = t < length
    at = tl.load(tours_ptr + row * T + t - 1, mask=now, other=0).to(tl.int32)
    chosen = tl.load(tours_ptr + row * T + t, mask=now, other=0).to(tl.int32)
    began = tl.load(tours_ptr + row * T).to(tl.int32)
    when = tl.load(visit_steps_ptr + row * N + k, mask=k < length, other=-1)
    left = (when[None, :] >= t[:, None]) & now[:, None]
    table = b.to(tl.int64) * N * E
    across = table + k[None, :] * E + d[:, None]
    along = table + k[:, None] * E + d[None, :]
    real = k < N
    scores = tl.zeros((R, K), tl.float32)
    for h in range(H):
        q = _load_queries(fixed_ptr, first_ptr, last_ptr, b, h, table, began, at, now, E, D)
        kh = tl.load(keys_ptr + across + h * D, mask=real[None, :], other=0.0)
        weights = _attention_weights(q, kh, left, glimpse_scale, PRECISION)
        vh = tl.load(values_ptr + along + h * D, mask=real[:, None], other=0.0)
        read = tl.dot(weights.to(vh.dtype), vh, input_precision=PRECISION)
        ph = tl.load(pointers_ptr + across + h * D, mask=real[None, :], other=0.0)
        scores += tl.dot(read.to(ph.dtype), ph, input_precision=PRECISION)
    scores *= pointer_scale
    bend = tl.full((R, K), pointer_scale, tl.float32)
    if CLIPPED:
        e = tl.exp(-2 * tl.abs(scores))
        bent = tl.where(scores < 0, -1.0, 1.0) * (1 - e) / (1 + e)
        scores, bend = clip * bent, bend * clip * (1 - bent * bent)
    scores = tl.where(left, scores, float("-inf"))
    peak = tl.max(scores, 1)
    shares = tl.exp(scores - tl.where(now, peak, 0.0)[:, None])
    total = tl.sum(shares, 1)
    one = k[None, :] == chosen[:, None]
    of_chosen = tl.sum(tl.where(one, scores, 0.0), 1)
    said = of_chosen - peak - tl.log(tl.maximum(total, 1e-30))
    tl.store(out_ptr + row * T + t, tl.where(now, said, 0.0), mask=t < T)
    if LEARNS:
        slope = (tl.where(one, 1.0, 0.0) - shares / tl.maximum(total, 1e-30)[:, None]) * bend
        slope = tl.where(left, slope, 0.0)
        place = score_grads_ptr + (row * T + t[:, None]) * K + k[None, :]
        tl.store(place, slope.to(score_grads_ptr.dtype.element_ty), mask=(t < T)[:, None])


@triton.jit
def log_probability_bwd_kernel(
    keys_ptr,
    values_ptr,
    pointers_ptr,
    first_ptr,
    last_ptr,
    fixed_ptr,
    tours_ptr,
    visit_steps_ptr,
    lengths_ptr,
    score_grads_ptr,
    dout_ptr,
    dkeys_ptr,
    dvalues_ptr,
    dpointers_ptr,
    dlast_ptr,
    dqueries_ptr,
    N,
    S,
    T,
    tours_per_program,
    glimpse_scale,
    E: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Add to what the tables learn (B, N, E), and write it for the queries of a tour (B, S, E)."""
    b, h, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    k, d = tl.arange(0, K), tl.arange(0, D)
    table = b.to(tl.int64) * N * E
    across = table + k[None, :] * E + h * D + d[:, None]
    along = table + k[:, None] * E + h * D + d[None, :]
    real, length = k < N, tl.load(lengths_ptr + b)
    kh = tl.load(keys_ptr + across, mask=real[None, :], other=0.0)
    ka = tl.load(keys_ptr + along, mask=real[:, None], other=0.0)
    vh = tl.load(values_ptr + along, mask=real[:, None], other=0.0)
    va = tl.load(values_ptr + across, mask=real[None, :], other=0.0)
    pa = tl.load(pointers_ptr + along, mask=real[:, None], other=0.0)
    d_k = tl.zeros((K, D), tl.float32)
    d_v = tl.zeros((K, D), tl.float32)
    d_p = tl.zeros((K, D), tl.float32)
    d_l = tl.zeros((K, D), tl.float32)
    for s in range(part * tours_per_program, tl.minimum(S, (part + 1) * tours_per_program)):
        row = b.to(tl.int64) * S + s
        began = tl.load(tours_ptr + row * T).to(tl.int32)
        when = tl.load(visit_steps_ptr + row * N + k, mask=k < length, other=-1)
        d_tour = tl.zeros((D,), tl.float32)
        for begin in range(1, T, R):
            t = begin + tl.arange(0, R)
            now = t < length
            at = tl.load(tours_ptr + row * T + t - 1, mask=now, other=-1).to(tl.int32)
            left = (when[None, :] >= t[:, None]) & now[:, None]
            q = _load_queries(fixed_ptr, first_ptr, last_ptr, b, h, table, began, at, now, E, D)
            weights = _attention_weights(q, kh, left, glimpse_scale, PRECISION)
            near = weights.to(vh.dtype)
            read = tl.dot(near, vh, input_precision=PRECISION)
            place = score_grads_ptr + (row * T + t[:, None]) * K + k[None, :]
            slope = tl.load(place, mask=now[:, None], other=0.0).to(tl.float32)
            worth = tl.load(dout_ptr + row * T + t, mask=now, other=0.0).to(tl.float32)
            d_scores = (slope * worth[:, None]).to(vh.dtype)
            d_read = tl.dot(d_scores, pa, input_precision=PRECISION)
            d_p += tl.dot(tl.trans(d_scores), read.to(vh.dtype), input_precision=PRECISION)
            d_v += tl.dot(tl.trans(near), d_read.to(vh.dtype), input_precision=PRECISION)
            d_weights = tl.dot(d_read.to(vh.dtype), va, input_precision=PRECISION)
            mean = tl.sum(weights * d_weights, 1)
            d_match = (weights * (d_weights - mean[:, None]) * glimpse_scale).to(vh.dtype)
            d_q = tl.dot(d_match, ka, input_precision=PRECISION)
            d_k += tl.dot(tl.trans(d_match), q.to(vh.dtype), input_precision=PRECISION)
            here = (k[:, None] == at[None, :]).to(vh.dtype)
            d_l += tl.dot(here, d_q.to(vh.dtype), input_precision=PRECISION)
            d_tour += tl.sum(d_q, 0)
        tl.store(dqueries_ptr + row * E + h * D + d, d_tour)
    tl.atomic_add(dkeys_ptr + along, d_k, mask=real[:, None])
    tl.atomic_add(dvalues_ptr + along, d_v, mask=real[:, None])
    tl.atomic_add(dpointers_ptr + along, d_p, mask=real[:, None])
    tl.atomic_add(dlast_ptr + along, d_l, mask=real[:, None])
