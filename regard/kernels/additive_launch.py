"""How the kernels of additive attention are launched: scratch, bands of queries, what adds up."""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from regard.functional.precision import without_autocast
from regard.kernels import additive_backward as backward
from regard.kernels import additive_forward as forward
from regard.kernels.additive_descent import descend
from regard.kernels.additive_factors import prepare
from regard.kernels.additive_little import descend_at_once
from regard.kernels.additive_plan import FEW, QUERIES, Block, Plan, Tensors, Tile, power, up
from regard.kernels.additive_single import descend_single
from regard.kernels.additive_tiled import fold

PTX = not triton.knobs.runtime.interpret
# How many programs fill a card, and how many keys one of them takes at least, when decoding.
PROGRAMS, LEAST = 2048, 64
# Then a program has so many numbers of keys at a time, these warps, and loads so far ahead.
BLOCK, WARPS, STAGES = 4096, 2, 4
# How many rows and keys of weights a program has where their slope is taken.
ROWS, KEYS = 32, 128


class _Factors(NamedTuple):
    """Packed products of exponentials, what the numerator's carry besides, and their bits.

    None if tanh is computed.
    """

    words: Tensor | None
    beta: Tensor | None
    bits: Tensor | None


_NO_FACTORS = _Factors(None, None, None)


