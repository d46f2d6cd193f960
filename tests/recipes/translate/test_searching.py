"""Searching: as it was asked for, and no sentence by its neighbours."""

from regard import decode
from regard.data.batches import END
from regard.recipes import translate
from regard.recipes.translate import Evaluation
from regard.recipes.translate.searching import translated


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
        alone = translated(loaded.model, loaded.tokenizer, [text], **search)
        beside = translated(loaded.model, loaded.tokenizer, [text, long], **search)
    finally:
        loaded.model.out.bias.data[END] += 1e4
    assert beside[0] == alone[0]
