"""What is added to a score for where its query and key stand.

A bias maps places `(b, h, q, k)` to a float; q and k are positions as in `rules`. A float tensor
that broadcasts to (B, H, Q, K) is a bias too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard import check
from regard.functional.precision import to_float32
from regard.functional.rules import entries, index_grid

Bias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Alibi:
    """Press et al. 2022, section 3: `−slope · |q − k|`, heads near and far sighted.

    The slopes fall geometrically from head to head: 1/2, 1/4, … 1/256 for eight of them. A number
    of heads between two powers of two takes every other slope of the next power for the rest.

    >>> alibi(8).slopes()[:3].tolist()
    [0.5, 0.25, 0.125]

    Args:
        heads: how many heads the queries have.
        dtype: what the slopes are computed in; `attend` fills in float64 where the queries are.
    """

    heads: int
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"alibi: expected heads >= 1, got {self.heads}")

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return -self._slope(h) * (q - k).abs()

    def slopes(self) -> Tensor:
        """The slope of each head (H,)."""
        return self._slope(torch.arange(self.heads))

    def bind(self, B: int, H: int, Q: int, K: int) -> "Alibi":
        """The bias for these sizes."""
        if self.heads != H:
            raise ValueError(f"alibi: expected as many heads as q has, H={H}, got {self.heads}")
        return self

    def _slope(self, h: Tensor) -> Tensor:
        # computed from h, not looked up: no tensor to move to the GPU, and a kernel compiles it
        whole = 2 ** math.floor(math.log2(self.heads))
        h = h.to(self.dtype)
        rank = torch.where(h < whole, h + 1, h - whole + 0.5)
        return torch.exp2(rank * (-8 / whole))


@dataclass(frozen=True, eq=False)
class Relative:
    """Raffel et al. 2020 (T5), 2.1: a learned number for each head and bucket of distances.

    Half of the buckets are exact distances, the others grow logarithmically up to `max_distance`.

    Args:
        table: a number for each head and bucket (H, N).
        bidirectional: whether keys ahead of the query have half of the buckets (an encoder) or none
            (a causal decoder).
        max_distance: the distance from which on all share the last bucket.
    """

    table: Tensor
    bidirectional: bool = True
    max_distance: int = 128

    def __post_init__(self) -> None:
        check.floats("relative", "table", self.table)
        check.shape("relative", "table", self.table, H=None, N=None)
        count = self.table.shape[1] // 2 if self.bidirectional else self.table.shape[1]
        if count < 2:
            raise ValueError(
                f"relative: expected a table of N >= {4 if self.bidirectional else 2} buckets, "
                f"got N={self.table.shape[1]}"
            )
        if self.max_distance <= count // 2:
            raise ValueError(
                f"relative: expected max_distance > {count // 2}, the distances with a bucket of "
                f"their own, got {self.max_distance!r}"
            )

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.table[
            h, distance_buckets(k - q, self.table.shape[1], self.bidirectional, self.max_distance)
        ]

    def bind(self, B: int, H: int, Q: int, K: int) -> "Relative":
        """The bias for these sizes."""
        check.shape("relative", "table", self.table, H=H, N=None)
        # thousands of pairs share a bucket: their gradients are summed in float32, rounded once
        return replace(self, table=to_float32(self.table))


@dataclass(frozen=True, eq=False)
class DenseBias:
    """A float tensor that broadcasts to (B, H, Q, K), as a bias.

    Args:
        values: what is added to each score.
        offset: the position of query 0; `attend` fills it in.
    """

    values: Tensor
    offset: int = 0

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return entries(self.values, b, h, q - self.offset, k)

    def bind(self, B: int, H: int, Q: int, K: int) -> "DenseBias":
        """The bias for these sizes."""
        check.broadcastable("attend", "bias", self.values, B=B, H=H, Q=Q, K=K)
        return DenseBias(self.values, K - Q)


alibi = Alibi
relative = Relative


def distance_buckets(
    distance: Tensor, count: int, bidirectional: bool, max_distance: int
) -> Tensor:
    """The bucket of each distance k − q; nearer ones have a bucket of their own.

    >>> distance = torch.tensor([0, -1, -7, -8, -20, -500, 1])
    >>> distance_buckets(distance, 32, bidirectional=True, max_distance=128).tolist()
    [0, 1, 7, 8, 10, 15, 17]
    """
    first = torch.zeros_like(distance)
    if bidirectional:
        count //= 2
        first = (distance > 0) * count
        far = distance.abs()
    else:
        far = (-distance).clamp_min(0)
    exact = count // 2
    grown = torch.log(far.clamp_min(1).float() / exact) / math.log(max_distance / exact)
    coarse = (exact + (grown * (count - exact)).long()).clamp_max(count - 1)
    return first + torch.where(far < exact, far, coarse)


def bind(
    bias: Bias | Tensor, B: int, H: int, Q: int, K: int, *, dtype: torch.dtype | None = None
) -> Bias:
    """The bias for tensors of these sizes: checked, and told where query 0 stands.

    Args:
        dtype: that of the queries.
    """
    if isinstance(bias, Tensor):
        check.floats("attend", "bias", bias)
        bias = DenseBias(bias)
    if isinstance(bias, Alibi) and dtype == torch.float64:
        bias = replace(bias, dtype=dtype)
    return bias.bind(B, H, Q, K) if hasattr(bias, "bind") else bias


def in_float32(bias: Bias) -> Bias:
    """The bias with given values in float32 or better, where many places share one of them."""
    return replace(bias, values=to_float32(bias.values)) if isinstance(bias, DenseBias) else bias


def bias_tensor(
    bias: Bias, B: int, H: int, Q: int, K: int, *, device: torch.device | None = None
) -> Tensor:
    """A placed bias as a float tensor that broadcasts to (B, H, Q, K), as small as can be."""
    if isinstance(bias, DenseBias):
        return bias.values
    return bias(*index_grid(B, H, Q, K, device=device))
