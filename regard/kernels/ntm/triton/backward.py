"""All steps of a machine backward, in one kernel: a program has one row of a batch.

The twin is `reference.backward_step`; names are those of `forward.py`. What is carried from step to
step is the gain of the memory, in registers, and that of places, in `dplace`.
"""

import triton
import triton.language as tl

from regard.kernels.ntm.triton.tiles import (
    circular_shift,
    inverse_norm,
    matvec_add,
    softmax_backward,
    softmax_max_and_sum,
    softplus,
    tanh,
)


@triton.jit
def controller_backward(
    dhidden,
    dcell,
    z_ptr,
    cell_ptr,
    dz_ptr,
    row,
    B,
    LSTM: tl.constexpr,
    C: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """What the gates gain, written down, and the cell before, given back."""
    Z: tl.constexpr = 4 * C if LSTM else C
    c = tl.arange(0, BLOCK_C)
    z_ptr += row * Z
    dz_ptr += row * Z
    into = tl.load(z_ptr + c, mask=c < C, other=0.0)
    if LSTM:
        keep = tl.load(z_ptr + C + c, mask=c < C, other=0.0)
        new = tl.load(z_ptr + 2 * C + c, mask=c < C, other=0.0)
        out = tl.load(z_ptr + 3 * C + c, mask=c < C, other=0.0)
        bent = tanh(tl.load(cell_ptr + (row + B) * C + c, mask=c < C, other=0.0))
        before = tl.load(cell_ptr + row * C + c, mask=c < C, other=0.0)
        dcell += dhidden * out * (1 - bent * bent)
        tl.store(dz_ptr + c, dcell * new * into * (1 - into), mask=c < C)
        tl.store(dz_ptr + C + c, dcell * before * keep * (1 - keep), mask=c < C)
        tl.store(dz_ptr + 2 * C + c, dcell * into * (1 - new * new), mask=c < C)
        tl.store(dz_ptr + 3 * C + c, dhidden * bent * out * (1 - out), mask=c < C)
        dcell *= keep
    else:
        tl.store(dz_ptr + c, dhidden * (1 - into * into), mask=c < C)
    return dcell


@triton.jit
def read_backward(
    dM,
    memory,
    dread_ptr,
    carried_ptr,
    address_ptr,
    daddress_ptr,
    n,
    w,
    R: tl.constexpr,
    N: tl.constexpr,
    W: tl.constexpr,
):
    """What memory and reading places gain of what was read."""
    for i in range(R):
        gained = tl.load(dread_ptr + i * W + w, mask=w < W, other=0.0)
        gained += tl.load(carried_ptr + i * W + w, mask=w < W, other=0.0)
        place = tl.load(address_ptr + i * N + n, mask=n < N, other=0.0)
        dM += place[:, None] * gained[None, :]
        dplace = tl.load(daddress_ptr + i * N + n, mask=n < N, other=0.0)
        dplace += tl.sum(memory * gained[None, :], 1)
        tl.store(daddress_ptr + i * N + n, dplace, mask=n < N)
    return dM


@triton.jit
def write_backward(
    dM,
    memory,
    add_erase_ptr,
    dadd_erase_ptr,
    address_ptr,
    daddress_ptr,
    n,
    w,
    WRITES: tl.constexpr,
    N: tl.constexpr,
    W: tl.constexpr,
):
    """What writing places, adding and erasing vectors gain; what is left of the memory's gain."""
    # told, place_ptr and dplace_ptr begin with the first head that writes
    kept = tl.full(dM.shape, 1.0, tl.float32)
    for i in range(WRITES):
        others = tl.full(dM.shape, 1.0, tl.float32)
        for j in range(WRITES):
            place = tl.load(address_ptr + j * N + n, mask=n < N, other=0.0)
            erase = tl.load(add_erase_ptr + (WRITES + j) * W + w, mask=w < W, other=0.0)
            left = 1 - place[:, None] * tl.sigmoid(erase)[None, :]
            others *= tl.where(i == j, 1.0, left)
        place = tl.load(address_ptr + i * N + n, mask=n < N, other=0.0)
        add = tanh(tl.load(add_erase_ptr + i * W + w, mask=w < W, other=0.0))
        erase = tl.sigmoid(tl.load(add_erase_ptr + (WRITES + i) * W + w, mask=w < W, other=0.0))
        lost = dM * memory * others
        dadd, derase = tl.sum(dM * place[:, None], 0), -tl.sum(lost * place[:, None], 0)
        tl.store(dadd_erase_ptr + i * W + w, dadd * (1 - add * add), mask=w < W)
        tl.store(dadd_erase_ptr + (WRITES + i) * W + w, derase * erase * (1 - erase), mask=w < W)
        dplace = tl.load(daddress_ptr + i * N + n, mask=n < N, other=0.0)
        # outside of the width of a slot dM and lost are zero
        dplace += tl.sum(dM * add[None, :] - lost * erase[None, :], 1)
        tl.store(daddress_ptr + i * N + n, dplace, mask=n < N)
        kept = others * (1 - place[:, None] * erase[None, :])
    return dM * kept


@triton.jit
def sharpen_shift_backward(
    sharpness_ptr,
    dsharpness_ptr,
    shift_logits_ptr,
    dshift_logits_ptr,
    address_ptr,
    daddress_ptr,
    gated_ptr,
    dshifted_ptr,
    n,
    s,
    N: tl.constexpr,
    SHIFTS: tl.constexpr,
):
    """What the gated weights of a head gain, through sharpening and shift."""
    sharp = 1 + softplus(tl.load(sharpness_ptr))
    place = tl.load(address_ptr + n, mask=n < N, other=0.0)
    a = softmax_backward(place, tl.load(daddress_ptr + n, mask=n < N, other=0.0))
    most, total = softmax_max_and_sum(shift_logits_ptr, s, SHIFTS)
    was = circular_shift(gated_ptr, n, shift_logits_ptr, most, total, N, SHIFTS)
    tl.store(dsharpness_ptr, tl.sum(a * tl.log(was), 0) * tl.sigmoid(tl.load(sharpness_ptr)))
    tl.store(dshifted_ptr + n, a * sharp / was, mask=n < N)
    tl.debug_barrier()
    gated = tl.load(gated_ptr + n, mask=n < N, other=0.0)
    dgated, dshift = tl.zeros_like(gated), tl.zeros_like(s).to(tl.float32)
    for j in tl.static_range(SHIFTS):
        share = tl.exp(tl.load(shift_logits_ptr + j) - most) / total
        there = (n + (j - SHIFTS // 2) + N) % N
        rolled = tl.load(dshifted_ptr + there, mask=n < N, other=0.0)
        dgated += share * rolled
        dshift += tl.where(s == j, tl.sum(rolled * gated, 0), 0.0)
    shift = (
        tl.exp(tl.load(shift_logits_ptr + s, mask=s < SHIFTS, other=float("-inf")) - most) / total
    )
    tl.store(dshift_logits_ptr + s, softmax_backward(shift, dshift), mask=s < SHIFTS)
    return dgated


@triton.jit
def content_address_backward(
    dM,
    memory,
    squared,
    dgated,
    key_ptr,
    dkey_ptr,
    gate_ptr,
    dgate_ptr,
    content_ptr,
    before_ptr,
    daddress_ptr,
    slot_mask,
    cell_mask,
    H: tl.constexpr,
):
    """What memory, key, gate and strength of a head gain; told begins with its gate."""
    gate, raw = tl.sigmoid(tl.load(gate_ptr)), tl.load(gate_ptr + H)
    content = tl.load(content_ptr, mask=slot_mask, other=0.0)
    before = tl.load(before_ptr, mask=slot_mask, other=0.0)
    dgate = tl.sum(dgated * (content - before), 0)
    tl.store(daddress_ptr, dgated * (1 - gate), mask=slot_mask)
    dscore = softmax_backward(content, dgated * gate)
    key = tanh(tl.load(key_ptr, mask=cell_mask, other=0.0))
    of_key, of_slot = inverse_norm(tl.sum(key * key, 0)), inverse_norm(squared)
    cosine = tl.sum(memory * key[None, :], 1) * of_slot * of_key
    dstrength, gained = tl.sum(dscore * cosine, 0), dscore * softplus(raw)
    far, near = tl.sum(gained * cosine, 0), gained * cosine * of_slot * of_slot
    scaled = gained * of_slot
    dkey = of_key * (tl.sum(memory * scaled[:, None], 0) - far * key * of_key)
    tl.store(dkey_ptr, dkey * (1 - key * key), mask=cell_mask)
    tl.store(dgate_ptr, dgate * gate * (1 - gate))
    tl.store(dgate_ptr + H, dstrength * tl.sigmoid(raw))
    return dM + (key * of_key)[None, :] * scaled[:, None] - memory * near[:, None]


@triton.jit
def ntm_bwd_kernel(
    dx_ptr,
    z_ptr,
    cell_ptr,
    address_ptr,
    memory_ptr,
    head_parameters_ptr,
    content_ptr,
    gated_ptr,
    wxt_ptr,
    wpt_ptr,
    dz_ptr,
    dhead_parameters_ptr,
    daddress_ptr,
    dmemory_ptr,
    dcell_ptr,
    carried_ptr,
    dshifted_ptr,
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
    BLOCK_X: tl.constexpr,
    STEP: tl.constexpr,
):
    """All steps back: `carried` is what the step ahead gave to what was read and said."""
    H: tl.constexpr = R + WRITES
    Z: tl.constexpr = 4 * C if LSTM else C
    X: tl.constexpr = R * W + C if LSTM else R * W
    b = tl.program_id(0).to(tl.int64)
    n, w, s = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_W), tl.arange(0, BLOCK_S)
    c, x = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_X)
    slots = n[:, None] * W + w[None, :]
    inside = (n[:, None] < N) & (w[None, :] < W)
    dM = tl.load(dmemory_ptr + b * N * W + slots, mask=inside, other=0.0)
    dcell = tl.zeros([BLOCK_C], tl.float32)
    if LSTM:
        dcell = tl.load(dcell_ptr + b * C + c, mask=c < C, other=0.0)
    after = tl.load(memory_ptr + (T * B + b) * N * W + slots, mask=inside, other=0.0)
    dplaces, moved = daddress_ptr + b * H * N, dshifted_ptr + b * N
    carried = carried_ptr + b * (R * W + C)
    for back in range(T):
        row = (T - 1 - back) * B + b
        told, dtold = head_parameters_ptr + row * P, dhead_parameters_ptr + row * P
        places, dx = address_ptr + (row + B) * H * N, dx_ptr + row * (R * W + C)
        memory = tl.load(memory_ptr + row * N * W + slots, mask=inside, other=0.0)
        dM = read_backward(dM, after, dx, carried, places, dplaces, n, w, R, N, W)
        dM = write_backward(
            dM,
            memory,
            told + H * W,
            dtold + H * W,
            places + R * N,
            dplaces + R * N,
            n,
            w,
            WRITES,
            N,
            W,
        )
        tl.debug_barrier()
        squared = tl.sum(memory * memory, 1)
        for h in range(H):
            ring = (row * H + h) * N
            dgated = sharpen_shift_backward(
                told + (H + 2 * WRITES) * W + 2 * H + h,
                dtold + (H + 2 * WRITES) * W + 2 * H + h,
                told + (H + 2 * WRITES) * W + 3 * H + h * SHIFTS,
                dtold + (H + 2 * WRITES) * W + 3 * H + h * SHIFTS,
                places + h * N,
                dplaces + h * N,
                gated_ptr + ring,
                moved,
                n,
                s,
                N,
                SHIFTS,
            )
            dM = content_address_backward(
                dM,
                memory,
                squared,
                dgated,
                told + h * W + w,
                dtold + h * W + w,
                told + (H + 2 * WRITES) * W + h,
                dtold + (H + 2 * WRITES) * W + h,
                content_ptr + ring + n,
                address_ptr + ring + n,
                dplaces + h * N + n,
                n < N,
                w < W,
                H,
            )
            tl.debug_barrier()
        dhidden = tl.load(dx + R * W + c, mask=c < C, other=0.0)
        dhidden += tl.load(carried + R * W + c, mask=c < C, other=0.0)
        dhidden = matvec_add(dhidden, wpt_ptr, dtold, c, C, P, STEP)
        dcell = controller_backward(
            dhidden, dcell, z_ptr, cell_ptr, dz_ptr, row, B, LSTM, C, BLOCK_C
        )
        tl.debug_barrier()
        gained = tl.zeros([BLOCK_X], tl.float32)
        gained = matvec_add(gained, wxt_ptr, dz_ptr + row * Z, x, X, Z, STEP)
        tl.store(carried + x, gained, mask=x < R * W + C)
        tl.debug_barrier()
        after = memory
    tl.store(dmemory_ptr + b * N * W + slots, dM, mask=inside)
    if LSTM:
        tl.store(dcell_ptr + b * C + c, dcell, mask=c < C)
