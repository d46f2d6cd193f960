"""Searching: as it was asked for, and no sentence by its neighbours."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard import decode
from regard.data.text.batches import END
from regard.data.text.pairs import Pair
from regard.fast_decode import packed_linear
from regard.recipes import translate
from regard.recipes.translate import Evaluation
from regard.recipes.translate import search as searching
from regard.recipes.translate.metrics import translate_and_score
from regard.recipes.translate.search import translate_texts


def test_the_search_is_told_what_was_asked_for(loaded, monkeypatch):
    asked, search = [], decode.beam
    kept = lambda *given, **told: asked.append(told) or search(*given, **told)  # noqa: E731
    monkeypatch.setattr(decode, "beam", kept)
    translate.evaluate(loaded, Evaluation(beam=3, length_penalty=0.5))
    assert {(told["width"], told["best"], told["length_penalty"]) for told in asked} == {
        (3, 1, 0.5)
    }


def test_a_translation_does_not_depend_on_its_neighbours(loaded):
    # a sentence that does not end is cut by its own length
    text, long = "sees sees", "the cat finds the dog " * 9
    search = {"beam": 1, "length_penalty": 0.0}
    loaded.model.out.bias.data[END] -= 1e4
    try:
        alone = translate_texts(loaded.model, loaded.tokenizer, [text], **search)
        beside = translate_texts(loaded.model, loaded.tokenizer, [text, long], **search)
    finally:
        loaded.model.out.bias.data[END] += 1e4
    assert beside[0] == alone[0]


def test_matrices_are_multiplied_in_what_was_asked_for(loaded, monkeypatch):
    made = []
    for name in ("packed", "int8"):
        make = getattr(packed_linear, name)
        kept = lambda *given, name=name, make=make: made.append(name) or make(*given)  # noqa: E731
        monkeypatch.setattr(packed_linear, name, kept)
    exact = translate.evaluate(loaded, Evaluation())
    assert exact["precision"] == "float32" and set(made) == {"packed"}
    made.clear()
    rounded = translate.evaluate(loaded, Evaluation(precision="int8"))
    assert rounded["precision"] == "int8" and set(made) == {"int8"}
    assert rounded["loss"] == exact["loss"]
    assert abs(rounded["bleu"] - exact["bleu"]) < 10


def test_eight_bits_are_refused_on_a_card():
    on_card = nn.Module()
    on_card.parameters = lambda: iter([SimpleNamespace(device=torch.device("cuda"))])
    assert searching._prepare_model(on_card, "float32") is on_card
    with pytest.raises(ValueError, match="translate: int8 is for a CPU, and the model lies on a"):
        searching._prepare_model(on_card, "int8")


def test_a_model_without_a_tokenizer_is_refused_with_the_file_that_is_missing(loaded):
    bare = replace(loaded, tokenizer=None)
    words = r"^translate: expected tokenizer\.json beside the card\.json of '.+', got none"
    for ask in (translate.predict, translate.trace):
        with pytest.raises(ValueError, match=words):
            ask(bare, "I see a cat.")
    with pytest.raises(ValueError, match=words):
        translate_and_score(bare, [Pair("a cat", "un chat")], beam=1)
