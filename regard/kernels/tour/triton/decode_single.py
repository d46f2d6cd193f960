"""All steps of one tour of an instance in one kernel, on plain cores. Twin: `reference`.

Where an instance has few tours, tensor cores would multiply rows of nothing. Here a program has one
tour and all heads: a step is three sums over the tables, which stay in the nearest cache.
"""

import triton
import triton.language as tl


@triton.jit
def decode_single_tour_kernel(
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
    K: tl.constexpr,
    STARTED: tl.constexpr,
    DRAWN: tl.constexpr,
    CLIPPED: tl.constexpr,
):
    """Write (B, S, T) points; tables are (B, N, E)."""
    row = tl.program_id(0)
    b = row // S
    k, h, d = tl.arange(0, K), tl.arange(0, H), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    left = k < length
    seed = tl.load(seeds_ptr) + row if DRAWN else 0
    table = b.to(tl.int64) * N * E
    one = h[:, None] * D + d[None, :]  # a row of a table (H, D)
    all_of_them = table + k[:, None, None] * E + one[None]  # (K, H, D)
    written = tours_ptr + row.to(tl.int64) * T
    always = tl.load(fixed_ptr + b * E + one).to(tl.float32)
    # a tour that has not begun is part of every point alike
    base = always + tl.load(begin_ptr + one).to(tl.float32)
    at = 0
    if STARTED:
        at = tl.load(starts_ptr + row).to(tl.int32)
        tl.store(written, at)
        left = left & (k != at)
        base = always + tl.load(first_ptr + table + at * E + one).to(tl.float32)
    for t in range(1 if STARTED else 0, T):
        q = base
        if t > 0:
            q += tl.load(last_ptr + table + at * E + one).to(tl.float32)
        # what is not left is not read
        seen = left[:, None, None]
        kt = tl.load(keys_ptr + all_of_them, mask=seen, other=0.0).to(tl.float32)
        match = tl.sum(kt * q[None], 2) * glimpse_scale  # (K, H)
        match = tl.where(left[:, None], match, float("-inf"))
        peak = tl.max(match, 0)
        # a tour that is over sees nothing, and what it finds is not written
        weights = tl.exp(match - tl.where(peak == float("-inf"), 0.0, peak)[None])
        weights = weights / tl.maximum(tl.sum(weights, 0), 1e-30)[None]
        vt = tl.load(values_ptr + all_of_them, mask=seen, other=0.0).to(tl.float32)
        read = tl.sum(vt * weights[:, :, None], 0)  # (H, D)
        pt = tl.load(pointers_ptr + all_of_them, mask=seen, other=0.0).to(tl.float32)
        scores = tl.sum(tl.sum(pt * read[None], 2), 1) * pointer_scale  # (K,)
        if DRAWN:
            if CLIPPED:
                # tanh by exp, which never overflows on this side
                e = tl.exp(-2 * tl.abs(scores))
                scores = clip * tl.where(scores < 0, -1.0, 1.0) * (1 - e) / (1 + e)
            drawn = tl.rand(seed, t * K + k)
            scores -= tl.log(-tl.log(tl.minimum(tl.maximum(drawn, 1e-7), 1 - 1e-7)))
        at = tl.argmax(tl.where(left, scores, float("-inf")), 0).to(tl.int32)
        if not STARTED:  # noqa: SIM102  what is known when compiling, and what is not
            if t == 0:
                base = always + tl.load(first_ptr + table + at * E + one).to(tl.float32)
        tl.store(written + t, tl.where(t < length, at, -1))
        left = left & (k != at)
