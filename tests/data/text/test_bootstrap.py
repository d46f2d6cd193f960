"""The paired bootstrap: BLEU from sums is sacreBLEU's, and chance is told from skill."""

import random
from importlib.util import find_spec

import numpy as np
import pytest

from regard.data.text.bleu import sentence_statistics
from regard.data.text.bootstrap import Difference, bleu_from_statistics, paired_bootstrap

pytestmark = pytest.mark.skipif(not find_spec("sacrebleu"), reason="needs sacrebleu")

WORDS = [f"Word{i}" for i in range(50)]


def drawn(count: int, seed: int) -> list[str]:
    """Sentences of 1 to 12 words and a full stop."""
    draws = random.Random(seed)
    return [" ".join(draws.choices(WORDS, k=draws.randint(1, 12))) + "." for _ in range(count)]


def spoiled(sentences: list[str], share: float, seed: int) -> list[str]:
    """The same with so many of the words taken from elsewhere."""
    draws = random.Random(seed)
    return [
        " ".join(draws.choice(WORDS) if draws.random() < share else w for w in s.split())
        for s in sentences
    ]


REFERENCES = drawn(200, seed=0)


# the shares go from all right to nothing in a row of two, three or four
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("size", [1, 2, 5, 200])
def test_bleu_of_sums_is_that_of_sacrebleu(share, size):
    from sacrebleu.metrics import BLEU

    texts, references = spoiled(REFERENCES, share, seed=1)[:size], REFERENCES[:size]
    theirs = BLEU(lowercase=True, tokenize="13a").corpus_score(texts, [references]).score
    assert float(
        bleu_from_statistics(sentence_statistics(texts, references).sum(0))
    ) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "no", "the dog", "a cat sat on", "the cat is on a mat", "a b c d e f"]
)
def test_smoothing_is_that_of_sacrebleu(text):
    from sacrebleu.metrics import BLEU

    theirs = BLEU(lowercase=True).corpus_score([text], [["The cat sat on the mat"]]).score
    ours = bleu_from_statistics(sentence_statistics([text], ["The cat sat on the mat"]).sum(0))
    assert float(ours) == pytest.approx(theirs, rel=1e-12, abs=1e-300)


def test_many_rows_are_scored_as_each_alone():
    rows = sentence_statistics(spoiled(REFERENCES, 0.3, seed=1), REFERENCES)
    assert bleu_from_statistics(rows) == pytest.approx(
        np.array([float(bleu_from_statistics(row)) for row in rows])
    )


def test_a_much_better_translation_is_better_in_every_drawn_test():
    better, worse = spoiled(REFERENCES, 0.1, seed=1), spoiled(REFERENCES, 0.5, seed=2)
    found = paired_bootstrap(better, worse, REFERENCES)
    assert found.p == 0
    assert 0 < found.low < found.mean < found.high


def test_sides_may_be_exchanged():
    one, other = spoiled(REFERENCES, 0.3, seed=1), spoiled(REFERENCES, 0.32, seed=2)
    there, back = paired_bootstrap(one, other, REFERENCES), paired_bootstrap(other, one, REFERENCES)
    assert there.p == back.p
    assert [there.mean, there.low, there.high] == pytest.approx([-back.mean, -back.high, -back.low])


def test_a_translation_is_no_better_than_itself():
    texts = spoiled(REFERENCES, 0.3, seed=1)
    assert paired_bootstrap(texts, texts, REFERENCES) == Difference(0, 0, 0, 1)


def test_two_equally_good_ones_are_not_told_apart():
    ps = [
        paired_bootstrap(
            spoiled(REFERENCES, 0.3, seed=s), spoiled(REFERENCES, 0.3, seed=s + 99), REFERENCES
        ).p
        for s in range(1, 11)
    ]
    assert sum(p > 0.05 for p in ps) >= 7


def test_a_difference_in_words():
    assert str(Difference(1.234, -0.5, 3, 0.04)) == "+1.23 [-0.50, +3.00], p = 0.040"


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="paired_bootstrap: expected samples of at least 1, got 0"):
        paired_bootstrap(["a"], ["a"], ["a"], samples=0)
