"""What the shapes, layouts and dtypes of a call of additive attention decide, once for all of them.

A `Plan` is made once and kept, together with the kernels that it has launched: looking at forty
arguments again takes longer than a launch.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.mask_spec import MaskSpec

# From so many terms on, factors are packed for tensor cores.
TENSOR_CORE_MIN_TERMS = 1 << 27
# How many tiles of queries keep a GPU busy; with fewer, tiles are smaller.
MIN_TILES_TO_FILL_GPU = 128
# Bytes of scratch for a band of queries: so many times the inputs', or this much. The fewer keys,
# the smaller (Q, K) is beside the inputs.
SCRATCH_RATIO_KEYS, SCRATCH_RATIO_BOUNDS, SCRATCH_MIN_BYTES = 32768, (1.0, 24.0), 24 << 20
# Up to so many queries, each is a program of its own, and keys are split over programs.
DECODE_MAX_QUERIES = 4
# Up to so many heads of so many queries and keys have their backward in one launch: with more, the
# GPU has enough to do meanwhile.
SMALL_MAX_HEADS, SMALL_MAX_LENGTH = 128, 64
# One query has its backward in one launch too, a program a head, where the program has at most so
# many terms or all programs together fill the GPU. It has so many keys at a time, and so many
# numbers of them.
(
    SINGLE_QUERY_MAX_TERMS,
    SINGLE_QUERY_MIN_PROGRAMS,
    SINGLE_QUERY_BLOCK_KEYS,
    SINGLE_QUERY_BLOCK_ELEMENTS,
) = 1 << 18, 64, 64, 8192
# How many plans are kept.
PLAN_CACHE_SIZE = 256
# How many queries a thread has in the backward.
BACKWARD_QUERIES_PER_THREAD = 32


class Tile(NamedTuple):
    """Warps along queries and keys, and pieces of 16 queries and of 16 keys that each has."""

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

    @property
    def warps(self) -> int:
        return self.WR * self.WC


# The tile that a little call fits into.
SMALL_TILE = Tile(4, 2, 1, 2)


class Block(NamedTuple):
    """The keys that a program has at a time, the numbers of them and of their values, in chunks."""

    keys: int
    dims: int
    values: int
    chunks: int

    @property
    def warps(self) -> int:
        return (
            8 if self.keys * max(self.dims, self.values) > SINGLE_QUERY_BLOCK_ELEMENTS // 2 else 4
        )


class Tensors(NamedTuple):
    """What a call holds, as kernels take it. Without values, it asks for the weight `at` a key."""

    q: Tensor
    k: Tensor
    v: Tensor | None
    key_index: Tensor | None
    vector: Tensor
    first: Tensor | None
    last: Tensor | None
    ids: Tensor | None
    mask: Tensor | None
    bias: Tensor | None

    @property
    def rule(self) -> tuple[Tensor | None, ...]:
        return self[5:]


@dataclass(frozen=True, eq=False)
class Plan:
    """All that a call's shapes, layouts and dtypes decide.

    And what was launched so far: `kernels` as they were compiled, and `scalar_args` that they take.
    """

    B: int
    H: int
    G: int
    Q: int
    K: int
    D: int
    E: int
    exact: bool
    aligned: bool
    can_hide_keys: bool
    has_bias: bool
    back: int
    ahead: int
    strides: tuple[Any, ...]
    device: torch.device
    kernels: dict[str, Any] = field(default_factory=dict)
    scalar_args: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @cached_property
    def group_size(self) -> int:
        """How many heads of queries share one of keys."""
        return self.H // self.G

    @cached_property
    def is_uneven(self) -> bool:
        """Whether some queries see more than others, as under a causal rule."""
        return min(self.back, self.ahead) < self.K

    @cached_property
    def is_decode_step(self) -> bool:
        """Whether queries are so few that each is a program of its own."""
        return self.Q <= DECODE_MAX_QUERIES

    @cached_property
    def groups(self) -> int:
        """Groups of three dimensions, an even number of them."""
        return 2 * ceil_div(self.D, 6)

    @cached_property
    def should_use_tensor_cores(self) -> bool:
        """Whether there is so much to do that packing factors pays; float32 wants tanh itself."""
        return (
            not self.exact and self.B * self.H * self.Q * self.K * self.D >= TENSOR_CORE_MIN_TERMS
        )

    @cached_property
    def tile(self) -> Tile:
        """The queries and keys that one program reads for at a time."""
        busy = self.B * self.H * ceil_div(self.Q, 64) >= MIN_TILES_TO_FILL_GPU
        if self.exact:
            # a tile of values lies in shared memory, with all that three products of theirs need
            return Tile(2 if busy else 1, 4 if self.E <= 256 else 2, 2, 1)
        some = self.B * self.H * ceil_div(self.Q, 32) >= MIN_TILES_TO_FILL_GPU
        return Tile(2 if busy else 1, 4, 2 if some else 1, 2 if self.K > 64 else 1)

    @cached_property
    def softmax_backward_tile(self) -> Tile:
        """The same queries and keys with more warps where values need no registers."""
        WR, WC, MT, NP = self.tile
        return self.tile if self.exact else Tile(WR * MT, WC, 1, NP)

    @cached_property
    def single_query_block(self) -> Block | None:
        """What a program has at a time, if one query's backward takes one launch."""
        reads = self.E > 0
        pays = (
            self.K * self.D <= SINGLE_QUERY_MAX_TERMS
            or self.B * self.H >= SINGLE_QUERY_MIN_PROGRAMS
        )
        if not (self.Q == self.group_size == 1 and reads and pays):
            return None
        keys = min(SINGLE_QUERY_BLOCK_KEYS, next_power_of_2(self.K))
        dims, values = (
            min(next_power_of_2(max(n, 16)), SINGLE_QUERY_BLOCK_ELEMENTS // keys)
            for n in (self.D, self.E)
        )
        return Block(keys, dims, values, max(ceil_div(self.D, dims), ceil_div(self.E, values)))

    @cached_property
    def small_tile(self) -> Tile | None:
        """The tile that a head fits into, if its backward takes one launch."""
        fits = max(self.Q, self.K) <= SMALL_MAX_LENGTH and self.B * self.H <= SMALL_MAX_HEADS
        taken = self.single_query_block is not None or self.group_size > 1 or self.has_bias
        return SMALL_TILE if fits and not taken else None

    @cached_property
    def can_skip_lse(self) -> bool:
        """Whether the backward needs no log-sum-exp."""
        return self.small_tile is not None and not self.is_decode_step

    @cached_property
    def has_single_key_tile(self) -> bool:
        """Whether all keys are in one tile."""
        return self.tile.keys >= self.K

    @cached_property
    def backward_keys(self) -> int:
        """How many keys a program takes in the backward."""
        threads = self.B * self.G * ceil_div(self.D, 32)
        return max(8, min(128, next_power_of_2(ceil_div(self.K * threads, 2048))))

    @cached_property
    def backward_key_splits(self) -> int:
        """How many programs that makes along the keys."""
        return ceil_div(self.K, self.backward_keys)

    @cached_property
    def scratch_bytes(self) -> int:
        """Bytes that a band of queries may take."""
        size = 4 if self.exact else 2
        rows = self.B * self.H * self.Q * self.D + self.B * self.G * self.K * (self.D + self.E)
        times = min(
            max(SCRATCH_RATIO_KEYS / max(self.K, 1), SCRATCH_RATIO_BOUNDS[0]),
            SCRATCH_RATIO_BOUNDS[1],
        )
        return max(SCRATCH_MIN_BYTES, int(times * size * rows))

    def band_queries(self, row_bytes: int) -> int:
        """How many queries are gone through at a time, if each takes `row_bytes`."""
        step = max(self.tile.rows, BACKWARD_QUERIES_PER_THREAD)
        rows = self.scratch_bytes // max(1, self.B * self.H * row_bytes)
        return max(step, min(rows, self.Q + step - 1) // step * step)

    @cached_property
    def forward_band(self) -> int:
        return self.band_queries(32 * self.groups) if self.should_use_tensor_cores else self.Q

    @cached_property
    def backward_band(self) -> int:
        factors = 32 * self.groups if self.should_use_tensor_cores else 0
        return self.band_queries(10 * self.K + 4 * self.backward_key_splits * self.D + factors)

    @cached_property
    def is_single_band(self) -> bool:
        """Whether one band of queries is all, and each head has values of its own."""
        return self.backward_band >= self.Q and self.group_size == 1

    def launch(self, name: str, kernel: Any, grid: Any, *args: Any, **options: Any) -> None:
        """Launch a kernel: the first time as Triton does it, then with what it compiled."""
        grid = (*grid, 1, 1)[:3]
        ready = self.kernels.get(name)
        if ready is not None:
            # what `kernel[grid](*args)` comes down to where nobody has hooks for launches
            run, *compiled = ready
            stream = torch._C._cuda_getCurrentRawStream(self.device.index)
            run(*grid, stream, *compiled, None, None, None, *args)
            return
        done = kernel[grid](*args, **options)
        if done is not None:  # the interpreter compiles nothing
            self.kernels[name] = (done.run, done.function, done.packed_metadata)


def ceil_div(n: int, step: int) -> int:
    """n / step, rounded up."""
    return -(-n // step)


def next_power_of_2(n: int) -> int:
    """The smallest power of two from n on."""
    return 1 << (n - 1).bit_length()


def plan_call(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    index: Tensor | None,
    vector: Tensor,
    spec: MaskSpec,
    bias: Tensor | None,
) -> tuple[Tensors, Plan]:
    """The call as kernels take it, and its plan."""
    mask = None if spec.mask is None else spec.mask.view(torch.uint8)
    of = Tensors(
        _with_contiguous_rows(q),
        _with_contiguous_rows(k),
        None if v is None else _with_contiguous_rows(v),
        None if index is None else index.contiguous(),
        vector.contiguous(),
        *(spec.first, spec.last, spec.ids, mask, bias),
    )
    forms = tuple([
        # plain tuples: this is done in every call, and a name takes its time
        None if x is None else (x.shape, x.stride(), x.dtype, x.data_ptr() % 16)
        for x in of
    ])  # fmt: skip
    return of, _make_plan(forms, q.device, spec.back, spec.ahead)


def _with_contiguous_rows(x: Tensor) -> Tensor:
    """With the numbers of a row side by side."""
    return x if x.stride(3) == 1 else x.contiguous()


class _TensorLayout(NamedTuple):
    """All that Triton looks at in a tensor."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    offset: int  # from an address that is aligned


@lru_cache(maxsize=PLAN_CACHE_SIZE)
def _make_plan(
    layouts: tuple[tuple[Any, ...] | None, ...], device: torch.device, back: int, ahead: int
) -> Plan:
    q, k, v, _, _, _, _, ids, mask, bias = (
        None if x is None else _TensorLayout(*x) for x in layouts
    )
    assert q is not None and k is not None
    (B, H, Q, D), (_, G, K, _) = q.shape, k.shape
    each = 16 // q.dtype.itemsize
    steps = (*q.strides[:3], *k.strides[:3], D)
    aligned = q.offset == k.offset == 0 and all(n % each == 0 for n in steps)
    spread = [_broadcast_strides(x, (B, H, Q, K)) for x in (mask, bias)]
    at = (q.strides[:3], k.strides[:3], (v or k).strides[:3], *spread)
    return Plan(
        *(B, H, G, Q, K, D, 0 if v is None else v.shape[3]),
        exact=q.dtype == torch.float32,
        aligned=aligned,
        can_hide_keys=min(back, ahead) < K or any(layouts[5:]),
        has_bias=bias is not None,
        back=back,
        ahead=ahead,
        strides=(0 if ids is None else ids.strides[0], *at),
        device=device,
    )


def _broadcast_strides(x: _TensorLayout | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of what is spread to a shape: 0 along what it has only once."""
    if x is None:
        return 0, 0, 0, 0
    missing = len(shape) - len(x.shape)
    own = [s if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)]
    return (*[0] * missing, *own)
