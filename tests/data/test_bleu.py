"""BLEU by hand, by sacreBLEU's own words, and by name where it is missing."""

import math
import sys
from importlib.util import find_spec

import pytest

from regard.data.bleu import bleu, needed

needs_sacrebleu = pytest.mark.skipif(not find_spec("sacrebleu"), reason="needs sacrebleu")


@needs_sacrebleu
def test_a_perfect_translation_has_a_hundred_points():
    found = bleu(["le chat est noir et blanc"], ["le chat est noir et blanc"])
    assert found["bleu"] == pytest.approx(100)
    assert found["chrf"] == pytest.approx(100)


@needs_sacrebleu
def test_bleu_by_hand():
    # of 1- to 4-grams 5/6, 3/5, 2/4 and 1/3 are right, and nothing is too short
    found = bleu(["the cat sat on the rug"], ["the cat sat on a rug"])
    precisions = [5 / 6, 3 / 5, 2 / 4, 1 / 3]
    by_hand = 100 * math.exp(sum(map(math.log, precisions)) / 4)
    assert found["bleu"] == pytest.approx(by_hand)
    assert "tok:13a" in found["signature"]
    assert "case:mixed" in found["signature"]


@needs_sacrebleu
@pytest.mark.parametrize("texts", [[], ["a", "b"]], ids=["none", "more"])
def test_other_counts_are_refused(texts):
    with pytest.raises(ValueError, match="bleu: expected as many texts as references, and some"):
        bleu(texts, ["a"] if texts else [])


def test_a_missing_library_is_named_before_anything_is_done(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(ModuleNotFoundError, match=r"BLEU needs sacrebleu: pip install 'regard\["):
        needed()
