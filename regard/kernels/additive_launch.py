"""How the kernels of additive attention are launched: sizes, scratch and bands of queries."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from regard.kernels import additive_backward as backward
from regard.kernels import additive_forward as forward
from regard.kernels.additive_factors import prepare
from regard.kernels.additive_tiled import fold
from regard.kernels.seen import Seen

PTX = not triton.knobs.runtime.interpret
# Up to so many queries, each is a program of its own, and keys are split over programs.
FEW = 4
# How many programs fill a card, and how many keys one of them takes at least, when decoding.
PROGRAMS, LEAST = 1024, 128
# Bytes of scratch for a band of queries in the backward: the inputs' times LONG / K, but within
# these bounds, or SCRATCH if that is more. What is (Q, K) is small beside short inputs.
LONG, BOUNDS, SCRATCH = 8192, (1.0, 8.0), 24 << 20
# From so many terms on, factors are packed for tensor cores.
MANY = 1 << 27
# Registers a thread of the kernels that score may take: with fewer, more of them run at a time.
REGISTERS = 128
# How many calls are remembered, so that a kernel is found without looking at its arguments again.
REMEMBERED = 256


class Tile(NamedTuple):
    """Warps along queries and keys, and 16 × 16 pieces of the tile that each of them has."""

    WR: int
    WC: int
    MT: int
    NP: int

    @property
    def rows(self) -> int:
        return self.WR * self.MT * 16

    @property
    def keys(self) -> int:
        return self.WC * self.NP * 16


@lru_cache(maxsize=REMEMBERED)
def _plan(key: Any) -> dict[str, Any]:
    """The kernels that calls like this one have launched."""
    return {}


def _launch(
    plan: dict[str, Any], name: str, kernel: Any, grid: Any, *args: Any, **options: Any
) -> None:
    """Launch a kernel; at the first time as Triton does it, later with what it compiled then."""
    grid = (*grid, 1, 1)[:3]
    ready = plan.get(name)
    if ready is None:
        plan[name] = kernel[grid](*args, **options)
    else:
        ready[grid](*args)


@dataclass(frozen=True, eq=False)
class Problem:
    """One call: its tensors as kernels take them, and its sizes."""

    q: Tensor
    k: Tensor
    v: Tensor | None
    index: Tensor | None
    vector: Tensor
    seen: Seen
    bias: Tensor | None

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """B, H, Q, K, D, Dv."""
        B, H, Q, D = self.q.shape
        return B, H, Q, self.k.shape[2], D, 0 if self.v is None else self.v.shape[3]

    @property
    def exact(self) -> bool:
        """Whether float32 is asked for: then tanh is computed as such."""
        return self.q.dtype == torch.float32

    @property
    def precision(self) -> str:
        return "tf32x3" if self.exact else "tf32"

    @cached_property
    def plan(self) -> dict[str, Any]:
        """What is known of calls of these shapes, layouts and dtypes."""
        tensors = (self.q, self.k, self.v, self.index, self.vector, *self.rule())
        return _plan(tuple(None if x is None else _form(x) for x in tensors) + (self.tile(), FEW))

    @property
    def aligned(self) -> bool:
        """Whether rows can be read four words at a time."""
        each = 16 // self.q.element_size()
        sides = [
            n for x in (self.q, self.k) for n in (*x.stride()[:3], x.data_ptr() // x.element_size())
        ]
        return all(n % each == 0 for n in (*sides, self.q.shape[3]))

    def tile(self) -> Tile:
        """The tile of queries and keys that one program works on at a time."""
        _, _, Q, _, _, E = self.sizes
        if not self.exact:
            return Tile(4 if Q > 32 else 2, 4, 1, 2)
        # a tile of values lies in shared memory, with all that three products of theirs need
        pieces = max(1, 512 // triton.next_power_of_2(max(E, 16)))
        return Tile(2 if Q > 32 else 1, 4 if pieces > 1 else 2, 2, 1)

    @property
    def swift(self) -> bool:
        """Whether there is so much to do that packing factors pays; float32 wants tanh itself."""
        B, H, Q, K, D, _ = self.sizes
        return not self.exact and B * H * Q * K * D >= MANY

    def rule(self) -> list[Any]:
        """first, last, ids, mask and bias, as kernels take them."""
        seen = self.seen
        mask = None if seen.mask is None else seen.mask.view(torch.uint8)
        return [seen.first, seen.last, seen.ids, mask, self.bias]

    def strides(self) -> list[tuple[int, ...]]:
        """Of ids, q, k, v, mask and bias, 0 along what is spread."""
        B, H, Q, K, _, _ = self.sizes
        wide = (B, H, Q, K)
        ids = 0 if self.seen.ids is None else self.seen.ids.stride(0)
        v = self.k if self.v is None else self.v
        mask, bias = (
            (0, 0, 0, 0) if x is None else x.expand(wide).stride()
            for x in (self.seen.mask, self.bias)
        )
        return [ids, self.q.stride()[:3], self.k.stride()[:3], v.stride()[:3], mask, bias]


def _form(x: Tensor) -> tuple[Any, ...]:
    """All that Triton looks at in a tensor, and more."""
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16 == 0


def problem(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    index: Tensor | None,
    vector: Tensor,
    seen: Seen,
    bias: Tensor | None,
) -> Problem:
    rows = [None if x is None else _rows(x) for x in (q, k, v)]
    index = None if index is None else index.contiguous()
    return Problem(*rows, index, vector.contiguous(), seen, bias)  # type: ignore[arg-type]


def _rows(x: Tensor) -> Tensor:
    """With the numbers of a row side by side."""
    return x if x.stride(3) == 1 else x.contiguous()


class _Factors(NamedTuple):
    """Packed products of exponentials and how many bits they take; None if tanh is computed."""

    words: Tensor | None
    bits: Tensor | None


def _groups(D: int) -> int:
    """Groups of three dimensions, an even number of them."""
    return 2 * triton.cdiv(D, 6)


def _factors(call: Problem, x: Tensor, step: int, queries: bool) -> _Factors:
    """The factors of all rows of queries or keys, in steps of a tile."""
    if not call.swift:
        return _Factors(None, None)
    B, H, T, D = x.shape
    groups, tiles = _groups(D), triton.cdiv(T, step) * (step // 16)
    each = groups * (256 if queries else 128)
    # a little more: the last of a tile reads ahead
    words = torch.empty(B * H * tiles * each + 4096, dtype=torch.int32, device=x.device)
    bits = torch.zeros(B * H * tiles, dtype=torch.int32, device=x.device)
    _launch(
        call.plan, "queries" if queries else "keys", prepare,
        (tiles, triton.cdiv(groups, 16), B * H),
        x, call.vector, words, bits, H, T, D, groups, tiles, *x.stride()[:3], queries, 16, PTX,
        num_warps=4,
    )  # fmt: skip
    return _Factors(words, bits.view(torch.float32))


def read(call: Problem) -> tuple[Tensor, Tensor]:
    B, H, Q, K, D, E = call.sizes
    share = H // call.k.shape[1]
    tile = call.tile()
    shape = (B, H, Q) if call.v is None else (B, H, Q, E)
    out = torch.empty(shape, dtype=call.q.dtype, device=call.q.device)
    lse = torch.empty((B, H, Q), dtype=torch.float32, device=call.q.device)
    if Q <= FEW and call.v is not None:
        _decode(call, out, lse)
        return out, lse
    u = _factors(call, call.q, tile.rows, True)
    w = _factors(call, call.k, tile.keys, False)
    _launch(
        call.plan, "read", forward.read, (B * H, triton.cdiv(Q, tile.rows)),
        call.q, call.k, call.v, call.vector, u.words, w.words, u.bits, w.bits, call.index, out, lse,
        *call.rule(), 0, Q, H, share, Q, K, D, E, _groups(D), call.seen.back, call.seen.ahead,
        *call.strides(), *tile, triton.next_power_of_2(max(E, 16)), call.precision,
        call.aligned, PTX, num_warps=tile.WR * tile.WC, num_stages=1,
        maxnreg=None if call.exact else REGISTERS,
    )  # fmt: skip
    return out, lse


def _decode(call: Problem, out: Tensor, lse: Tensor) -> None:
    """Few queries: a program each and a share of the keys, then one that combines the shares."""
    B, H, Q, K, D, E = call.sizes
    N, share = B * H * Q, H // call.k.shape[1]
    BD, DV = (triton.next_power_of_2(max(n, 16)) for n in (D, E))
    BK = max(1, min(64, 8192 // max(BD, DV)))
    parts = max(1, min(triton.cdiv(PROGRAMS, N), triton.cdiv(K, LEAST)))
    keys = triton.cdiv(triton.cdiv(K, parts), BK) * BK
    parts = triton.cdiv(K, keys)
    room = None
    if parts > 1:
        room = torch.empty(parts * N * (1 + E), dtype=torch.float32, device=out.device)
    _launch(
        call.plan, "decode", forward.decode, (parts, N),
        call.q, call.k, call.v, call.vector, out, lse, room, *call.rule(), H, share, Q, K, D, E,
        call.seen.back, call.seen.ahead, keys, *call.strides(), BK, BD, DV, call.exact, PTX,
        num_warps=4,
    )  # fmt: skip
    if room is not None:
        _launch(
            call.plan, "combine", forward.combine, (N,),
            room, out, lse, parts, E, triton.next_power_of_2(parts), DV, num_warps=4,
        )  # fmt: skip


class _Grads(NamedTuple):
    """Gradients in the making, in float32; parts of vector's for each share of the keys."""

    q: Tensor
    k: Tensor
    v: Tensor
    vector: Tensor
    bias: Tensor


