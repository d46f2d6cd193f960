"""All steps of a machine forward, in one kernel: a program has one row of a batch.

The twin is `reference.forward_step`. The memory stays in registers from the first step to the last;
what the way back needs is written down on the way.
"""

import triton
import triton.language as tl

from regard.kernels.ntm.triton.tiles import (
    circular_shift,
    inverse_norm,
    matvec_add,
    softmax,
    softmax_max_and_sum,
    softplus,
    tanh,
)


@triton.jit
def controller_step(
    z_ptr,
    x_ptr,
    cell_ptr,
    wx_ptr,
    b,
    t,
    B,
    LSTM: tl.constexpr,
    C: tl.constexpr,
    RW: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_Z: tl.constexpr,
    STEP: tl.constexpr,
):
    """The controller's step: gates are bent in their place, the new state is written behind."""
    Z: tl.constexpr = 4 * C if LSTM else C
    X: tl.constexpr = RW + C if LSTM else RW
    c = tl.arange(0, BLOCK_C)
    row = (t * B + b).to(tl.int64)
    z_ptr += row * Z
    for first in tl.static_range(0, Z, BLOCK_Z):
        z = first + tl.arange(0, BLOCK_Z)
        sums = tl.load(z_ptr + z, mask=z < Z, other=0.0)
        sums = matvec_add(sums, wx_ptr, x_ptr + row * (RW + C), z, Z, X, STEP)
        if LSTM:
            # tanh for what is new, the sigmoid for the rest: both are one sigmoid
            new = (z >= 2 * C) & (z < 3 * C)
            bent = tl.sigmoid(tl.where(new, 2 * sums, sums))
            tl.store(z_ptr + z, tl.where(new, 2 * bent - 1, bent), mask=z < Z)
        else:
            tl.store(z_ptr + z, tanh(sums), mask=z < Z)
    tl.debug_barrier()
    hidden = tl.load(z_ptr + c, mask=c < C, other=0.0)
    if LSTM:
        keep = tl.load(z_ptr + C + c, mask=c < C, other=0.0)
        new = tl.load(z_ptr + 2 * C + c, mask=c < C, other=0.0)
        out = tl.load(z_ptr + 3 * C + c, mask=c < C, other=0.0)
        cell = tl.load(cell_ptr + row * C + c, mask=c < C, other=0.0)
        cell = keep * cell + hidden * new
        tl.store(cell_ptr + (row + B) * C + c, cell, mask=c < C)
        hidden = out * tanh(cell)
    tl.store(x_ptr + (row + B) * (RW + C) + RW + c, hidden, mask=c < C)


@triton.jit
def ntm_fwd_kernel(
    z_ptr,
    x_ptr,
    cell_ptr,
    address_ptr,
    memory_ptr,
    wx_ptr,
    wp_ptr,
    bias_ptr,
    head_parameters_ptr,
    content_ptr,
    gated_ptr,
    T,
    B,
    LSTM: tl.constexpr,
    C: tl.constexpr,
    R: tl.constexpr,
    WRITES: tl.constexpr,
    N: tl.constexpr,
    W: tl.constexpr,
    SHIFTS: tl.constexpr,
    P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_Z: tl.constexpr,
    STEP: tl.constexpr,
):
    """All steps: what is read and said lies side by side in x (T + 1, B, R W + C)."""
    H: tl.constexpr = R + WRITES
    b = tl.program_id(0)
    n, w, s = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_W), tl.arange(0, BLOCK_S)
    slots = n[:, None] * W + w[None, :]
    inside = (n[:, None] < N) & (w[None, :] < W)
    memory = tl.load(memory_ptr + b.to(tl.int64) * N * W + slots, mask=inside, other=0.0)
    for t in range(T):
        row = (t * B + b).to(tl.int64)
        x = x_ptr + (row + B) * (R * W + C)
        controller_step(
            z_ptr, x_ptr, cell_ptr, wx_ptr, b, t, B, LSTM, C, R * W, BLOCK_C, BLOCK_Z, STEP
        )
        tl.debug_barrier()
        told = head_parameters_ptr + row * P
        for first in tl.static_range(0, P, BLOCK_P):
            p = first + tl.arange(0, BLOCK_P)
            order = tl.load(bias_ptr + p, mask=p < P, other=0.0)
            order = matvec_add(order, wp_ptr, x + R * W, p, P, C, STEP)
            tl.store(told + p, order, mask=p < P)
        tl.debug_barrier()
        of_slot = inverse_norm(tl.sum(memory * memory, 1))
        kept, plus = tl.full([BLOCK_N, BLOCK_W], 1.0, tl.float32), tl.zeros_like(memory)
        for h in range(H):
            key = tanh(tl.load(told + h * W + w, mask=w < W, other=0.0))
            scalars = told + (H + 2 * WRITES) * W + h
            gate = tl.sigmoid(tl.load(scalars))
            strength, sharp = softplus(tl.load(scalars + H)), 1 + softplus(tl.load(scalars + 2 * H))
            turns = told + (H + 2 * WRITES) * W + 3 * H + h * SHIFTS
            most, total = softmax_max_and_sum(turns, s, SHIFTS)
            of_key = inverse_norm(tl.sum(key * key, 0))
            cosine = tl.sum(memory * key[None, :], 1) * of_slot * of_key
            content = softmax(strength * cosine, n < N)
            ring = (row * H + h) * N
            before = tl.load(address_ptr + ring + n, mask=n < N, other=0.0)
            gated = before + gate * (content - before)
            tl.store(content_ptr + ring + n, content, mask=n < N)
            tl.store(gated_ptr + ring + n, gated, mask=n < N)
            tl.debug_barrier()
            moved = circular_shift(gated_ptr + ring, n, turns, most, total, N, SHIFTS)
            place = softmax(sharp * tl.log(moved), n < N)
            tl.store(address_ptr + ring + B * H * N + n, place, mask=n < N)
            if h >= R:
                write = told + H * W + (h - R) * W + w
                add = tanh(tl.load(write, mask=w < W, other=0.0))
                erase = tl.sigmoid(tl.load(write + WRITES * W, mask=w < W, other=0.0))
                kept *= 1 - place[:, None] * erase[None, :]
                plus += place[:, None] * add[None, :]
        memory = memory * kept + plus
        tl.store(memory_ptr + (row + B) * N * W + slots, memory, mask=inside)
        tl.debug_barrier()
        for i in range(R):
            place = tl.load(address_ptr + ((row + B) * H + i) * N + n, mask=n < N, other=0.0)
            tl.store(x + i * W + w, tl.sum(memory * place[:, None], 0), mask=w < W)
        tl.debug_barrier()
