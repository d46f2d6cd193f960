"""BLEU by hand, by sacreBLEU's own words, and by name where it is missing."""

import math
import sys
from importlib.util import find_spec

import pytest

from regard.data.text.bleu import bleu, check_sacrebleu, sentence_statistics

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
def test_case_costs_points_with_case_alone():
    found = bleu(["The Cat sat on the mat"], ["the cat sat on the mat"])
    assert found["bleu_lc_tok"] == pytest.approx(100)
    # of 1- to 4-grams 4/6, 3/5, 2/4 and 1/3 are right
    assert found["bleu"] == pytest.approx(100 * (4 / 6 * 3 / 5 * 2 / 4 / 3) ** 0.25)


@needs_sacrebleu
def test_the_signature_states_both():
    found = bleu(["a"], ["a"])
    assert list(found) == ["bleu_lc_tok", "bleu", "chrf", "signature"]
    lower, mixed = found["signature"].split("; ")
    assert lower.startswith("bleu_lc_tok nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:")
    assert mixed.startswith("bleu nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


@needs_sacrebleu
def test_counts_by_hand():
    # words here and there, right 1- to 4-grams, all 1- to 4-grams
    rows = sentence_statistics(
        ["The cat sat on the rug", "no"], ["the cat sat on a rug.", "yes it is"]
    )
    assert rows.tolist() == [[6, 7, 5, 3, 2, 1, 6, 5, 4, 3], [1, 3, 0, 0, 0, 0, 1, 0, 0, 0]]


@needs_sacrebleu
@pytest.mark.parametrize("texts", [[], ["a", "b"]], ids=["none", "more"])
@pytest.mark.parametrize("measure", [bleu, sentence_statistics], ids=["bleu", "statistics"])
def test_other_counts_are_refused(measure, texts):
    said = f"{measure.__name__}: expected as many texts as references, and some"
    with pytest.raises(ValueError, match=said):
        measure(texts, ["a"] if texts else [])


def test_a_missing_library_is_named_before_anything_is_done(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(ModuleNotFoundError, match=r"BLEU needs sacrebleu: pip install 'regard\["):
        check_sacrebleu()
