"""Selects that an edit has changed: each holds the one that was there, and comes after it.

No kernel knows them, so they run on the reference; a look can still ask them for a few rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.check import Number
from regard.functional.precision import to_float32
from regard.functional.scores import index_rows
from regard.functional.selects import (
    HIDDEN,
    DrawnKeys,
    Gaussian,
    Sampled,
    Select,
    is_position_independent,
    softmax,
)


@dataclass(frozen=True, eq=False)
class TemperatureSelect:
    """A select of the scores divided by a temperature."""

    select: Select
    temperature: Number

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        return self.select(self.scaled_scores(scores))

    def scaled_scores(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        """The scores as this select sees them."""
        scores = to_float32(scores)
        most = torch.finfo(scores.dtype).max
        # near zero a temperature makes anything infinite, but what was seen stays so
        heated = (scores / self.temperature).clamp(-most, most)
        return heated.masked_fill(scores == HIDDEN, HIDDEN)


@dataclass(frozen=True, eq=False)
class ForcedWeightSelect:
    """A select of which one key has a given weight in some rows; the rest makes room.

    Args:
        select: what the rows are before.
        rows: where a weight is given, bool, broadcasts to (B, H, Q).
        key: of which key.
        weight: how much of it is read. If it may not be seen, its row stays as it is.
        mask: which keys may be seen beside those whose score is not −inf, bool, broadcasts to
            (B, H, Q, K); None is all.
    """

    select: Select
    rows: Tensor
    key: int
    weight: Number
    mask: Tensor | None = None

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        before, seen = to_float32(self.select(scores)), scores != HIDDEN
        seen = seen if self.mask is None else seen & self.mask
        mine = torch.arange(scores.shape[-1], device=scores.device) == self.key
        forced = self.rows[..., None] & seen[..., self.key, None]
        others = before.masked_fill(mine, 0)
        rest = others.sum(-1, keepdim=True)
        # where there is nothing to scale, all that may be seen share alike
        alike = (seen & ~mine).to(before.dtype)
        alike = alike / alike.sum(-1, keepdim=True).clamp_min(1)
        # a gradient through what nearly underflows would be infinite: there is none
        steep = rest < _min_safe_weight(before)
        others, rest = (x.where(~steep, x.detach()) for x in (others, rest))
        share = torch.where(rest > 0, others / rest.where(rest > 0, 1), alike)
        left = (before.sum(-1, keepdim=True) - self.weight).clamp_min(0)
        after = (share * left).masked_fill(mine, self.weight)
        return torch.where(forced, after, before)


def restrict_to_rows(select: Select, batch: int, head: int, queries: Tensor) -> Select | None:
    """A select for some queries of one head; None if it has to be asked for everything."""
    if is_position_independent(select):
        return select
    if isinstance(select, Gaussian | DrawnKeys):
        return select.restrict_to_rows(batch, head, queries)
    if not isinstance(select, TemperatureSelect | ForcedWeightSelect):
        return None
    inner = restrict_to_rows(select.select, batch, head, queries)
    if inner is None or isinstance(select, TemperatureSelect):
        return None if inner is None else replace(select, select=inner)
    rows = index_rows(select.rows, batch, head, queries)
    mask = select.mask
    if mask is not None:
        mask = index_rows(mask[(None,) * (4 - mask.dim())], batch, head, queries)
    return replace(select, select=inner, rows=rows, mask=mask)


def with_drawn_keys(select: Select, scores: Callable[[], Tensor]) -> Select:
    """The select with its keys drawn already; scores are formed only if it draws any."""
    if isinstance(select, Sampled):
        return DrawnKeys(select.sample_keys(scores()))
    if isinstance(select, TemperatureSelect):
        heated = select.scaled_scores
        return replace(select, select=with_drawn_keys(select.select, lambda: heated(scores())))
    if isinstance(select, ForcedWeightSelect):
        return replace(select, select=with_drawn_keys(select.select, scores))
    return select


def log_weights(select: Select, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """Logits that a softmax turns into the weights which a select gives; −inf for a zero.

    Of a softmax at another temperature nothing underflows. Elsewhere a weight that is all but zero,
    whose logarithm is too steep for the dtype, passes no gradient on.
    """
    while isinstance(select, TemperatureSelect):
        scores, select = select.scaled_scores(scores), select.select
    if select is softmax:
        blind = (scores == HIDDEN).all(-1, keepdim=True)
        return scores.masked_fill(blind, 0).log_softmax(-1).masked_fill(blind, HIDDEN)
    weights = select(scores)
    none, steep = weights <= 0, weights < _min_safe_weight(weights)
    found = torch.where(steep, weights.detach(), weights).masked_fill(none, 1).log()
    return found.masked_fill(none, HIDDEN)


def _min_safe_weight(weights: Tensor) -> float:
    """The least weight whose inverse and log have gradients that do not overflow."""
    return float(1024 * torch.finfo(weights.dtype).tiny)
