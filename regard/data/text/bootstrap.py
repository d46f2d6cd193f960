"""Is one translation better than another, or lucky with its test? Drawn again a thousand times.

Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.data.text.bleu import MAX_NGRAM_WORDS, sentence_statistics


class Difference(NamedTuple):
    """How much better the first is, in points of BLEU.

    Args:
        mean: over the tests that were drawn.
        low: 95 of 100 drawn tests lie from here
        high: to here.
        p: the share of drawn tests in which the first is not better, if on the whole test it is;
            or not worse, if it is worse.
    """

    mean: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}], p = {self.p:.3f}"


def paired_bootstrap(
    texts: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    *,
    samples: int = 1000,
    seed: int = 0,
) -> Difference:
    """The difference in `bleu_lc_tok` of `texts` over `others`, on the same drawn tests for both.

    A drawn test has as many sentences as the whole, drawn from it with replacement.
    """
    if samples < 1:
        raise ValueError(f"paired_bootstrap: expected samples of at least 1, got {samples}")
    both = [sentence_statistics(side, references) for side in (texts, others)]
    size = len(references)
    # how often each sentence is drawn: a sum over drawn sentences is then a product
    drawn = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=samples)
    ours, theirs = (bleu_from_statistics(drawn @ each) for each in both)
    differences = ours - theirs
    whole = np.subtract(*(bleu_from_statistics(each.sum(0)) for each in both))
    flipped = differences * np.sign(whole) <= 0
    low, high = np.percentile(differences, [2.5, 97.5])
    return Difference(*map(float, (differences.mean(), low, high, flipped.mean())))


def bleu_from_statistics(sums: np.ndarray) -> np.ndarray:
    """BLEU in points of each row of `sums`, smoothed as sacreBLEU's `exp`.

    The n-th order without a right n-gram, of those there are, counts as `1 / 2ⁿ` of one.
    """
    ours, theirs = sums[..., 0], sums[..., 1]
    right, all_ = sums[..., 2 : 2 + MAX_NGRAM_WORDS], sums[..., 2 + MAX_NGRAM_WORDS :]
    none = right == 0
    smoothed = np.where(none, 0.5 ** none.cumsum(-1), right)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(100 * smoothed / all_).mean(-1)
        shortness = np.minimum(1 - theirs / ours, 0)
        points = np.exp(mean + shortness)
    # texts too short for four words in a row, or with no right word, have nothing
    return np.where((right.sum(-1) > 0) & (all_ > 0).all(-1), points, 0.0)
