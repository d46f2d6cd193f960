"""Why a dot product is divided by √D: its variance is D, and a softmax of large scores is stuck."""

import torch
from torch import Tensor

from regard.door import logits, weigh
from regard.functional.scores import dot
from regard.view.lessons.fields import Whole
from regard.view.lessons.lesson import Answer, Lesson
from regard.view.lessons.writing import exact, script

# How many queries and keys are drawn, and how many keys one softmax runs over.
DRAWN, KEYS = 160, 16
BINS, SPAN = 41, 4.0
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def compute(width: int, seed: int) -> Answer:
    """Random dot products, plain and scaled: how wide they are, and what a softmax makes of it."""
    q, k = _drawn(width, seed)
    plain, scaled = logits(q, k, score=dot), logits(q, k)
    few = q[:, :, :1], k[:, :, :KEYS]
    # both are counted over the same span: that of the wider
    span = SPAN * max(1.0, width**0.5)
    return {
        "variance": [exact(plain.var()), exact(scaled.var())],
        "span": span,
        "histogram": [_share(scores, span) for scores in (plain, scaled)],
        "plain": exact(weigh(*few, score=dot)[0, 0, 0]),
        "scaled": exact(weigh(*few)[0, 0, 0]),
        "widths": list(WIDTHS),
        "slopes": _slopes(seed),
        "slope": [
            steepness(weigh(q, k[:, :, :KEYS], score=dot)),
            steepness(weigh(q, k[:, :, :KEYS])),
        ],
        "code": script(
            f"g = torch.Generator().manual_seed({seed})",
            f"q, k = torch.randn(2, 1, 1, {DRAWN}, {width}, generator=g)",
            "a, b = regard.logits(q, k, score=regard.scores.dot), regard.logits(q, k)",
            "variance = a.var(), b.var()",
            f"plain = regard.weigh(q[:, :, :1], k[:, :, :{KEYS}], score=regard.scores.dot)",
            f"scaled = regard.weigh(q[:, :, :1], k[:, :, :{KEYS}])",
        ),
    }


def steepness(weights: Tensor) -> float:
    """How far weights follow their scores: the norm of the softmax's Jacobian, on average.

    `Σ (∂pᵢ/∂sⱼ)²` is `Σp² − 2Σp³ + (Σp²)²`; it is 0 where one weight is 1.
    """
    square, cube = weights.square().sum(-1), weights.pow(3).sum(-1)
    return exact((square - 2 * cube + square.square()).clamp_min(0).sqrt().mean())


def _drawn(width: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, DRAWN, width, generator=generator)
    return q, k


def _share(scores: Tensor, span: float) -> list[float]:
    """The share of scores in each of the bins from −span to span; what is beyond, in the last."""
    inside = scores.clamp(-span, span)
    return exact(torch.histc(inside, BINS, -span, span) / scores.numel())


def _slopes(seed: int) -> list[list[float]]:
    """The steepness at all widths, plain and scaled; a narrow vector is the start of a wide one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 1, 2 * KEYS, WIDTHS[-1], generator=generator)
    pairs = [(x[:, :, KEYS:, :width], x[:, :, :KEYS, :width]) for width in WIDTHS]
    plain = [steepness(weigh(*pair, score=dot)) for pair in pairs]
    return [plain, [steepness(weigh(*pair)) for pair in pairs]]


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
    fields={"width": Whole(1, 512, 64), "seed": Whole(0, 9999, 0)},
    compute=compute,
)