def gradients(call: Problem, d_out: Tensor, lse: Tensor, bias_wanted: bool) -> list[Tensor]:
    B, H, Q, K, D, E = call.sizes
    G, tile = call.k.shape[1], call.tile()
    new = {"dtype": torch.float32, "device": call.q.device}
    keys, shares = _shares(call)
    bias = call.bias if bias_wanted and call.bias is not None else None
    grads = _Grads(
        torch.empty_like(call.q, memory_format=torch.contiguous_format),
        torch.zeros((B, G, K, D), **new),
        torch.zeros((B, H, K, E), **new),
        torch.zeros((B * H, shares, D), **new),
        torch.zeros(() if bias is None else bias.shape, **new),
    )
    w = _factors(call, call.k, tile.keys, False)
    R = _band(call, shares, tile)
    for base in range(0, Q, R):
        _one_band(call, d_out, lse, w, grads, slice(base, min(base + R, Q)), keys, bias is not None)
    dv = grads.v.view(B, G, H // G, K, E).sum(2) if G != H else grads.v
    d_vector = grads.vector.view(B, H, shares, D).sum((0, 2))
    return [grads.q, grads.k, dv, d_vector, grads.bias]


def _shares(call: Problem) -> tuple[int, int]:
    """How many keys a program takes in the backward, and how many programs that makes."""
    B, H, _, K, D, _ = call.sizes
    warps = B * call.k.shape[1] * triton.cdiv(D, 32)
    keys = max(8, min(128, triton.next_power_of_2(triton.cdiv(K * warps, 2048))))
    return keys, triton.cdiv(K, keys)


def _band(call: Problem, shares: int, tile: Tile) -> int:
    """How many queries are gone through at a time, so that what is (Q, K) stays small."""
    B, H, Q, K, D, E = call.sizes
    size = call.q.element_size()
    inputs = size * (B * H * Q * D + call.k.shape[0] * call.k.shape[1] * K * (D + E))
    a_row = B * H * (10 * K + 4 * shares * D + (64 * _groups(D) if call.swift else 0))
    times = min(max(LONG / max(K, 1), BOUNDS[0]), BOUNDS[1])
    rows = int(max(SCRATCH, times * inputs)) // a_row
    step = max(tile.rows, 32)
    return max(step, min(rows, Q + step - 1) // step * step)


def _one_band(
    call: Problem,
    d_out: Tensor,
    lse: Tensor,
    w: _Factors,
    grads: _Grads,
    band: slice,
    keys: int,
    bias_wanted: bool,
) -> None:
    B, H, Q, K, D, E = call.sizes
    tile, share = call.tile(), H // call.k.shape[1]
    base, rows = band.start, band.stop - band.start
    R = triton.cdiv(rows, 32) * 32
    u = _factors(call, call.q[:, :, band], tile.rows, True)
    new = {"dtype": torch.float32, "device": call.q.device}
    p, g = torch.empty((2, B * H, K, R), **new)
    _launch(
        call.plan, f"weigh {d_out.data_ptr() % 16 == 0}", backward.weigh,
        (triton.cdiv(K, tile.keys), triton.cdiv(R, tile.rows), B * H),
        call.q, call.k, call.v, call.vector, u.words, w.words, u.bits, w.bits, lse, d_out, p, g,
        *call.rule(), base, rows, H, share, Q, K, D, E, R, _groups(D), call.seen.back,
        call.seen.ahead, *call.strides(), *tile, min(128, triton.next_power_of_2(max(E, 16))),
        call.precision, call.aligned, PTX, num_warps=tile.WR * tile.WC, num_stages=1,
        maxnreg=None if call.exact else REGISTERS,
    )  # fmt: skip
    half = p if call.exact else torch.empty_like(p, dtype=call.q.dtype)
    _launch(
        call.plan, "slope", backward.slope, (triton.cdiv(R, 16), B * H),
        p, g, half, call.index, d_out, base, rows, Q, K, R, 16, 64, num_warps=4,
    )  # fmt: skip
    if call.v is not None:
        _add_product(grads.v.view(B * H, K, E), half[..., :rows], d_out[:, :, band].flatten(0, 1))
    if bias_wanted:
        whole = g.view(B, H, K, R)[..., :rows].mT
        fold(whole, grads.bias, (slice(0, B), slice(0, H), band))
    shares = grads.vector.shape[1]
    parts = torch.empty((B * H, shares, R, D), **new)
    warps = min(4, triton.next_power_of_2(triton.cdiv(D, 32)))
    _launch(
        call.plan, "descend", backward.descend,
        (shares, triton.cdiv(D, 32 * warps), B * call.k.shape[1]),
        call.q, call.k, call.vector, g, parts, grads.k, grads.vector, base, rows, H, share, Q, K, D,
        R, keys, call.seen.back, call.seen.ahead, call.q.stride()[:3], call.k.stride()[:3],
        32, 32 * warps, call.exact, PTX, num_warps=warps,
        # the swift loop needs no more, and more programs at a time hide its waiting
        maxnreg=None if call.exact else 128,
    )  # fmt: skip
    grads.q[:, :, band] = parts.sum(1).view(B, H, R, D)[:, :, :rows]


def _add_product(total: Tensor, a: Tensor, b: Tensor, rows: int = 4096) -> None:
    """Add a @ b to a float32 total, some rows at a time."""
    for part, some in zip(total.split(rows, 1), a.split(rows, 1), strict=True):
        if a.is_cuda and a.dtype != torch.float32:
            part += torch.bmm(some, b, out_dtype=torch.float32)  # type: ignore[call-overload]
        else:
            part += torch.bmm(some.float(), b.float())
