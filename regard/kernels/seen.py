"""A rule as numbers that a kernel can compare while it runs, so that no (Q, K) mask is formed.

The twin of `functional.rules.seen`. What no number can say is still spelled out as a mask.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.functional import rules
from regard.functional.rules import Both, Causal, Documents, Padding, Prefix, Rule, Window

# Farther than any key is; still, a position and this fit together into 32 bits.
FAR = 1 << 30


@dataclass(frozen=True, eq=False)
class Seen:
    """Who sees whom: a query at position p sees key j of batch row b if all of these hold.

    - `p - back <= j <= p + ahead`
    - `first[b] <= j < last[b]`
    - `p >= 0` and `ids[b, p] == ids[b, j]`
    - `mask` is True

    A query's position is its index + K − Q. Nothing here keeps j within the keys, nor `first` and
    `last`: lengths on a card are never checked.

    Args:
        back: how far back a query sees; FAR if nothing limits it.
        ahead: how far ahead.
        first: the first key that a row sees (B,), int32, contiguous; None is 0.
        last: one after the last (B,), int32, contiguous; None is K.
        ids: the document of each position (B, L), of any integers, contiguous.
        mask: bool, broadcasts to (B, H, Q, K).
    """

    back: int = FAR
    ahead: int = FAR
    first: Tensor | None = None
    last: Tensor | None = None
    ids: Tensor | None = None
    mask: Tensor | None = None


def of(rule: Rule | None, q: Tensor, k: Tensor) -> Seen:
    """What a placed rule lets q (B, H, Q, D) see of k (B, G, K, D), on the device of q.

    No value of a tensor is read, so nothing waits for the device.
    """
    seen = Seen()
    for part in _joined(rule):
        seen = _narrowed(seen, part, q, k.shape[2])
    return seen


def _joined(rule: Rule | None) -> list[Rule]:
    """The rules that all have to hold."""
    if rule is None:
        return []
    if isinstance(rule, Both):
        return [part for each in rule.rules for part in _joined(each)]
    return [rule]


def _narrowed(seen: Seen, rule: Rule, q: Tensor, K: int) -> Seen:
    """What is left of `seen` under one more rule."""
    B, H, Q, _ = q.shape
    if isinstance(rule, Causal | Window):
        back, ahead = rule.band
        return replace(seen, back=int(min(seen.back, back)), ahead=int(min(seen.ahead, ahead)))
    if isinstance(rule, Prefix):
        last = torch.full((B,), min(rule.n, K), dtype=torch.int32, device=q.device)
        return replace(seen, last=_met(torch.minimum, seen.last, last))
    if isinstance(rule, Padding):
        lengths = rule.lengths.to(q.device, torch.int32).contiguous()
        if rule.side == "right":
            return replace(seen, last=_met(torch.minimum, seen.last, lengths))
        return replace(seen, first=_met(torch.maximum, seen.first, K - lengths))
    if isinstance(rule, Documents) and seen.ids is None:
        return replace(seen, ids=rule.ids.to(q.device).contiguous())
    mask = rules.seen(rule, B, H, Q, K, device=q.device).to(q.device)
    return replace(seen, mask=_met(torch.logical_and, seen.mask, mask))


def _met(meet: Callable[[Tensor, Tensor], Tensor], one: Tensor | None, other: Tensor) -> Tensor:
    """Both limits at once, where there was one before."""
    return other if one is None else meet(one, other)
