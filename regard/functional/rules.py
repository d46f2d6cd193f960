"""Who may see whom? A rule maps places `(b, h, q, k)` to True where query q may see key k.

The form is that of PyTorch's `mask_mod`, so a rule can be handed to `flex_attention` as well; q and
k are positions, and a query's position is its index + K − Q: the last query stands on the last key.
A bool tensor that broadcasts to (B, H, Q, K) is a rule too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import check
from regard.check import Number
from regard.functional.precision import to_float32

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Causal:
    """Look back and at yourself, never ahead."""

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k <= q

    @property
    def band(self) -> tuple[Number, Number]:
        """How far back and how far ahead a query sees at most."""
        return math.inf, 0


@dataclass(frozen=True)
class Window:
    """Look at keys at most `reach` places away, on either side."""

    reach: int

    def __post_init__(self) -> None:
        check.whole_number("window", "reach", self.reach)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q - k).abs() <= self.reach

    @property
    def band(self) -> tuple[Number, Number]:
        """How far back and how far ahead a query sees at most."""
        # a compiler of dynamic shapes takes no range of an unknown length: to it this is a constant
        reach = len(range(self.reach))
        return reach, reach


@dataclass(frozen=True)
class Prefix:
    """Look at the first `n` keys."""

    n: int

    def __post_init__(self) -> None:
        check.whole_number("prefix", "n", self.n)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k < self.n


@dataclass(frozen=True, eq=False)
class Padding:
    """Look at real keys: the first `lengths[b]`, or the last if the padding stands on the left.

    Args:
        lengths: how many keys of each batch row are real (B,).
        side: where the padding stands.
        keys: how many keys there are; `attend` fills it in, and only the left side needs it.
    """

    lengths: Tensor
    side: Literal["left", "right"] = "right"
    keys: int | None = None

    def __post_init__(self) -> None:
        check.integers("padding", "lengths", self.lengths)
        check.shape("padding", "lengths", self.lengths, B=None)
        if self.side not in ("left", "right"):
            raise ValueError(f"padding: expected side 'left' or 'right', got {self.side!r}")

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if self.side == "right":
            return k < self.lengths[b].long()
        if self.keys is None:
            raise ValueError(
                "padding: on the left side a bare call needs keys=, how many there are"
            )
        return k >= self.keys - self.lengths[b].long()

    def bind(self, B: int, H: int, Q: int, K: int) -> "Padding":
        """The rule for these sizes."""
        check.shape("padding", "lengths", self.lengths, B=B)
        long = self.lengths.long()  # a small integer type may not hold K
        if check.can_read_values(long) and bool(((long < 0) | (long > K)).any()):
            raise ValueError(
                f"padding: expected lengths from 0 to K={K}, got {check.brief_text(long.tolist())}"
            )
        return replace(self, keys=K)


@dataclass(frozen=True, eq=False)
class Documents:
    """Look at keys of your own document, where several are packed into one row.

    Args:
        ids: which document each position belongs to (B, L), for at least as many positions as keys.
    """

    ids: Tensor

    def __post_init__(self) -> None:
        check.integers("documents", "ids", self.ids)
        check.shape("documents", "ids", self.ids, B=None, L=None)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        # a query before the first key belongs to no document
        return (self.ids[b, q.clamp_min(0)] == self.ids[b, k]) & (q >= 0)

    def bind(self, B: int, H: int, Q: int, K: int) -> "Documents":
        """The rule for these sizes."""
        if self.ids.shape[0] != B or self.ids.shape[1] < K:
            raise ValueError(
                f"documents: expected ids of shape (B={B}, L) with L >= K={K}, "
                f"got {tuple(self.ids.shape)}"
            )
        # where there is no position at all, queries still look one up
        return self if self.ids.shape[1] else Documents(F.pad(self.ids, (0, 1)))


@dataclass(frozen=True, eq=False)
class Around:
    """Look at keys at most `reach` places from a centre of your own: Luong et al. 2015, 3.2.

    Args:
        centre: where each query looks (B, H, Q); need not be whole.
        reach: how far to either side.
        offset: the position of query 0; `attend` fills it in.
    """

    centre: Tensor
    reach: Number
    offset: int = 0

    def __post_init__(self) -> None:
        check.shape("around", "centre", self.centre, B=None, H=None, Q=None)
        check.supported_dtype("around", "centre", self.centre)
        check.number("around", "reach", self.reach)
        if not self.reach >= 0:
            raise ValueError(f"around: expected reach >= 0, got {self.reach!r}")

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        # half precision does not hold every position beyond 256
        return (k - to_float32(self.centre[b, h, q - self.offset])).abs() <= self.reach

    def bind(self, B: int, H: int, Q: int, K: int) -> "Around":
        """The rule for these sizes."""
        check.shape("around", "centre", self.centre, B=B, H=H, Q=Q)
        return replace(self, offset=K - Q)


@dataclass(frozen=True, eq=False)
class At:
    """A rule for queries that stand at given positions, as beside a cache of fixed size.

    Args:
        rule: the rule to apply.
        positions: where each query stands, (Q,) or (B, Q).
        offset: the position query 0 would have had; `attend` fills it in.
    """

    rule: Rule
    positions: Tensor
    offset: int = 0

    def __post_init__(self) -> None:
        check.callable_or_tensor("at", "rule", self.rule, "a callable or a bool tensor")
        check.integers("at", "positions", self.positions)
        if self.positions.dim() not in (1, 2):
            raise ValueError(
                f"at: expected positions of shape (Q,) or (B, Q), got {tuple(self.positions.shape)}"
            )
        if any(isinstance(part, Around | DenseMask | At) for part in leaf_rules(self.rule)):
            raise ValueError(
                "at: a centre, a mask or another at is found by the query's index, not by its "
                "position; write both(at(...), around(...))"
            )

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        index = q - self.offset
        there = self.positions[index if self.positions.dim() == 1 else (b, index)]
        return self.rule(b, h, there.long(), k)

    def bind(self, B: int, H: int, Q: int, K: int) -> "At":
        """The rule for these sizes."""
        rows = {"B": B} if self.positions.dim() == 2 else {}
        check.shape("at", "positions", self.positions, **rows, Q=Q)
        known = [part.ids.shape[1] for part in leaf_rules(self.rule) if isinstance(part, Documents)]
        if known and Q and B and check.can_read_values(self.positions):
            check.below("at", "positions", int(self.positions.max()), min(known), "ids' length L")
        return At(bind(self.rule, B, H, Q, K), self.positions, K - Q)


@dataclass(frozen=True, eq=False)
class DenseMask:
    """A bool tensor that broadcasts to (B, H, Q, K), as a rule.

    Args:
        mask: True where a query may see a key.
        offset: the position of query 0; `attend` fills it in.
    """

    mask: Tensor
    offset: int = 0

    def __post_init__(self) -> None:
        if self.mask.dtype != torch.bool:
            raise ValueError(
                f"rule: expected a bool tensor, True where a key may be seen, got "
                f"{check.describe_kind(self.mask)}. A float tensor to add to the scores goes into "
                "bias=."
            )

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return entries(self.mask, b, h, q - self.offset, k)

    def bind(self, B: int, H: int, Q: int, K: int) -> "DenseMask":
        """The rule for these sizes."""
        check.broadcastable("attend", "rule", self.mask, B=B, H=H, Q=Q, K=K)
        return DenseMask(self.mask, K - Q)


@dataclass(frozen=True)
class Both:
    """Look where every one of these rules lets you."""

    rules: tuple[Rule, ...]

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = self.rules[0](b, h, q, k)
        for rule in self.rules[1:]:
            seen = seen & rule(b, h, q, k)
        return seen

    def bind(self, B: int, H: int, Q: int, K: int) -> "Both":
        """The rule for these sizes."""
        return Both(tuple(bind(rule, B, H, Q, K) for rule in self.rules))

    @property
    def band(self) -> tuple[Number, Number]:
        """How far back and how far ahead a query sees at most."""
        back, ahead = zip(*map(band, self.rules), strict=True)
        return min(back), min(ahead)


@dataclass(frozen=True)
class Either:
    """Look where at least one of these rules lets you."""

    rules: tuple[Rule, ...]

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = self.rules[0](b, h, q, k)
        for rule in self.rules[1:]:
            seen = seen | rule(b, h, q, k)
        return seen

    def bind(self, B: int, H: int, Q: int, K: int) -> "Either":
        """The rule for these sizes."""
        return Either(tuple(bind(rule, B, H, Q, K) for rule in self.rules))

    @property
    def band(self) -> tuple[Number, Number]:
        """How far back and how far ahead a query sees at most."""
        back, ahead = zip(*map(band, self.rules), strict=True)
        return max(back), max(ahead)


causal = Causal()
window = Window
prefix = Prefix
padding = Padding
documents = Documents
around = Around
at = At


def both(*rules: Rule | Tensor) -> Both:
    """What every one of `rules` lets through.

    >>> print(draw(both(causal, window(1)), 4, 4))
    █░░░
    ██░░
    ░██░
    ░░██
    """
    return Both(_at_least_one("both", rules))


def either(*rules: Rule | Tensor) -> Either:
    """What at least one of `rules` lets through.

    >>> print(draw(either(causal, prefix(3)), 4, 4))
    ███░
    ███░
    ███░
    ████
    """
    return Either(_at_least_one("either", rules))


def dense(
    rule: Rule | Tensor, B: int, H: int, Q: int, K: int, *, device: torch.device | None = None
) -> Tensor:
    """The rule as a bool tensor (B, H, Q, K); fewer queries than keys stand on the last ones.

    >>> print(draw(causal, 3, 5))
    ███░░
    ████░
    █████
    """
    if isinstance(rule, Tensor):
        device = rule.device
    return mask_tensor(bind(rule, B, H, Q, K), B, H, Q, K, device=device).expand(B, H, Q, K)


def draw(
    rule: Rule | Tensor, Q: int, K: int, *, B: int = 1, H: int = 1, batch: int = 0, head: int = 0
) -> str:
    """The rule for one batch row of B and head of H as text, a line a query: █ may be seen."""
    rows = dense(rule, B, H, Q, K)[batch, head].tolist()
    return "\n".join("".join("░█"[s] for s in row) for row in rows)


def bind(rule: Rule | Tensor, B: int, H: int, Q: int, K: int) -> Rule:
    """The rule for tensors of these sizes: checked, and told where the first query stands."""
    if isinstance(rule, Tensor):
        rule = DenseMask(rule)
    return rule.bind(B, H, Q, K) if hasattr(rule, "bind") else rule


def mask_tensor(
    rule: Rule, B: int, H: int, Q: int, K: int, *, device: torch.device | None = None
) -> Tensor:
    """A placed rule as a bool tensor that broadcasts to (B, H, Q, K), no larger than it must be."""
    if isinstance(rule, DenseMask):
        return rule.mask
    mask = rule(*index_grid(B, H, Q, K, device=device))
    check.bools("rule", "what it returns", mask)
    return mask


def index_grid(
    B: int, H: int, Q: int, K: int, *, device: torch.device | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """b, h, and the positions q and k, each along its own axis of four."""
    b = torch.arange(B, device=device)[:, None, None, None]
    h = torch.arange(H, device=device)[:, None, None]
    q = torch.arange(K - Q, K, device=device)[:, None]
    return b, h, q, torch.arange(K, device=device)


def entries(table: Tensor, *index: Tensor) -> Tensor:
    """The entries of what broadcasts to (B, H, Q, K), at one index an axis."""
    table = table.reshape((1,) * (4 - table.dim()) + table.shape)
    return table[tuple(i if n > 1 else 0 * i for i, n in zip(index, table.shape, strict=True))]


def band(rule: Rule | None) -> tuple[Number, Number]:
    """How far back and how far ahead of its own position a query sees at most."""
    return getattr(rule, "band", (math.inf, math.inf))


def leaf_rules(rule: Rule | Tensor | None) -> list[Rule]:
    """The simple rules that a rule is made of."""
    if rule is None:
        return []
    if isinstance(rule, Tensor):
        return [DenseMask(rule)]
    return [part for each in getattr(rule, "rules", ()) for part in leaf_rules(each)] or [rule]


def _at_least_one(where: str, rules: tuple[Rule | Tensor, ...]) -> tuple[Rule, ...]:
    if not rules:
        raise ValueError(f"{where}: expected at least one rule, got none")
    for rule in rules:
        check.callable_or_tensor(where, "rule", rule, "a callable or a bool tensor")
    return tuple(DenseMask(rule) if isinstance(rule, Tensor) else rule for rule in rules)