def _factors(of: Tensors, plan: Plan, x: Tensor, step: int, queries: bool) -> _Factors:
    """The factors of all rows of queries or keys, in steps of a tile."""
    if not plan.swift:
        return _NO_FACTORS
    B, H, T, D = x.shape
    tiles = up(T, step) * (step // 16)
    # a little more: the last of a tile reads ahead
    size = B * H * tiles * plan.groups * 128 + 4096
    words = torch.empty(size, dtype=torch.int32, device=x.device)
    room = (plan.groups + 1) * H * 8 if queries else 0
    beta = torch.empty(room, dtype=torch.float32, device=x.device)
    bits = torch.zeros(B * H * tiles, dtype=torch.int32, device=x.device)
    plan.launch(
        "queries" if queries else "keys", prepare, (tiles, up(plan.groups, 16), B * H),
        x, of.vector, words, beta, bits, H, T, D, plan.groups, tiles, *x.stride()[:3], queries, 16,
        PTX, num_warps=4,
    )  # fmt: skip
    if queries:
        words = words.view(torch.float32)
    return _Factors(words, beta, bits.view(torch.float32))


def read(of: Tensors, plan: Plan, lse: Tensor | None) -> Tensor:
    """What is read, or the log of the weight at index; the log-sum-exp goes to `lse`.

    It is only for calls that forget it that there may be none.
    """
    p, tile = plan, plan.tile
    if of.v is None:
        out = of.q.new_empty((p.B, p.H, p.Q))
    else:
        out = of.q.new_empty((p.B, p.H, p.Q, p.E))
        if lse is not None and p.Q <= FEW:
            _decode(of, plan, out, lse)
            return out
    name = "read" if lse is not None else "read and forget"
    numbers = p.numbers.get("read") or _numbers_to_read(plan)
    w = _factors(of, plan, of.k, tile.keys, False)
    for base in range(0, p.Q, plan.forward_band):
        rows = min(plan.forward_band, p.Q - base)
        u = _factors(of, plan, of.q[:, :, base : base + rows] if p.swift else of.q, tile.rows, True)
        tiles = up(rows, tile.rows)
        plan.launch(
            name, forward.read, (p.B * p.H, tiles) if p.uneven else (tiles, p.B * p.H),
            of.q, of.k, of.v, of.vector, u.words, w.words, u.beta, u.bits, w.bits, of.at, out, lse,
            *of.rule, base, rows, *numbers, num_warps=tile.warps, num_stages=1,
        )  # fmt: skip
    return out


def _numbers_to_read(plan: Plan) -> tuple[Any, ...]:
    p = plan
    p.numbers["read"] = (
        *(p.H, p.share, p.Q, p.K, p.D, p.E, p.groups, p.back, p.ahead, *p.strides, *p.tile),
        *(power(max(p.E, 16)), p.uneven, *_ways(plan)),
    )
    return p.numbers["read"]


def _ways(plan: Plan) -> tuple[str, bool, bool]:
    """How products are multiplied, whether rows are read in fours, whether there is a card."""
    return "tf32x3" if plan.exact else "tf32", plan.aligned, PTX


def _decode(of: Tensors, plan: Plan, out: Tensor, lse: Tensor) -> None:
    """Few queries: a program each and a share of the keys, then one that combines the shares."""
    p, N = plan, plan.B * plan.H * plan.Q
    BD, DV = power(max(p.D, 16)), power(max(p.E, 16))
    BK = max(1, min(64, BLOCK // max(BD, DV)))
    parts = max(1, min(up(PROGRAMS, N), up(p.K, LEAST)))
    keys = up(up(p.K, parts), BK) * BK
    parts = up(p.K, keys)
    room = None
    if parts > 1:
        room = torch.empty(parts * N * (1 + p.E), dtype=torch.float32, device=out.device)
    plan.launch(
        "decode", forward.decode, (parts, N),
        of.q, of.k, of.v, of.vector, out, lse, room, *of.rule, p.H, p.share, p.Q, p.K, p.D, p.E,
        p.back, p.ahead, keys, *p.strides, BK, BD, DV, STAGES, (BD, DV) == (p.D, p.E), p.hides,
        p.exact, PTX, num_warps=WARPS,
    )  # fmt: skip
    if room is not None:
        plan.launch(
            "combine", forward.combine, (N,), room, out, lse, parts, p.E, power(parts), DV,
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


def gradients(
    of: Tensors, plan: Plan, d_out: Tensor, lse: Tensor | None, bias_wanted: bool
) -> Grads:
    """All gradients; one launch if the call is little or has one query, else bands of queries."""
    if plan.little is not None:
        return _at_once(of, plan, plan.little, d_out)
    assert lse is not None
    if plan.single is not None:
        return _of_one(of, plan, plan.single, d_out, lse, bias_wanted)
    return _in_bands(d_out, of, plan, lse, bias_wanted)


@without_autocast
def _in_bands(d_out: Tensor, of: Tensors, plan: Plan, lse: Tensor, bias_wanted: bool) -> Grads:
    """All gradients, a band of queries at a time."""
    p, new, exact = plan, of.q.new_empty, torch.float32
    adds = of.v is not None and not p.one_band
    grads = Grads(
        new((p.B, p.H, p.Q, p.D)),
        new((p.B, p.G, p.K, p.D), dtype=exact),
        of.q.new_zeros((p.B * p.H, p.K, p.E), dtype=exact) if adds else None,
        new((p.B * p.H, p.shares, p.D), dtype=exact),
        of.bias.new_zeros(of.bias.shape, dtype=exact)
        if of.bias is not None and bias_wanted
        else None,
    )
    w = _factors(of, plan, of.k, plan.tile.keys, False)
    dv = grads.v
    for base in range(0, p.Q, plan.backward_band):
        band = slice(base, min(base + plan.backward_band, p.Q))
        found = _one_band(of, plan, d_out, lse, w, grads, band)
        dv = found if dv is None else dv
    if dv is not None:
        dv = dv.view(p.B, p.H, p.K, p.E)
        dv = dv if p.share == 1 else dv.unflatten(1, (p.G, p.share)).sum(2)
    return grads._replace(v=dv, vector=grads.vector.view(p.B, p.H, p.shares, p.D).sum((0, 2)))


def _at_once(of: Tensors, plan: Plan, tile: Tile, d_out: Tensor) -> Grads:
    """All gradients of a little call."""
    p, BH = plan, plan.B * plan.H
    dq, dk, dv = _like(of.q), _like(of.k), None if of.v is None else _like(of.v)
    slopes = BH * p.K * tile.rows
    room = of.q.new_empty(slopes + BH * p.D, dtype=torch.float32)
    numbers = p.numbers.get("at once") or _numbers_at_once(plan, tile)
    apart = "" if d_out.data_ptr() % 16 == 0 else " apart"  # it is no part of the plan
    plan.launch(
        f"at once{apart}", descend_at_once, (up(p.D, 32 * tile.warps), BH),
        of.q, of.k, of.v, of.vector, of.at, d_out, room, dq, dk, dv, *of.rule, *numbers,
        num_warps=tile.warps, num_stages=1,
    )  # fmt: skip
    of_heads = room.as_strided((p.B, p.H, p.D), (p.H * p.D, p.D, 1), slopes)
    return Grads(dq, dk, dv, of_heads.sum(0), None)


def _numbers_at_once(plan: Plan, tile: Tile) -> tuple[Any, ...]:
    p = plan
    p.numbers["at once"] = (
        *(p.H, p.Q, p.K, p.D, p.E, p.back, p.ahead, *p.strides, *tile),
        *(_chunk(plan), 32 * tile.warps, *_ways(plan)),
    )
    return p.numbers["at once"]


def _of_one(
    of: Tensors, plan: Plan, block: Block, d_out: Tensor, lse: Tensor, bias_wanted: bool
) -> Grads:
    """All gradients of a call of one query."""
    assert of.v is not None
    p, exact = plan, torch.float32
    dq, dk, dv = _like(of.q), _like(of.k), _like(of.v)
    of_heads = of.q.new_empty((p.B, p.H, p.D), dtype=exact)
    room = None if block.keys >= p.K else of.q.new_empty((p.B, p.H, 2, p.K), dtype=exact)
    g, d_bias = None, None
    if of.bias is not None and bias_wanted:
        g = of.q.new_empty((p.B, p.H, 1, p.K), dtype=exact)
        d_bias = of.bias.new_zeros(of.bias.shape, dtype=exact)
    # neither is part of the plan
    name = "single" if g is None else "single and bias"
    apart = "" if d_out.data_ptr() % 16 == 0 else " apart"
    plan.launch(
        f"{name}{apart}", descend_single, (p.B * p.H,),
        of.q, of.k, of.v, of.vector, lse, d_out, room, g, dq, dk, dv, of_heads, *of.rule,
        p.H, p.K, p.D, p.E, p.back, p.ahead, *p.strides, *block, PTX, num_warps=block.warps,
    )  # fmt: skip
    if g is not None and d_bias is not None:
        fold(g, d_bias, (slice(0, p.B), slice(0, p.H), slice(0, 1)))
    return Grads(dq, dk, dv, of_heads.sum(0), d_bias)


def _chunk(plan: Plan) -> int:
    """How many numbers of a value are multiplied at a time in the backward."""
    return min(128, power(max(plan.E, 16)))


def _like(x: Tensor) -> Tensor:
    """Memory for as much, row after row."""
    return torch.empty_like(x) if x.is_contiguous() else x.new_empty(x.shape)


def _one_band(
    of: Tensors, plan: Plan, d_out: Tensor, lse: Tensor, w: _Factors, grads: Grads, band: slice
) -> Tensor | None:
    """Add what a band of queries gives; the gradient of v, if there is no other band."""
    p, BH = plan, plan.B * plan.H
    R = up(band.stop - band.start, QUERIES) * QUERIES
    half, g = _slopes(of, plan, d_out, lse, w, band, R)
    if grads.bias is not None:
        whole = (slice(0, p.B), slice(0, p.H), band)
        fold(g.view(p.B, p.H, p.K, R)[..., : band.stop - band.start].mT, grads.bias, whole)
    _descend(of, plan, g, grads, band, R)
    if of.v is None:
        return None
    d_read = d_out.view(BH, p.Q, p.E)
    if p.one_band:
        return torch.bmm(half if R == p.Q else half[..., : p.Q], d_read)
    assert grads.v is not None
    _add_product(grads.v, half[..., : band.stop - band.start], d_read[:, band])
    return None


def _slopes(
    of: Tensors, plan: Plan, d_out: Tensor, lse: Tensor, w: _Factors, band: slice, R: int
) -> tuple[Tensor, Tensor]:
    """The weights of a band and the gradient of its scores, (B·H, K, R)."""
    p, tile, BH, device = plan, plan.weighing, plan.B * plan.H, of.q.device
    base, rows, tiles = band.start, band.stop - band.start, up(p.K, tile.keys)
    half = torch.empty((BH, p.K, R), dtype=of.q.dtype, device=device)
    g = torch.empty((BH, p.K, R), dtype=torch.float32, device=device)
    weights, sums = half, None
    if not p.whole:
        weights = torch.empty_like(g)
        sums = torch.empty((BH, tiles, 2, R), dtype=torch.float32, device=device)
    u = _factors(of, plan, of.q if p.one_band else of.q[:, :, band], tile.rows, True)
    apart = "" if d_out.data_ptr() % 16 == 0 else " apart"  # it is no part of the plan
    plan.launch(
        f"weigh{apart}", backward.weigh, (tiles, up(R, tile.rows), BH),
        of.q, of.k, of.v, of.vector, u.words, w.words, u.beta, u.bits, w.bits, lse, of.at, d_out,
        weights, g, sums, *of.rule, base, rows, p.H, p.share, p.Q, p.K, p.D, p.E, R, p.groups,
        p.back, p.ahead, *p.strides, *tile, _chunk(plan), *_ways(plan),
        num_warps=tile.warps, num_stages=1,
    )  # fmt: skip
    if sums is not None:
        plan.launch(
            f"slope{apart}", backward.slope, (up(p.K, KEYS), up(R, ROWS), BH),
            weights, g, sums, half, of.at, d_out, base, rows, tiles, p.Q, p.K, R, ROWS, KEYS, 32,
            num_warps=4,
        )  # fmt: skip
    return half, g


def _descend(of: Tensors, plan: Plan, g: Tensor, grads: Grads, band: slice, R: int) -> None:
    """From the gradient of a band's scores through tanh."""
    p, base, rows = plan, band.start, band.stop - band.start
    dq, place = grads.q, (p.Q, base)
    if p.shares > 1:
        shape, place = (p.B, p.H, p.shares, rows, p.D), (rows, 0)
        dq = torch.empty(shape, dtype=torch.float32, device=of.q.device)
    warps = min(4, power(up(p.D, 32)))
    plan.launch(
        "descend", descend, (p.shares, up(p.D, 32 * warps), p.B * p.G),
        of.q, of.k, of.vector, g, dq, grads.k, grads.vector, base, rows, p.H, p.share, p.Q, p.K,
        p.D, R, p.keys, p.back, p.ahead, *place, p.strides[1], p.strides[2], QUERIES, 32 * warps,
        p.exact, PTX, num_warps=warps,
        # the swift loop needs no more, and more programs at a time hide its waiting
        maxnreg=None if p.exact else 128,
    )  # fmt: skip
    if p.shares > 1:
        grads.q[:, :, band] = dq.sum(2)


def _add_product(total: Tensor, a: Tensor, b: Tensor, rows: int = 4096) -> None:
    """Add a @ b to a float32 total, some rows at a time."""
    for part, some in zip(total.split(rows, 1), a.split(rows, 1), strict=True):
        if a.is_cuda and a.dtype != torch.float32:
            part += torch.bmm(some, b, out_dtype=torch.float32)
        else:
            part += torch.bmm(some.float(), b.float())
