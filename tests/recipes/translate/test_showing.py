"""Showing: the best of a beam, and where each of its words was read."""

from dataclasses import replace

import pytest
import torch

from regard import load
from regard.config import override
from regard.recipes import translate
from regard.recipes.translate import Config
from regard.view import UnseenError


def test_a_prediction_is_the_best_of_its_beam(loaded):
    greedy, beam = (translate.predict(loaded, "the cat finds the dog", beam=n) for n in (1, 4))
    assert greedy.text == "eht tac eht god sdnif"
    assert len(greedy.candidates) == 1
    scores = [score for _, score in beam.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len({text for text, _ in beam.candidates}) == 4
    assert beam.text == beam.candidates[0][0]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_trace_shows_where_each_word_was_read(loaded, beam):
    trace = translate.trace(loaded, "the cat finds the dog", beam=beam)
    weights = trace.map().weights()
    assert trace.outputs["text"] == "eht tac eht god sdnif"
    assert weights.shape == (trace.axis("target").size, trace.axis("source").size)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))


@pytest.mark.parametrize("beam", [1, 3])
def test_looking_changes_no_word(loaded, beam):
    said = translate.predict(loaded, "the moon wants the boat", beam=beam)
    seen = translate.trace(loaded, "the moon wants the boat", beam=beam).outputs
    assert (seen["text"], seen["score"]) == said.candidates[0]


def test_an_empty_sentence_is_refused(loaded):
    with pytest.raises(ValueError, match="translate: expected a sentence, got an empty one"):
        translate.predict(loaded, "  ")


def test_a_model_without_attention_has_nothing_to_show(loaded):
    blind = replace(loaded, config=replace(loaded.config, attention="none"))
    with pytest.raises(UnseenError, match="a model with attention none looks at nothing"):
        translate.trace(blind, "the cat finds the dog")


@pytest.mark.parametrize("kind", ["transformer", "decoder-only"])
def test_a_transformer_shows_every_layer_and_head_and_their_mean_first(kind, config, tmp_path):
    pytest.importorskip("sacrebleu")
    sizes = ["width=16", "heads=2", "layers=3", "inner=16", "vocabulary=300"]
    few = [f"model={kind}", *(f"model.{size}" for size in sizes), "training.steps=1"]
    fresh = replace(config, model=Config().model)
    run = translate.run(override(fresh, few), out=tmp_path / "run")
    trace = translate.trace(load(run.folder), "the cat finds the dog", beam=1)
    alignment, cross = trace.map(), trace.map("cross")
    assert (cross.layers, cross.heads) == (3, 2)
    torch.testing.assert_close(alignment.weights(), cross.whole().mean((0, 1)))
    assert trace.map("decoder").whole().triu(1).abs().max() == 0, "no word looks ahead"
