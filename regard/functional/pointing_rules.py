"""What may be pointed at next, given what was pointed at: masks that are rules of `attend`.

An answer is a row of tokens: 0 is the end, and token i + 1 is point i, so that a vocabulary of the
K = N + 1 keys is what `regard.decode` knows. A pointing rule says which tokens may follow which:
`mask_all_steps` for all steps of known answers at once, `start` and `advance` step by step.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

END = 0


@runtime_checkable
class PointingRule(Protocol):
    """Which tokens may follow which."""

    def mask_all_steps(self, tokens: Tensor, lengths: Tensor, keys: int) -> Tensor:
        """What may be pointed at before each of `tokens` (B, T), given those before: (B, T, K)."""

    def start(self, lengths: Tensor, keys: int) -> Any:
        """What is known before the first step, a tree of tensors; `mask` (B, K) is part of it."""

    def advance(self, state: Any, tokens: Tensor) -> Any:
        """What is known once `tokens` (B,) are pointed at."""


class NoRepeatsState(NamedTuple):
    """What is left to be pointed at (B, K), and how much was pointed at (B,)."""

    mask: Tensor
    visited_count: Tensor


@dataclass(frozen=True)
class NoRepeats:
    """No point twice. The end comes after `min_points` points, or, without one, after all of them.

    Two of three points are pointed at, and each has been, in turn:

    >>> tokens, three = torch.tensor([[2, 1, 3, 0]]), torch.tensor([3])
    >>> NoRepeats().mask_all_steps(tokens, three, 4).int().tolist()
    [[[0, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]]]
    >>> NoRepeats(min_points=1).mask_all_steps(tokens, three, 4).int().tolist()[0][1]
    [1, 1, 0, 1]
    """

    min_points: int | None = None

    def mask_all_steps(
        self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, " B"], keys: int
    ) -> Bool[Tensor, "B T K"]:
        """What may be pointed at at every step of an answer."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        seen = visit_steps(tokens, keys)[:, None] >= steps[:, None]
        seen &= _point_mask(lengths, keys)[:, None]
        return self._with_end(seen, steps.expand_as(tokens), lengths[:, None])

    def start(self, lengths: Int[Tensor, " B"], keys: int) -> NoRepeatsState:
        """All points."""
        gone = torch.zeros_like(lengths)
        seen = _point_mask(lengths, keys)
        return NoRepeatsState(self._with_end(seen, gone, lengths), gone)

    def advance(self, state: NoRepeatsState, tokens: Int[Tensor, " B"]) -> NoRepeatsState:
        """One point less, and the end if it may come."""
        seen = state.mask.scatter(1, tokens[:, None], False)
        gone = state.visited_count + (tokens != END)
        whole = seen[:, 1:].sum(1) + gone
        return NoRepeatsState(self._with_end(seen, gone, whole), gone)

    def _with_end(self, mask: Tensor, visited_count: Tensor, lengths: Tensor) -> Tensor:
        """The same with the end in it, if it may come after `visited_count` of `lengths` points."""
        least = lengths if self.min_points is None else lengths.clamp_max(self.min_points)
        return torch.cat([(visited_count >= least)[..., None], mask[..., 1:]], -1)


class TrianglesState(NamedTuple):
    """What is left of triangles, and the corners of the one that is begun."""

    mask: Tensor  # (B, K)
    remaining: Tensor  # (B, K, K, K): by their corners, the triangles that are not made yet
    first: Tensor  # (B,): 0 where none is begun
    second: Tensor  # (B,): 0 where it has no second corner
    has_triangle: Tensor  # (B,): whether there is a triangle


