"""The recurrent net beside the Transformer: as good as its card says, and it looks where it should.

Both are English to German, and may weigh 10 MiB together.
"""

import pytest

from regard import load
from regard.recipes import translate
from regard.zoo import members
from tests.data.test_multi30k import needs_all

NAME = "translate-en-de-rnn"


@pytest.fixture(scope="module")
def loaded():
    return load(NAME)


def test_both_are_small_enough_to_come_along():
    folders = [members.HERE / name for name in (NAME, "translate-en-de")]
    assert sum(path.stat().st_size for each in folders for path in each.iterdir()) <= 10 * 2**20


def test_its_card_says_how_to_make_it_again_and_what_it_reaches(loaded):
    assert loaded.card["command"].startswith("regard train translate grid=rnn")
    assert "/" not in loaded.card["command"]
    numbers = loaded.card["numbers"]
    assert numbers["bleu_lc_tok"] >= 36.5
    assert numbers["test_2017_flickr"]["bleu_lc_tok"] >= 28.5


@needs_all
def test_it_reaches_the_number_of_its_card(loaded):
    pytest.importorskip("sacrebleu")
    found = translate.evaluate(loaded, translate.Evaluation(beam=5))
    expected = loaded.card["numbers"]["bleu_lc_tok"]
    assert found["bleu_lc_tok"] == pytest.approx(expected, abs=0.3)


def test_it_translates(loaded):
    assert translate.predict(loaded, "A man is riding a bicycle.").text == "Ein Mann fährt Fahrrad."


def test_it_looks_at_the_words_it_translates(loaded):
    trace = translate.trace(loaded, "Two young children play with a ball on the beach.")
    looked = trace.maps[0].weights().argmax(1)
    source, target = trace.axis("source").labels, trace.axis("target").labels
    for word, of in {"Kinder": "children", "spielen": "play", "Ball": "ball"}.items():
        assert source[looked[target.index(word)]] == of
