"""A rule as numbers that a kernel can compare while it runs, so that no (Q, K) mask is formed.

The twin of `functional.rules.mask_tensor`. What no number can say is still spelled out as a mask.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.functional import rules
from regard.functional.rules import Both, Causal, Documents, Padding, Prefix, Rule, Window

# Farther than any key is; still, a position and this fit together into 32 bits.
UNLIMITED_REACH = 1 << 30


@dataclass(frozen=True, eq=False)
class MaskSpec:
    """Who sees whom: a query at position p sees key j of batch row b if all of these hold.

    - `p - back <= j <= p + ahead`
    - `first[b] <= j < last[b]`
    - `p >= 0` and `ids[b, p] == ids[b, j]`
    - `mask` is True

    A query's position is its index + K − Q. Nothing here keeps j within the keys, nor `first` and
    `last`: lengths on a GPU are never checked.

    Args:
        back: how far back a query sees; UNLIMITED_REACH if nothing limits it.
        ahead: how far ahead.
        first: the first key that a row sees (B,), int32, contiguous; None is 0.
        last: one after the last (B,), int32, contiguous; None is K.
        ids: the document of each position (B, L), of any integers, contiguous.
        mask: bool, broadcasts to (B, H, Q, K).
    """

    back: int = UNLIMITED_REACH
    ahead: int = UNLIMITED_REACH
    first: Tensor | None = None
    last: Tensor | None = None
    ids: Tensor | None = None
    mask: Tensor | None = None


def from_rule(rule: Rule | None, q: Tensor, k: Tensor) -> MaskSpec:
    """What a placed rule lets q (B, H, Q, D) see of k (B, G, K, D), on the device of q.

    No value of a tensor is read, so nothing waits for the device.
    """
    seen = MaskSpec()
    for part in _flatten_conjunction(rule):
        seen = _with_rule(seen, part, q, k.shape[2])
    return seen


def _flatten_conjunction(rule: Rule | None) -> list[Rule]:
    """The rules that all have to hold."""
    if rule is None:
        return []
    if isinstance(rule, Both):
        return [part for each in rule.rules for part in _flatten_conjunction(each)]
    return [rule]


def _with_rule(spec: MaskSpec, rule: Rule, q: Tensor, K: int) -> MaskSpec:
    """What is left of `spec` under one more rule."""
    B, H, Q, _ = q.shape
    if isinstance(rule, Causal | Window):
        back, ahead = rule.band
        return replace(spec, back=int(min(spec.back, back)), ahead=int(min(spec.ahead, ahead)))
    if isinstance(rule, Prefix):
        last = torch.full((B,), min(rule.n, K), dtype=torch.int32, device=q.device)
        return replace(spec, last=_combine_limits(torch.minimum, spec.last, last))
    if isinstance(rule, Padding):
        lengths = rule.lengths.to(q.device, torch.int32).contiguous()
        if rule.side == "right":
            return replace(spec, last=_combine_limits(torch.minimum, spec.last, lengths))
        return replace(spec, first=_combine_limits(torch.maximum, spec.first, K - lengths))
    if isinstance(rule, Documents) and spec.ids is None:
        return replace(spec, ids=rule.ids.to(q.device).contiguous())
    mask = rules.mask_tensor(rule, B, H, Q, K, device=q.device).to(q.device)
    return replace(spec, mask=_combine_limits(torch.logical_and, spec.mask, mask))


def _combine_limits(
    combine: Callable[[Tensor, Tensor], Tensor], one: Tensor | None, other: Tensor
) -> Tensor:
    """Both limits at once, where there was one before."""
    return other if one is None else combine(one, other)