@dataclass(frozen=True)
class Triangles:
    """Triangles, corner by corner in increasing order; the end only between two of them.

    No triangle is made twice:

    >>> tokens, four = torch.tensor([[1, 2, 4, 0]]), torch.tensor([4])
    >>> Triangles().mask_all_steps(tokens, four, 5).int().tolist()
    [[[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]]]
    """

    def mask_all_steps(
        self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, " B"], keys: int
    ) -> Bool[Tensor, "B T K"]:
        """What may be pointed at at every step of an answer."""
        (B, T), k = tokens.shape, torch.arange(keys, device=tokens.device)
        corners = nn.functional.pad(tokens, (0, -T % 3)).view(B, -1, 3)  # (B, I, 3)
        is_at = (corners[..., None] == k).float()  # (B, I, 3, K)
        a, b = corners[..., 0], corners[..., 1]
        # which triangles before one have the same first corner, and which the first two
        earlier = torch.ones(2 * [a.shape[1]], device=tokens.device).tril(-1)
        same = earlier * (a[:, :, None] == a[:, None])  # (B, I, I)
        both = same * (b[:, :, None] == b[:, None])
        n = lengths[:, None, None]
        # a corner may be pointed at while a triangle with it is not made yet
        firsts = (n - k) * (n - k - 1) / 2 > earlier @ is_at[:, :, 0]
        seconds = (n - k > same @ is_at[:, :, 1]) & (k > a[..., None])
        thirds = (both @ is_at[:, :, 2] == 0) & (k > b[..., None])
        seen = torch.stack([firsts & (k < n), seconds, thirds], 2) & (k <= n[..., None])
        seen = seen.flatten(1, 2)[:, :T]
        steps = torch.arange(T, device=tokens.device)
        ends = ((steps % 3 == 0) & (steps > 0)).expand(B, T)
        return torch.cat([ends[..., None], seen[..., 1:]], -1)

    def start(self, lengths: Int[Tensor, " B"], keys: int) -> TrianglesState:
        """No triangle yet."""
        k = torch.arange(keys, device=lengths.device)
        rising = (k[:, None, None] < k[:, None]) & (k[:, None] < k) & (k[:, None, None] > END)
        fresh = rising & (k <= lengths[:, None, None, None])
        none = torch.zeros_like(lengths)
        return TrianglesState(fresh.any(3).any(2), fresh, none, none, none > 0)

    def advance(self, state: TrianglesState, tokens: Int[Tensor, " B"]) -> TrianglesState:
        """The triangle has a corner more, or is made, or all is over."""
        rows = torch.arange(len(tokens), device=tokens.device)
        third, begun = state.second > 0, state.first > 0
        fresh = state.remaining.clone()
        fresh[rows, state.first, state.second, tokens] &= ~third
        first = torch.where(begun, state.first, tokens).masked_fill(third, 0)
        second = tokens.masked_fill(third | ~begun, 0)
        # of which triangles each point could be the next corner
        thirds = fresh[rows, first, second]
        seconds, firsts = fresh.any(3)[rows, first], fresh.any(3).any(2)
        seen = torch.where((first > 0)[:, None], seconds, firsts)
        seen = torch.where((second > 0)[:, None], thirds, seen)
        made = state.has_triangle | third
        ends = (first == 0) & made
        return TrianglesState(
            torch.cat([ends[:, None], seen[:, 1:]], 1), fresh, first, second, made
        )


def visit_steps(tokens: Int[Tensor, "B T"], keys: int) -> Int[Tensor, "B K"]:
    """At which step each token is taken, and T where it never is.

    >>> visit_steps(torch.tensor([[2, 1, 0]]), 4).tolist()
    [[2, 1, 0, 3]]
    """
    B, T = tokens.shape
    steps = torch.arange(T, device=tokens.device).expand(B, T)
    never = torch.full((B, keys), T, device=tokens.device)
    # what stands behind the end is a token too, and only the first of them counts
    return never.scatter_reduce(1, tokens, steps, "amin")


def _point_mask(lengths: Tensor, keys: int) -> Tensor:
    """Which keys are points (B, K)."""
    k = torch.arange(keys, device=lengths.device)
    return (k > END) & (k <= lengths[:, None])
