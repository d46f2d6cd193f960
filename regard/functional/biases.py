"""What is added to a score for where its query and key stand.

A bias maps places `(b, h, q, k)` to a float; q and k are positions as in `rules`. A float tensor
that broadcasts to (B, H, Q, K) is a bias too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard import check
from regard.functional.rules import places

Bias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Alibi:
    """Press et al. 2022, section 3: `−slope · |q − k|`, with a slope (H,) for each head."""

    slopes: Tensor

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return -self.slopes.to(q.device)[h] * (q - k).abs()

    def placed(self, B: int, H: int, Q: int, K: int) -> "Alibi":
        """The bias for these sizes."""
        check.shape("alibi", "slopes", self.slopes, H=H)
        return self


@dataclass(frozen=True, eq=False)
class Relative:
    """Raffel et al. 2020 (T5), 2.1: a learned number for each head and bucket of distances.

    Half of the buckets are exact distances, the others grow logarithmically up to `farthest`.

    Args:
        table: a number for each head and bucket (H, N).
        ahead: whether keys ahead of the query have half of the buckets (an encoder) or none
            (a causal decoder).
        farthest: the distance from which on all share the last bucket.
    """

    table: Tensor
    ahead: bool = True
    farthest: int = 128

    def __post_init__(self) -> None:
        check.floats("relative", "table", self.table)
        check.shape("relative", "table", self.table, H=None, N=None)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.table[h, buckets(k - q, self.table.shape[1], self.ahead, self.farthest)]

    def placed(self, B: int, H: int, Q: int, K: int) -> "Relative":
        """The bias for these sizes."""
        check.shape("relative", "table", self.table, H=H, N=None)
        return self


@dataclass(frozen=True, eq=False)
class Given:
    """A float tensor that broadcasts to (B, H, Q, K), as a bias.

    Args:
        values: what is added to each score.
        offset: the position of query 0; `attend` fills it in.
    """

    values: Tensor
    offset: int = 0

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        full = self.values[(None,) * (4 - self.values.dim())]
        at = (b, h, q - self.offset, k)
        return full[tuple(i if n > 1 else 0 * i for i, n in zip(at, full.shape, strict=True))]

    def placed(self, B: int, H: int, Q: int, K: int) -> "Given":
        """The bias for these sizes."""
        check.broadcasts("attend", "bias", self.values, B=B, H=H, Q=Q, K=K)
        return Given(self.values, K - Q)


relative = Relative


def alibi(heads: int) -> Alibi:
    """Attention with linear biases: heads near and far sighted, in powers of two.

    >>> alibi(8).slopes[:3].tolist()
    [0.5, 0.25, 0.125]
    """
    if heads < 1:
        raise ValueError(f"alibi: expected heads >= 1, got {heads}")
    whole = 2 ** math.floor(math.log2(heads))
    # a number of heads between two powers of two takes every other slope of the next power
    between = _slopes(2 * whole)[::2][: heads - whole]
    return Alibi(torch.tensor(_slopes(whole) + between))


def buckets(distance: Tensor, count: int, ahead: bool, farthest: int) -> Tensor:
    """The bucket of each distance k − q; nearer ones have a bucket of their own.

    >>> buckets(torch.tensor([0, -1, -7, -8, -20, -500, 1]), 32, ahead=True, farthest=128).tolist()
    [0, 1, 7, 8, 10, 15, 17]
    """
    first = torch.zeros_like(distance)
    if ahead:
        count //= 2
        first = (distance > 0) * count
        far = distance.abs()
    else:
        far = (-distance).clamp_min(0)
    exact = count // 2
    grown = torch.log(far.clamp_min(1).float() / exact) / math.log(farthest / exact)
    coarse = (exact + (grown * (count - exact)).long()).clamp_max(count - 1)
    return first + torch.where(far < exact, far, coarse)


def placed(bias: Bias | Tensor, B: int, H: int, Q: int, K: int) -> Bias:
    """The bias for tensors of these sizes: checked, and told where query 0 stands."""
    if isinstance(bias, Tensor):
        check.floats("attend", "bias", bias)
        bias = Given(bias)
    return bias.placed(B, H, Q, K) if hasattr(bias, "placed") else bias


def added(
    bias: Bias, B: int, H: int, Q: int, K: int, *, device: torch.device | None = None
) -> Tensor:
    """A placed bias as a float tensor that broadcasts to (B, H, Q, K), as small as can be."""
    if isinstance(bias, Given):
        return bias.values
    return bias(*places(B, H, Q, K, device=device))


def _slopes(heads: int) -> list[float]:
    return [2 ** (-8 * (i + 1) / heads) for i in range(heads)]
