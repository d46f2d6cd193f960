"""The Transformer that comes along: as good as its card says, and its heads can be looked at."""

import pytest
import torch
from torch.testing import assert_close

from regard import load
from regard.recipes import translate
from regard.zoo import members
from tests.data.test_multi30k import needs_all

NAME = "translate-en-de"


@pytest.fixture(scope="module")
def loaded():
    return load(NAME)


def test_it_is_small_enough_to_come_along():
    assert sum(path.stat().st_size for path in (members.HERE / NAME).iterdir()) <= 6 * 2**20


def test_its_card_says_how_to_make_it_again_and_what_it_reaches(loaded):
    assert loaded.card["command"].startswith("regard train translate grid=transformer")
    assert "/" not in loaded.card["command"]
    numbers = loaded.card["numbers"]
    assert numbers["bleu_lc_tok"] >= 39.8
    assert numbers["test_2017_flickr"]["bleu_lc_tok"] >= 32.0


@needs_all
def test_it_reaches_the_number_of_its_card(loaded):
    pytest.importorskip("sacrebleu")
    found = translate.evaluate(loaded, translate.Evaluation(beam=5))
    expected = loaded.card["numbers"]["bleu_lc_tok"]
    assert found["bleu_lc_tok"] == pytest.approx(expected, abs=0.3)


def test_it_translates(loaded):
    assert translate.predict(loaded, "A man is riding a bicycle.").text == "Ein Mann fährt Fahrrad."


def test_every_head_of_its_three_attentions_can_be_looked_at(loaded):
    trace = translate.trace(loaded, "Two dogs play on the beach.")
    for name in ("encoder", "decoder", "cross"):
        shares = trace.map(name).weights(layer=3, head=3).sum(-1)
        assert_close(shares, torch.ones_like(shares), rtol=0, atol=1e-3)
    looked = trace.map("alignment").weights().argmax(1)
    source, target = trace.axis("source").labels, trace.axis("target").labels
    assert source[looked[target.index("Hunde")]] == "dogs"
