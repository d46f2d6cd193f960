"""How the kernels of additive attention are launched: scratch, bands of queries, what adds up."""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from regard.functional.precision import without_autocast
from regard.kernels.additive.plan import (
    BACKWARD_QUERIES_PER_THREAD,
    Block,
    Plan,
    Tensors,
    Tile,
    ceil_div,
    next_power_of_2,
)
from regard.kernels.additive.reference_tiled import add_bias_gradient
from regard.kernels.additive.triton import backward_softmax as backward
from regard.kernels.additive.triton import forward
from regard.kernels.additive.triton.backward_single_query import single_query_bwd_kernel
from regard.kernels.additive.triton.backward_small import small_bwd_kernel
from regard.kernels.additive.triton.backward_tanh import tanh_bwd_kernel
from regard.kernels.additive.triton.pack import pack_factors_kernel

PTX = not triton.knobs.runtime.interpret
# How many programs fill a GPU, and how many keys one of them takes at least, when decoding.
DECODE_PROGRAMS, DECODE_MIN_KEYS = 2048, 64
# Then a program has so many numbers of keys at a time, these warps, and loads so far ahead.
DECODE_BLOCK_ELEMENTS, DECODE_WARPS, DECODE_STAGES = 4096, 2, 4
# How many rows and keys of weights a program has where their slope is taken.
SOFTMAX_BACKWARD_ROWS, SOFTMAX_BACKWARD_KEYS = 32, 128


class _Factors(NamedTuple):
    """Packed products of exponentials, what the numerator's carry besides, and their bits.

    None if tanh is computed.
    """

    words: Tensor | None
    beta: Tensor | None
    bits: Tensor | None


_NO_FACTORS = _Factors(None, None, None)


