"""The translator that comes along: small, as good as its card says, and it knows where to look."""

import pytest

from regard import load
from regard.recipes import translate
from regard.zoo import catalogue

NAME = "translate-en-fr-small"


@pytest.fixture(scope="module")
def loaded():
    return load(NAME)


def test_it_is_small_enough_to_come_along():
    assert sum(path.stat().st_size for path in (catalogue.HERE / NAME).iterdir()) <= 2 * 2**20


def test_it_reaches_the_number_of_its_card(loaded):
    pytest.importorskip("sacrebleu")
    found = translate.evaluate(loaded, translate.Evaluation())
    assert found["bleu"] == pytest.approx(loaded.card["numbers"]["bleu"], abs=0.3)
    assert found["bleu"] > 35


def test_its_card_says_how_to_make_it_again(loaded):
    assert loaded.card["command"].startswith("regard train translate")
    assert loaded.card["data"].endswith("CC-BY 2.0")
    assert "/" not in loaded.card["command"].split("--out")[0]


def test_it_translates_and_looks_at_the_word_it_translates(loaded):
    trace = translate.trace(loaded, "Where is my book?")
    assert trace.outputs["text"] == "Où est mon livre ?"
    looked = trace.map().weights().argmax(1)
    source, target = trace.axis("source").labels, trace.axis("target").labels
    assert source[looked[target.index("livre")]] == "book"
