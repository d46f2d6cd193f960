"""What may be pointed at next, given what was pointed at: masks that are rules of `attend`.

An answer is a row of tokens: 0 is the end, and token i + 1 is point i, so that a vocabulary of the
K = N + 1 keys is what `regard.decode` knows. A course says which tokens may follow which: `along`
says it for all steps of known answers at once, `start` and `after` for one step after the other.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

END = 0


@runtime_checkable
class Course(Protocol):
    """Which tokens may follow which."""

    def along(self, tokens: Tensor, lengths: Tensor, keys: int) -> Tensor:
        """What may be pointed at before each of `tokens` (B, T), given those before: (B, T, K)."""

    def start(self, lengths: Tensor, keys: int) -> Any:
        """What is known before the first step, a tree of tensors; `seen` (B, K) is part of it."""

    def after(self, now: Any, tokens: Tensor) -> Any:
        """What is known once `tokens` (B,) are pointed at."""


class Left(NamedTuple):
    """What is left to be pointed at (B, K), and how much was pointed at (B,)."""

    seen: Tensor
    gone: Tensor


@dataclass(frozen=True)
class Once:
    """No point twice. The end comes after `least` points, or, without one, after all of them.

    Two of three points are pointed at, and each has been, in turn:

    >>> tokens, three = torch.tensor([[2, 1, 3, 0]]), torch.tensor([3])
    >>> Once().along(tokens, three, 4).int().tolist()
    [[[0, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]]]
    >>> Once(least=1).along(tokens, three, 4).int().tolist()[0][1]
    [1, 1, 0, 1]
    """

    least: int | None = None

    def along(
        self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, " B"], keys: int
    ) -> Bool[Tensor, "B T K"]:
        """What may be pointed at at every step of an answer."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        seen = taken(tokens, keys)[:, None] >= steps[:, None]
        seen &= _there(lengths, keys)[:, None]
        return self._ending(seen, steps.expand_as(tokens), lengths[:, None])

    def start(self, lengths: Int[Tensor, " B"], keys: int) -> Left:
        """All points."""
        gone = torch.zeros_like(lengths)
        seen = _there(lengths, keys)
        return Left(self._ending(seen, gone, lengths), gone)

    def after(self, now: Left, tokens: Int[Tensor, " B"]) -> Left:
        """One point less, and the end if it may come."""
        seen = now.seen.scatter(1, tokens[:, None], False)
        gone = now.gone + (tokens != END)
        whole = seen[:, 1:].sum(1) + gone
        return Left(self._ending(seen, gone, whole), gone)

    def _ending(self, seen: Tensor, gone: Tensor, lengths: Tensor) -> Tensor:
        """The same with the end in it, where it may come after `gone` of `lengths` points."""
        least = lengths if self.least is None else lengths.clamp_max(self.least)
        return torch.cat([(gone >= least)[..., None], seen[..., 1:]], -1)


class Corners(NamedTuple):
    """The triangles so far (B, K, K, K), and the corners of the one that is begun (B,) each."""

    seen: Tensor  # (B, K)
    made: Tensor
    first: Tensor  # 0 where none is begun
    second: Tensor  # 0 where it has no second corner
    many: Tensor  # how many triangles there are
    lengths: Tensor


@dataclass(frozen=True)
class Triples:
    """Triangles, corner by corner in increasing order; the end only between two of them.

    No triangle is made twice, which `along` need not say: a known answer has none.

    >>> tokens, four = torch.tensor([[1, 2, 4, 0]]), torch.tensor([4])
    >>> Triples().along(tokens, four, 5).int().tolist()
    [[[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]]]
    """

    def along(
        self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, " B"], keys: int
    ) -> Bool[Tensor, "B T K"]:
        """What may be pointed at at every step of an answer."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
        corner = (steps % 3).expand_as(tokens)
        last = before.masked_fill(corner == 0, 0)
        seen = self._corners(last, corner, lengths[:, None], keys)
        ends = (corner == 0) & (steps > 0)
        return torch.cat([ends[..., None], seen[..., 1:]], -1)

    def start(self, lengths: Int[Tensor, " B"], keys: int) -> Corners:
        """No triangle yet."""
        none = torch.zeros_like(lengths)
        made = torch.zeros(len(lengths), keys, keys, keys, dtype=torch.bool, device=lengths.device)
        seen = self._corners(none, none, lengths, keys)
        return Corners(seen, made, none, none, none, lengths)

    def after(self, now: Corners, tokens: Int[Tensor, " B"]) -> Corners:
        """The triangle has a corner more, or is made, or all is over."""
        rows = torch.arange(len(tokens), device=tokens.device)
        third = now.second > 0
        made = now.made.clone()
        made[rows, now.first, now.second, tokens] |= third
        second = tokens.masked_fill(third | (now.first == 0), 0)
        first = torch.where(now.first == 0, tokens, now.first).masked_fill(third, 0)
        K, corner = made.shape[3], (first > 0).long() + (second > 0).long()
        last = torch.where(second > 0, second, first)
        seen = self._corners(last, corner, now.lengths, K)
        fresh = seen & ~made[rows, first, second]
        # where every third corner is taken already, better a triangle twice than none
        seen = torch.where((corner == 2)[:, None] & fresh.any(1, keepdim=True), fresh, seen)
        many = now.many + third.long()
        ends = (corner == 0) & (many > 0)
        seen = torch.cat([ends[:, None], seen[:, 1:]], 1)
        return Corners(seen, made, first, second, many, now.lengths)

    def _corners(self, last: Tensor, corner: Tensor, lengths: Tensor, keys: int) -> Tensor:
        """The points behind `last` that leave room for the corners that are still to come."""
        k = torch.arange(keys, device=last.device)
        most = lengths - 2 + corner
        return (k > last[..., None]) & (k <= most[..., None])


def taken(tokens: Int[Tensor, "B T"], keys: int) -> Int[Tensor, "B K"]:
    """At which step each token is taken, and T where it never is.

    >>> taken(torch.tensor([[2, 1, 0]]), 4).tolist()
    [[2, 1, 0, 3]]
    """
    B, T = tokens.shape
    steps = torch.arange(T, device=tokens.device).expand(B, T)
    never = torch.full((B, keys), T, device=tokens.device)
    # what stands behind the end is a token too, and only the first of them counts
    return never.scatter_reduce(1, tokens, steps, "amin")


def _there(lengths: Tensor, keys: int) -> Tensor:
    """Which keys are points (B, K)."""
    k = torch.arange(keys, device=lengths.device)
    return (k > END) & (k <= lengths[:, None])