def _pack_factors(args: Tensors, plan: Plan, x: Tensor, step: int, queries: bool) -> _Factors:
    """The factors of all rows of queries or keys, in steps of a tile."""
    if not plan.should_use_tensor_cores:
        return _NO_FACTORS
    B, H, T, D = x.shape
    tiles = ceil_div(T, step) * (step // 16)
    # a little more: the last of a tile reads ahead
    size = B * H * tiles * plan.groups * 128 + 4096
    words = torch.empty(size, dtype=torch.int32, device=x.device)
    room = (plan.groups + 1) * H * 8 if queries else 0
    beta = torch.empty(room, dtype=torch.float32, device=x.device)
    bits = torch.zeros(B * H * tiles, dtype=torch.int32, device=x.device)
    plan.launch(
        "queries" if queries else "keys", pack_factors_kernel,
        (tiles, ceil_div(plan.groups, 16), B * H),
        x, args.vector, words, beta, bits, H, T, D, plan.groups, tiles, *x.stride()[:3], queries,
        16,
        PTX, num_warps=4,
    )  # fmt: skip
    if queries:
        words = words.view(torch.float32)
    return _Factors(words, beta, bits.view(torch.float32))


def launch_forward(args: Tensors, plan: Plan, lse: Tensor | None) -> Tensor:
    """What is read, or the log of the weight at index; the log-sum-exp goes to `lse`.

    It is only for calls that forget it that there may be none.
    """
    p, tile = plan, plan.tile
    if args.v is None:
        out = args.q.new_empty((p.B, p.H, p.Q))
    else:
        out = args.q.new_empty((p.B, p.H, p.Q, p.E))
        if lse is not None and p.is_decode_step:
            _launch_decode(args, plan, out, lse)
            return out
    name = "read" if lse is not None else "read and forget"
    numbers = p.scalar_args.get("read") or _forward_scalar_args(plan)
    w = _pack_factors(args, plan, args.k, tile.keys, False)
    for base in range(0, p.Q, plan.forward_band):
        rows = min(plan.forward_band, p.Q - base)
        u = _pack_factors(
            args,
            plan,
            args.q[:, :, base : base + rows] if p.should_use_tensor_cores else args.q,
            tile.rows,
            True,
        )
        tiles = ceil_div(rows, tile.rows)
        plan.launch(
            name, forward.additive_fwd_kernel,
            (p.B * p.H, tiles) if p.is_uneven else (tiles, p.B * p.H),
            args.q, args.k, args.v, args.vector, u.words, w.words, u.beta, u.bits, w.bits,
            args.key_index, out, lse,
            *args.rule, base, rows, *numbers, num_warps=tile.warps, num_stages=1,
        )  # fmt: skip
    return out


def _forward_scalar_args(plan: Plan) -> tuple[Any, ...]:
    p = plan
    p.scalar_args["read"] = (
        *(p.H, p.group_size, p.Q, p.K, p.D, p.E, p.groups, p.back, p.ahead, *p.strides, *p.tile),
        *(next_power_of_2(max(p.E, 16)), p.is_uneven, *_constexpr_args(plan)),
    )
    return p.scalar_args["read"]


def _constexpr_args(plan: Plan) -> tuple[str, bool, bool]:
    """How products are multiplied, whether rows are read in fours, whether there is a GPU."""
    return "tf32x3" if plan.exact else "tf32", plan.aligned, PTX


def _launch_decode(args: Tensors, plan: Plan, out: Tensor, lse: Tensor) -> None:
    """Few queries: a program each and a share of the keys, then one that combines the shares."""
    p, N = plan, plan.B * plan.H * plan.Q
    BD, DV = next_power_of_2(max(p.D, 16)), next_power_of_2(max(p.E, 16))
    BK = max(1, min(64, DECODE_BLOCK_ELEMENTS // max(BD, DV)))
    parts = max(1, min(ceil_div(DECODE_PROGRAMS, N), ceil_div(p.K, DECODE_MIN_KEYS)))
    keys = ceil_div(ceil_div(p.K, parts), BK) * BK
    parts = ceil_div(p.K, keys)
    room = None
    if parts > 1:
        room = torch.empty(parts * N * (1 + p.E), dtype=torch.float32, device=out.device)
    plan.launch(
        "decode", forward.decode_fwd_kernel, (parts, N),
        args.q, args.k, args.v, args.vector, out, lse, room, *args.rule, p.H, p.group_size, p.Q,
        p.K, p.D, p.E,
        p.back, p.ahead, keys, *p.strides, BK, BD, DV, DECODE_STAGES, (BD, DV) == (p.D, p.E),
        p.can_hide_keys,
        p.exact, PTX, num_warps=DECODE_WARPS,
    )  # fmt: skip
    if room is not None:
        plan.launch(
            "combine", forward.combine_splits_fwd_kernel, (N,), room, out, lse, parts, p.E,
            next_power_of_2(parts), DV,
            num_warps=4,
        )  # fmt: skip


class Grads(NamedTuple):
    """Gradients; those of k, v, vector and bias in float32, where they are added up.

    In the making that of the vector is in parts, one for each share of the keys.
    """

    q: Tensor
    k: Tensor
    v: Tensor | None
    vector: Tensor
    bias: Tensor | None


def launch_backward(
    args: Tensors, plan: Plan, d_out: Tensor, lse: Tensor | None, bias_wanted: bool
) -> Grads:
    """All gradients; one launch if the call is little or has one query, else bands of queries."""
    if plan.small_tile is not None:
        return _launch_backward_small(args, plan, plan.small_tile, d_out)
    assert lse is not None
    if plan.single_query_block is not None:
        return _launch_backward_single_query(
            args, plan, plan.single_query_block, d_out, lse, bias_wanted
        )
    return _launch_backward_in_bands(d_out, args, plan, lse, bias_wanted)


@without_autocast
def _launch_backward_in_bands(
    d_out: Tensor, args: Tensors, plan: Plan, lse: Tensor, bias_wanted: bool
) -> Grads:
    """All gradients, a band of queries at a time."""
    p, new, exact = plan, args.q.new_empty, torch.float32
    adds = args.v is not None and not p.is_single_band
    grads = Grads(
        new((p.B, p.H, p.Q, p.D)),
        new((p.B, p.G, p.K, p.D), dtype=exact),
        args.q.new_zeros((p.B * p.H, p.K, p.E), dtype=exact) if adds else None,
        new((p.B * p.H, p.backward_key_splits, p.D), dtype=exact),
        args.bias.new_zeros(args.bias.shape, dtype=exact)
        if args.bias is not None and bias_wanted
        else None,
    )
    w = _pack_factors(args, plan, args.k, plan.tile.keys, False)
    dv = grads.v
    for base in range(0, p.Q, plan.backward_band):
        band = slice(base, min(base + plan.backward_band, p.Q))
        found = _launch_backward_band(args, plan, d_out, lse, w, grads, band)
        dv = found if dv is None else dv
    if dv is not None:
        dv = dv.view(p.B, p.H, p.K, p.E)
        dv = dv if p.group_size == 1 else dv.unflatten(1, (p.G, p.group_size)).sum(2)
    return grads._replace(
        v=dv, vector=grads.vector.view(p.B, p.H, p.backward_key_splits, p.D).sum((0, 2))
    )


def _launch_backward_small(args: Tensors, plan: Plan, tile: Tile, d_out: Tensor) -> Grads:
    """All gradients of a little call."""
    p, BH = plan, plan.B * plan.H
    dq, dk, dv = (
        _empty_contiguous_like(args.q),
        _empty_contiguous_like(args.k),
        None if args.v is None else _empty_contiguous_like(args.v),
    )
    slopes = BH * p.K * tile.rows
    room = args.q.new_empty(slopes + BH * p.D, dtype=torch.float32)
    numbers = p.scalar_args.get("at once") or _backward_small_scalar_args(plan, tile)
    apart = "" if d_out.data_ptr() % 16 == 0 else " apart"  # it is no part of the plan
    plan.launch(
        f"at once{apart}", small_bwd_kernel, (ceil_div(p.D, 32 * tile.warps), BH),
        args.q, args.k, args.v, args.vector, args.key_index, d_out, room, dq, dk, dv, *args.rule,
        *numbers,
        num_warps=tile.warps, num_stages=1,
    )  # fmt: skip
    of_heads = room.as_strided((p.B, p.H, p.D), (p.H * p.D, p.D, 1), slopes)
    return Grads(dq, dk, dv, of_heads.sum(0), None)


def _backward_small_scalar_args(plan: Plan, tile: Tile) -> tuple[Any, ...]:
    p = plan
    p.scalar_args["at once"] = (
        *(p.H, p.Q, p.K, p.D, p.E, p.back, p.ahead, *p.strides, *tile),
        *(_value_chunk(plan), 32 * tile.warps, *_constexpr_args(plan)),
    )
    return p.scalar_args["at once"]


def _launch_backward_single_query(
    args: Tensors, plan: Plan, block: Block, d_out: Tensor, lse: Tensor, bias_wanted: bool
) -> Grads:
    """All gradients of a call of one query."""
    assert args.v is not None
    p, exact = plan, torch.float32
    dq, dk, dv = (
        _empty_contiguous_like(args.q),
        _empty_contiguous_like(args.k),
        _empty_contiguous_like(args.v),
    )
    of_heads = args.q.new_empty((p.B, p.H, p.D), dtype=exact)
    room = None if block.keys >= p.K else args.q.new_empty((p.B, p.H, 2, p.K), dtype=exact)
    g, d_bias = None, None
    if args.bias is not None and bias_wanted:
        g = args.q.new_empty((p.B, p.H, 1, p.K), dtype=exact)
        d_bias = args.bias.new_zeros(args.bias.shape, dtype=exact)
    # neither is part of the plan
    name = "single" if g is None else "single and bias"
    apart = "" if d_out.data_ptr() % 16 == 0 else " apart"
    plan.launch(
        f"{name}{apart}", single_query_bwd_kernel, (p.B * p.H,),
        args.q, args.k, args.v, args.vector, lse, d_out, room, g, dq, dk, dv, of_heads, *args.rule,
        p.H, p.K, p.D, p.E, p.back, p.ahead, *p.strides, *block, PTX, num_warps=block.warps,
    )  # fmt: skip
    if g is not None and d_bias is not None:
        add_bias_gradient(g, d_bias, (slice(0, p.B), slice(0, p.H), slice(0, 1)))
    return Grads(dq, dk, dv, of_heads.sum(0), d_bias)


def _value_chunk(plan: Plan) -> int:
    """How many numbers of a value are multiplied at a time in the backward."""
    return min(128, next_power_of_2(max(plan.E, 16)))


def _empty_contiguous_like(x: Tensor) -> Tensor:
    """Memory for as much, row after row."""
    return torch.empty_like(x) if x.is_contiguous() else x.new_empty(x.shape)


def _launch_backward_band(
    args: Tensors, plan: Plan, d_out: Tensor, lse: Tensor, w: _Factors, grads: Grads, band: slice
) -> Tensor | None:
    """Add what a band of queries gives; the gradient of v, if there is no other band."""
    p, BH = plan, plan.B * plan.H
    R = ceil_div(band.stop - band.start, BACKWARD_QUERIES_PER_THREAD) * BACKWARD_QUERIES_PER_THREAD
    half, g = _launch_softmax_backward(args, plan, d_out, lse, w, band, R)
    if grads.bias is not None:
        whole = (slice(0, p.B), slice(0, p.H), band)
        add_bias_gradient(
            g.view(p.B, p.H, p.K, R)[..., : band.stop - band.start].mT, grads.bias, whole
        )
    _launch_tanh_backward(args, plan, g, grads, band, R)
    if args.v is None:
        return None
    d_read = d_out.view(BH, p.Q, p.E)
    if p.is_single_band:
        return torch.bmm(half if R == p.Q else half[..., : p.Q], d_read)
    assert grads.v is not None
    _add_product(grads.v, half[..., : band.stop - band.start], d_read[:, band])
    return None


def _launch_softmax_backward(
    args: Tensors, plan: Plan, d_out: Tensor, lse: Tensor, w: _Factors, band: slice, R: int
) -> tuple[Tensor, Tensor]:
    """The weights of a band and the gradient of its scores, (B·H, K, R)."""
    p, tile, BH, device = plan, plan.softmax_backward_tile, plan.B * plan.H, args.q.device
    base, rows, tiles = band.start, band.stop - band.start, ceil_div(p.K, tile.keys)
    half = torch.empty((BH, p.K, R), dtype=args.q.dtype, device=device)
    g = torch.empty((BH, p.K, R), dtype=torch.float32, device=device)
    weights, sums = half, None
    if not p.has_single_key_tile:
        weights = torch.empty_like(g)
        sums = torch.empty((BH, tiles, 2, R), dtype=torch.float32, device=device)
    u = _pack_factors(
        args, plan, args.q if p.is_single_band else args.q[:, :, band], tile.rows, True
    )
    apart = "" if d_out.data_ptr() % 16 == 0 else " apart"  # it is no part of the plan
    plan.launch(
        f"weigh{apart}", backward.weights_bwd_kernel, (tiles, ceil_div(R, tile.rows), BH),
        args.q, args.k, args.v, args.vector, u.words, w.words, u.beta, u.bits, w.bits, lse,
        args.key_index, d_out,
        weights, g, sums, *args.rule, base, rows, p.H, p.group_size, p.Q, p.K, p.D, p.E, R,
        p.groups,
        p.back, p.ahead, *p.strides, *tile, _value_chunk(plan), *_constexpr_args(plan),
        num_warps=tile.warps, num_stages=1,
    )  # fmt: skip
    if sums is not None:
        plan.launch(
            f"slope{apart}", backward.softmax_bwd_kernel, 
        (ceil_div(p.K, SOFTMAX_BACKWARD_KEYS), ceil_div(R, SOFTMAX_BACKWARD_ROWS), BH),
            weights, g, sums, half, args.key_index, d_out, base, rows, tiles, p.Q, p.K, R,
            SOFTMAX_BACKWARD_ROWS, SOFTMAX_BACKWARD_KEYS, 32,
            num_warps=4,
        )  # fmt: skip
    return half, g


def _launch_tanh_backward(
    args: Tensors, plan: Plan, g: Tensor, grads: Grads, band: slice, R: int
) -> None:
    """From the gradient of a band's scores through tanh."""
    p, base, rows = plan, band.start, band.stop - band.start
    dq, place = grads.q, (p.Q, base)
    if p.backward_key_splits > 1:
        shape, place = (p.B, p.H, p.backward_key_splits, rows, p.D), (rows, 0)
        dq = torch.empty(shape, dtype=torch.float32, device=args.q.device)
    warps = min(4, next_power_of_2(ceil_div(p.D, 32)))
    plan.launch(
        "descend", tanh_bwd_kernel, (p.backward_key_splits, ceil_div(p.D, 32 * warps), p.B * p.G),
        args.q, args.k, args.vector, g, dq, grads.k, grads.vector, base, rows, p.H, p.group_size,
        p.Q, p.K,
        p.D, R, p.backward_keys, p.back, p.ahead, *place, p.strides[1], p.strides[2],
        BACKWARD_QUERIES_PER_THREAD, 32 * warps,
        p.exact, PTX, num_warps=warps,
        # the swift loop needs no more, and more programs at a time hide its waiting
        maxnreg=None if p.exact else 128,
    )  # fmt: skip
    if p.backward_key_splits > 1:
        grads.q[:, :, band] = dq.sum(2)


def _add_product(total: Tensor, a: Tensor, b: Tensor, rows: int = 4096) -> None:
    """Add a @ b to a float32 total, some rows at a time."""
    for part, some in zip(total.split(rows, 1), a.split(rows, 1), strict=True):
        if a.is_cuda and a.dtype != torch.float32:
            part += torch.bmm(some, b, out_dtype=torch.float32)
        else:
            part += torch.bmm(some.float(), b.float())
