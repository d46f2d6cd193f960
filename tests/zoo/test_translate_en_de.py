"""The two translators to German: as good as their cards say, and what they look at can be seen."""

import pytest
import torch
from torch.testing import assert_close

from regard import load
from regard.recipes import translate
from regard.zoo import catalogue
from tests.data.text.test_multi30k import needs_all

# The grid that each comes from, and the least BLEU that it must reach on two tests.
PROMISED = {
    "translate-en-de": ("transformer", 39.8, 32.0),
    "translate-en-de-rnn": ("rnn", 36.5, 28.5),
}
# What shows which word of the source each looks at.
LOOKS = {"translate-en-de": "alignment", "translate-en-de-rnn": "decoder.attention"}


@pytest.fixture(scope="module", params=PROMISED)
def loaded(request):
    return load(request.param)


def test_both_are_small_enough_to_come_along():
    paths = [path for name in PROMISED for path in (catalogue.HERE / name).iterdir()]
    assert sum(path.stat().st_size for path in paths) <= 10 * 2**20


def test_a_card_says_how_to_make_it_again_and_what_it_reaches(loaded):
    grid, *least = PROMISED[loaded.card["name"]]
    assert loaded.card["command"].startswith(f"regard train translate grid={grid} ")
    assert "/" not in loaded.card["command"]
    numbers = loaded.card["numbers"]
    assert numbers["bleu_lc_tok"] >= least[0]
    assert numbers["test_2017_flickr"]["bleu_lc_tok"] >= least[1]


@needs_all
def test_each_reaches_the_number_of_its_card(loaded):
    pytest.importorskip("sacrebleu")
    found = translate.evaluate(loaded, translate.Evaluation(beam=5))
    expected = loaded.card["numbers"]["bleu_lc_tok"]
    assert found["bleu_lc_tok"] == pytest.approx(expected, abs=0.3)


def test_each_translates(loaded):
    assert translate.predict(loaded, "A man is riding a bicycle.").text == "Ein Mann fährt Fahrrad."


def test_each_looks_at_the_words_it_translates(loaded):
    trace = translate.trace(loaded, "Two young children play with a ball on the beach.")
    looked = trace.map(LOOKS[loaded.card["name"]]).weights().argmax(1)
    source, target = trace.axis("source").labels, trace.axis("target").labels
    for word, of in {"Kinder": "children", "Ball": "ball"}.items():
        assert source[looked[target.index(word)]] == of


def test_every_head_of_three_attentions_can_be_looked_at():
    trace = translate.trace(load("translate-en-de"), "Two dogs play on the beach.")
    for name in ("encoder", "decoder", "cross"):
        shares = trace.map(name).weights(layer=3, head=3).sum(-1)
        assert_close(shares, torch.ones_like(shares), rtol=0, atol=1e-3)
