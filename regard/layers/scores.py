"""Scores that are learned: modules that hold the parameter, and give the score as a value.

`MultiHead(width, heads, score=GeneralScore(heads, width // heads))` trains and saves the weight;
kernels recognise what `value()` gives. A module of your own with a `value()` does as well.
"""

from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.functional.scores import (
    POSITIONAL_SCORES,
    Additive,
    Cosine,
    Factors,
    General,
    Location,
    Relative,
    Score,
    dot,
    scaled_dot,
)

# The scores that go by the content of queries and keys alone, by name.
ScoreName = Literal["scaled_dot", "dot", "additive", "cosine", "general"]


@runtime_checkable
class LearnedScore(Protocol):
    """A module that holds the parameters of a score."""

    def value(self) -> Score:
        """The score, with the parameters as they are now."""


class AdditiveScore(nn.Module):
    """Bahdanau et al. 2015, A.1.2: `vector · tanh(q + k)`, with a learned vector for each head.

    Args:
        heads: how many heads the queries have.
        width: how wide each head is, D.
    """

    def __init__(self, heads: int, width: int):
        super().__init__()
        self.vector = nn.Parameter(_uniform(heads, width, fan_in=width))

    def init_for_transformer(self) -> None:
        """Draw a vector that suits a Transformer: large enough that weights differ at once."""
        # of 1, 4 and 12 times what is drawn else, the best on development pairs of Multi30k
        most = 12 * self.vector.shape[1] ** -0.5
        nn.init.uniform_(self.vector, -most, most)

    def value(self) -> Additive:
        """The score, as kernels know it."""
        return Additive(self.vector)


class GeneralScore(nn.Module):
    """Luong et al. 2015, 3.1 (general): `q · weight · k`, with a learned weight for each head.

    Args:
        heads: how many heads the queries have.
        width: how wide each head of the queries is, D.
        key_width: how wide each head of the keys is; None for as wide as the queries.
    """

    def __init__(self, heads: int, width: int, key_width: int | None = None):
        super().__init__()
        key_width = width if key_width is None else key_width
        self.weight = nn.Parameter(_uniform(heads, width, key_width, fan_in=width))

    def value(self) -> General:
        """The score, as kernels know it."""
        return General(self.weight)


class CosineScore(nn.Module):
    """Graves et al. 2014, eq. 6: `strength · cos(q, k)`, with a learned strength for each head.

    Args:
        heads: how many heads the queries have.
        strength: where each head's strength begins.
    """

    def __init__(self, heads: int, strength: float = 10.0):
        super().__init__()
        self.strength = nn.Parameter(torch.full((heads,), float(strength)))

    def value(self) -> Cosine:
        """The score, as kernels know it."""
        return Cosine(self.strength[:, None])


class LocationScore(nn.Module):
    """Luong et al. 2015, eq. 8 (location): `q · weight`, a learned column for each place.

    Args:
        heads: how many heads the queries have.
        width: how wide each head is, D.
        places: for how many keys at most.
    """

    def __init__(self, heads: int, width: int, places: int):
        super().__init__()
        self.weight = nn.Parameter(_uniform(heads, width, places, fan_in=width))

    def value(self) -> Location:
        """The score, as kernels know it."""
        return Location(self.weight)


class RelativeScore(nn.Module):
    """Shaw et al. 2018, eq. 5: `q · (k + r) / √D`, with r learned for each distance up to `reach`.

    Args:
        heads: how many heads have distances of their own; 1 shares them among all, as the paper.
        width: how wide each head is, D.
        reach: how far distances are told apart; what is farther takes the outermost.
    """

    def __init__(self, heads: int, width: int, reach: int):
        super().__init__()
        if reach < 0:
            raise ValueError(f"RelativeScore: expected reach >= 0, got {reach}")
        self.keys = nn.Parameter(_uniform(heads, 2 * reach + 1, width, fan_in=width))

    def value(self) -> Relative:
        """The score, scaled as in the paper."""
        return Relative(self.keys, scale=None)


class FactorsScore(nn.Module):
    """Zhu et al. 2019, eq. 2: `(q · k + q · r + u · k + w · r) / √D`, with u, w and r learned.

    The paper projects sines of the distance; here r is learned for each distance up to `reach`.

    Args:
        heads: how many heads the queries have.
        width: how wide each head is, D.
        reach: how far distances are told apart; what is farther takes the outermost.
        query_key: whether `q · k` is there: what is asked for, and what the key says.
        query_position: whether `q · r` is there: what is asked for, and how far away the key is.
        key: whether `u · k` is there: what the key says.
        position: whether `w · r` is there: how far away the key is.
    """

    def __init__(
        self,
        heads: int,
        width: int,
        reach: int,
        *,
        query_key: bool = True,
        query_position: bool = True,
        key: bool = True,
        position: bool = True,
    ):
        super().__init__()
        if reach < 0:
            raise ValueError(f"FactorsScore: expected reach >= 0, got {reach}")
        if not (query_key or query_position or key or position):
            raise ValueError("FactorsScore: expected at least one of the four factors, got none")
        self.query_key, self.query_position = query_key, query_position
        self.distances = (
            nn.Parameter(_uniform(heads, 2 * reach + 1, width, fan_in=width))
            if query_position or position
            else None
        )
        self.key, self.position = (
            nn.Parameter(_uniform(heads, width, fan_in=width)) if there else None
            for there in (key, position)
        )

    def value(self) -> Factors:
        """The score, scaled as in the paper."""
        r, w = self.distances, self.position
        return Factors(
            self.query_key,
            distances=r if self.query_position else None,
            key=self.key,
            position=None if r is None or w is None else (r @ w[..., None])[..., 0],
        )


def build_score(name: ScoreName, heads: int, width: int) -> Score | LearnedScore:
    """The score of this name for `heads` heads of this width, with what it learns."""
    if name == "additive":
        return AdditiveScore(heads, width)
    if name == "cosine":
        return CosineScore(heads)
    if name == "general":
        return GeneralScore(heads, width)
    return dot if name == "dot" else scaled_dot


def score_value(score: Score | LearnedScore) -> Score:
    """The score as a value, whether it is one or a module that holds one."""
    # to ask isinstance of a Protocol takes longer than to project a token
    return score.value() if hasattr(score, "value") else score


def with_positions(score: Score, positions: Tensor) -> Score:
    """The score for queries that stand at `positions` (Q,), if it asks where they stand."""
    return replace(score, positions=positions) if isinstance(score, POSITIONAL_SCORES) else score


def check_no_parameters(where: str, score: Score | LearnedScore) -> None:
    """Refuse a score value that holds a Parameter: no module owns it, so nobody would train it."""
    instead = _LEARNED_SCORES.get(type(score))
    if instead is not None and any(isinstance(x, nn.Parameter) for x in vars(score).values()):
        raise ValueError(
            f"{where}: a Parameter inside scores.{type(score).__name__} would be neither trained "
            f"nor saved; use layers.{instead.__name__}, which holds it"
        )


_LEARNED_SCORES: dict[type, type[nn.Module]] = {
    Additive: AdditiveScore,
    Cosine: CosineScore,
    Factors: FactorsScore,
    General: GeneralScore,
    Location: LocationScore,
    Relative: RelativeScore,
}


def _uniform(*shape: int, fan_in: int) -> Tensor:
    """Where a parameter begins: uniform within ±1/√wide, as in PyTorch's own layers."""
    if min(shape) < 1:
        raise ValueError(f"score: expected sizes >= 1, got {shape}")
    return torch.empty(shape).uniform_(-(fan_in**-0.5), fan_in**-0.5)
