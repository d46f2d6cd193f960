"""Which keys are read, and how much of each? A select maps scores (B, H, Q, K) to weights.

A score of −inf marks a key that may not be seen; it gets the weight 0. A row that sees nothing gets
zeros, and its gradient is zero. Everything here runs in float32 or better.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional.precision import to_float32
from regard.functional.scores import index_rows

Select = Callable[[Tensor], Tensor]

# The one mask value of the project: what may not be seen has this score.
HIDDEN = float("-inf")


def softmax(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """`exp(s) / Σ exp(s)`: every key that is seen is read a little (soft attention)."""
    scores, blind = _open_blind_rows(scores)
    return scores.softmax(-1).masked_fill(blind, 0)


def sparsemax(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """Martins & Astudillo 2016, eq. 2: the point of the simplex nearest to the scores."""
    if scores.shape[-1] == 0:
        return scores
    scores, blind = _open_blind_rows(scores)
    scores = scores - scores.amax(-1, keepdim=True).detach()
    ordered = scores.sort(dim=-1, descending=True).values
    total = ordered.cumsum(-1)
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    size = (1 + rank * ordered > total).sum(-1, keepdim=True)
    threshold = (total.gather(-1, size - 1) - 1) / size
    return (scores - threshold).clamp_min(0).masked_fill(blind, 0)


def hard(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """The best key and no other, one-hot; no gradient reaches the scores."""
    return _one_hot(_best_keys(scores), scores)


def straight_through(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """Bengio et al. 2013: one-hot forward, as `hard`; backward as `softmax`."""
    soft = softmax(scores)
    return hard(scores) + (soft - soft.detach())  # what is added is zero, and its gradient is not


@dataclass(frozen=True)
class TopK:
    """The softmax over the `n` best keys of each query; the others are not read."""

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"top_k: expected a whole n >= 1, got {self.n!r}")

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        if scores.shape[-1] <= self.n:
            return softmax(scores)
        least = scores.detach().topk(self.n, dim=-1).values[..., -1:]
        # topk takes any of equals; the first of them are kept, so that every backend takes the same
        equal = scores == least
        room = self.n - (scores > least).sum(-1, keepdim=True)
        late = equal & (equal.cumsum(-1) > room)
        return softmax(scores.masked_fill((scores < least) | late, HIDDEN))


@dataclass(frozen=True, eq=False)
class Sampled:
    """One key drawn with the softmax's probability, one-hot: Xu et al. 2015, 4.1 (hard attention).

    Its gradient comes from REINFORCE: `log_probability` at the drawn key, times the reward.
    """

    generator: torch.Generator | None = None

    def sample_keys(self, scores: Float[Tensor, "B H Q K"]) -> Int[Tensor, "B H Q"]:
        """The key each query draws; −1 where it may see none."""
        with torch.no_grad():
            p = softmax(scores)
            if p.shape[-1] == 0:
                return torch.full(p.shape[:-1], -1, device=p.device)
            # the first of exponential clocks with rates p rings at each key with probability p
            clocks = torch.empty_like(p).exponential_(generator=self.generator)
            return torch.where(p.sum(-1) > 0, (p / clocks).argmax(-1), -1)

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        return DrawnKeys(self.sample_keys(scores))(scores)


@dataclass(frozen=True, eq=False)
class DrawnKeys:
    """Keys that were drawn before, one a query, one-hot: what a look keeps of `sampled`.

    Args:
        index: the key of each query (B, H, Q); −1 reads nothing.
    """

    index: Tensor

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        return _one_hot(self.index, scores)

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor) -> "DrawnKeys":
        """This select for some queries of one head."""
        return DrawnKeys(index_rows(self.index, batch, head, queries))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Luong et al. 2015, eq. 10 (local-p): the softmax times `exp(−(k − centre)² / (2 width²))`.

    Rows need not sum to one.

    Args:
        centre: where each query looks (B, H, Q).
        width: the standard deviation, in keys; half the reach in the paper.
    """

    centre: Tensor
    width: Number

    def __post_init__(self) -> None:
        check.shape("gaussian", "centre", self.centre, B=None, H=None, Q=None)
        check.supported_dtype("gaussian", "centre", self.centre)
        check.number("gaussian", "width", self.width)
        if not self.width > 0:
            raise ValueError(f"gaussian: expected width > 0, got {self.width!r}")

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        weights = softmax(scores)
        # float32 does not hold every digit of a centre beyond some thousand keys
        exact = torch.promote_types(weights.dtype, self.centre.dtype)
        keys = torch.arange(scores.shape[-1], device=scores.device, dtype=exact)
        blind = (scores == HIDDEN).all(-1)
        # the centre of a query that sees nothing may be anything, even NaN
        centre = self.centre.to(exact).masked_fill(blind, 0)
        apart = ((keys - centre[..., None]) / self.width).to(weights.dtype)
        return weights * torch.exp(-apart.square() / 2)

    def check_shapes(self, q: Tensor) -> None:
        """Refuse centres for other queries."""
        B, H, Q, _ = q.shape
        check.shape("gaussian", "centre", self.centre, B=B, H=H, Q=Q)

    def restrict_to_rows(self, batch: int, head: int, queries: Tensor) -> "Gaussian":
        """This select for some queries of one head."""
        return Gaussian(index_rows(self.centre, batch, head, queries), self.width)


top_k = TopK
sampled = Sampled
gaussian = Gaussian


def is_position_independent(select: Select) -> bool:
    """Whether a select judges each row by its seen scores alone, wherever the keys stand."""
    return select in (softmax, sparsemax, hard, straight_through) or isinstance(select, TopK)


def _open_blind_rows(
    scores: Float[Tensor, "B H Q K"],
) -> tuple[Float[Tensor, "B H Q K"], Bool[Tensor, "B H Q 1"]]:
    """Scores with blind rows set to zero, so that nothing in them is NaN, and which those are."""
    scores = to_float32(scores)
    blind = (scores == HIDDEN).all(-1, keepdim=True)
    return scores.masked_fill(blind, 0), blind


def _best_keys(scores: Float[Tensor, "B H Q K"]) -> Int[Tensor, "B H Q"]:
    if scores.shape[-1] == 0:
        return torch.full(scores.shape[:-1], -1, device=scores.device)
    value, index = scores.detach().max(-1)
    return torch.where(value == HIDDEN, -1, index)


def _one_hot(
    index: Int[Tensor, "B H Q"], scores: Float[Tensor, "B H Q K"]
) -> Float[Tensor, "B H Q K"]:
    keys = torch.arange(scores.shape[-1], device=scores.device)
    return (index[..., None] == keys).to(to_float32(scores).dtype)
