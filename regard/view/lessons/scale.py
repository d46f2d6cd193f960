"""Why a dot product is divided by √D: its variance is D, and a softmax of large scores is stuck."""

import torch
from torch import Tensor

from regard.dispatch import logits, weigh
from regard.functional.scores import dot
from regard.view.lessons.fields import Integer
from regard.view.lessons.formats import script_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

# How many queries and keys are drawn, and how many keys one softmax runs over.
NUM_VECTORS, NUM_KEYS = 160, 16
HISTOGRAM_BINS, HISTOGRAM_SPAN = 41, 4.0
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def compute(width: int, seed: int) -> Answer:
    """Random dot products, plain and scaled: how wide they are, and what a softmax makes of it."""
    q, k = _random_vectors(width, seed)
    plain, scaled = logits(q, k, score=dot), logits(q, k)
    few = q[:, :, :1], k[:, :, :NUM_KEYS]
    # both are counted over the same span: that of the wider
    span = HISTOGRAM_SPAN * max(1.0, width**0.5)
    return {
        "variance": [to_numbers(plain.var()), to_numbers(scaled.var())],
        "span": span,
        "histogram": [_histogram(scores, span) for scores in (plain, scaled)],
        "plain": to_numbers(weigh(*few, score=dot)[0, 0, 0]),
        "scaled": to_numbers(weigh(*few)[0, 0, 0]),
        "widths": list(WIDTHS),
        "slopes": _jacobian_norms(seed),
        "slope": [
            mean_jacobian_norm(weigh(q, k[:, :, :NUM_KEYS], score=dot)),
            mean_jacobian_norm(weigh(q, k[:, :, :NUM_KEYS])),
        ],
        "code": script_code(
            f"g = torch.Generator().manual_seed({seed})",
            f"q, k = torch.randn(2, 1, 1, {NUM_VECTORS}, {width}, generator=g)",
            "a, b = regard.logits(q, k, score=regard.scores.dot), regard.logits(q, k)",
            "variance = a.var(), b.var()",
            f"plain = regard.weigh(q[:, :, :1], k[:, :, :{NUM_KEYS}], score=regard.scores.dot)",
            f"scaled = regard.weigh(q[:, :, :1], k[:, :, :{NUM_KEYS}])",
        ),
    }


def mean_jacobian_norm(weights: Tensor) -> float:
    """How far weights follow their scores: the norm of the softmax's Jacobian, on average.

    `Σ (∂pᵢ/∂sⱼ)²` is `Σp² − 2Σp³ + (Σp²)²`; it is 0 where one weight is 1.
    """
    square, cube = weights.square().sum(-1), weights.pow(3).sum(-1)
    return to_numbers((square - 2 * cube + square.square()).clamp_min(0).sqrt().mean())


def _random_vectors(width: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, NUM_VECTORS, width, generator=generator)
    return q, k


def _histogram(scores: Tensor, span: float) -> list[float]:
    """The share of scores in each of the bins from −span to span; what is beyond, in the last."""
    inside = scores.clamp(-span, span)
    return to_numbers(torch.histc(inside, HISTOGRAM_BINS, -span, span) / scores.numel())


def _jacobian_norms(seed: int) -> list[list[float]]:
    """The steepness at all widths, plain and scaled; a narrow vector is the start of a wide one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 1, 2 * NUM_KEYS, WIDTHS[-1], generator=generator)
    pairs = [(x[:, :, NUM_KEYS:, :width], x[:, :, :NUM_KEYS, :width]) for width in WIDTHS]
    plain = [mean_jacobian_norm(weigh(*pair, score=dot)) for pair in pairs]
    return [plain, [mean_jacobian_norm(weigh(*pair)) for pair in pairs]]


LESSON = Lesson(
    name="scaling",
    title="Why √d",
    question="Vectors of 512 random numbers: how large is their dot product, typically?",
    guesses=("About 1", "About √512 ≈ 23", "About 512"),
    right=1,
    aha=(
        "The variance of q · k is d. Without the division the softmax of wide vectors puts all on "
        "one key and no gradient comes through; divided by √d it is the same at every width."
    ),
    fields={"width": Integer(1, 512, 64), "seed": Integer(0, 9999, 0)},
    compute=compute,
)
