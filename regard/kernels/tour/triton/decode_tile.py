"""All steps of tours in one kernel: glimpse, point, go there, and again. Twin: `reference`.

A program takes a few tours through the points of one instance. What is known of the points stays
where it is nearest; which of them are left, and where each tour is, never leaves the registers.
"""

import triton
import triton.language as tl


@triton.jit
def _uniform_noise(seed, t, R: tl.constexpr, K: tl.constexpr):
    """A number for each tour and point, above 0 and below 1."""
    r, k = tl.arange(0, R)[:, None], tl.arange(0, K)[None, :]
    drawn = tl.rand(seed, (t * R + r) * K + k)
    return tl.minimum(tl.maximum(drawn, 1e-7), 1 - 1e-7)


@triton.jit
def decode_tours_kernel(
    keys_ptr,
    values_ptr,
    pointers_ptr,
    first_ptr,
    last_ptr,
    fixed_ptr,
    begin_ptr,
    lengths_ptr,
    starts_ptr,
    seeds_ptr,
    tours_ptr,
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
    STARTED: tl.constexpr,
    DRAWN: tl.constexpr,
    CLIPPED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write (B, S, T) points; tables are (B, N, E)."""
    b, tile = tl.program_id(0), tl.program_id(1)
    r, k, d = tl.arange(0, R), tl.arange(0, K), tl.arange(0, D)
    s = tile * R + r
    here = s < S
    length = tl.load(lengths_ptr + b)
    left = tl.broadcast_to((k < length)[None, :], (R, K)).to(tl.int1)
    seed = tl.load(seeds_ptr) + b * tl.num_programs(1) + tile if DRAWN else 0
    table = b.to(tl.int64) * N * E
    # a table read with the points across, or along
    across = table + k[None, :] * E + d[:, None]
    along = table + k[:, None] * E + d[None, :]
    real_across, real_along = (k < N)[None, :], (k < N)[:, None]
    written = tours_ptr + (b.to(tl.int64) * S + s) * T
    began = tl.zeros((R,), tl.int32)
    if STARTED:
        began = tl.load(starts_ptr + b * S + s, mask=here, other=0).to(tl.int32)
        tl.store(written, began, mask=here)
        left = left & (k[None, :] != began[:, None])
    at = began
    for t in range(1 if STARTED else 0, T):
        scores = tl.zeros((R, K), tl.float32)
        for h in range(H):
            column = h * D + d[None, :]
            q = tl.broadcast_to(tl.load(fixed_ptr + b * E + column).to(tl.float32), (R, D))
            if STARTED or t > 0:
                q += tl.load(first_ptr + table + began[:, None] * E + column).to(tl.float32)
                q += tl.load(last_ptr + table + at[:, None] * E + column).to(tl.float32)
            else:
                q += tl.load(begin_ptr + column).to(tl.float32)
            kh = tl.load(keys_ptr + across + h * D, mask=real_across, other=0.0)
            match = tl.dot(q.to(kh.dtype), kh, input_precision=PRECISION) * glimpse_scale
            match = tl.where(left, match, float("-inf"))
            peak = tl.max(match, 1)
            # a tour that is over sees nothing, and what it finds is not written
            weights = tl.exp(match - tl.where(peak == float("-inf"), 0.0, peak)[:, None])
            total = tl.maximum(tl.sum(weights, 1), 1e-30)
            vh = tl.load(values_ptr + along + h * D, mask=real_along, other=0.0)
            read = tl.dot(weights.to(vh.dtype), vh, input_precision=PRECISION) / total[:, None]
            ph = tl.load(pointers_ptr + across + h * D, mask=real_across, other=0.0)
            scores += tl.dot(read.to(ph.dtype), ph, input_precision=PRECISION)
        scores *= pointer_scale
        if DRAWN:
            if CLIPPED:
                # tanh by exp, which never overflows on this side
                e = tl.exp(-2 * tl.abs(scores))
                scores = clip * tl.where(scores < 0, -1.0, 1.0) * (1 - e) / (1 + e)
            scores -= tl.log(-tl.log(_uniform_noise(seed, t, R, K)))
        # clipping keeps the order, so who takes the best need not clip
        at = tl.argmax(tl.where(left, scores, float("-inf")), 1).to(tl.int32)
        if not STARTED:
            began = tl.where(t == 0, at, began)
        tl.store(written + t, tl.where(t < length, at, -1), mask=here)
        left = left & (k[None, :] != at[:, None])
