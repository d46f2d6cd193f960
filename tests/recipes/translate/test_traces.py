"""Showing: the best of a beam, and where each of its words was read."""

import math
from dataclasses import replace

import pytest
import torch

from regard import edit, edits, load
from regard.config import override
from regard.looking import is_observed
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
    sizes = ["width=16", "heads=2", "layers=3", "feed_forward_width=16", "vocabulary=300"]
    few = [f"model={kind}", *(f"model.{size}" for size in sizes), "training.steps=1"]
    fresh = replace(config, model=Config().model)
    run = translate.run(override(fresh, few), out=tmp_path / "run")
    trace = translate.trace(load(run.folder), "the cat finds the dog", beam=1)
    alignment, cross = trace.map(), trace.map("cross")
    assert (cross.layers, cross.heads) == (3, 2)
    torch.testing.assert_close(alignment.weights(), cross.all_weights().mean((0, 1)))
    assert trace.map("decoder").all_weights().triu(1).abs().max() == 0, "no word looks ahead"


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("prefix", ["eht nus", "god", "eht tac wonk "])
def test_a_translation_begins_as_it_is_told_to(loaded, beam, prefix):
    trace = translate.trace(loaded, "the cat finds the dog", beam=beam, prefix=prefix)
    assert trace.outputs["text"].startswith(prefix.strip())


@pytest.mark.parametrize("beam", [1, 3])
def test_an_empty_prefix_changes_no_bit(loaded, beam):
    how = ({}, {"prefix": " "}, {"on_progress": lambda done, total, text: None})
    alone, told, heard = (
        translate.trace(loaded, "the cat finds the dog", beam=beam, **more) for more in how
    )
    assert alone.outputs == told.outputs == heard.outputs
    assert torch.equal(alone.map().all_weights(), told.map().all_weights())


def test_a_prefix_longer_than_a_translation_may_be_is_refused(loaded):
    with pytest.raises(
        ValueError, match="translate: expected a prefix of fewer than 12 tokens, got"
    ):
        translate.trace(loaded, "e", prefix="eht tac " * 9)


@pytest.mark.parametrize("beam", [1, 3])
def test_every_step_is_told_and_what_is_said_grows(loaded, beam):
    told = []
    trace = translate.trace(
        loaded, "the cat finds the dog", beam=beam, on_progress=lambda *given: told.append(given)
    )
    done = [each for each, _, _ in told]
    assert done == sorted(set(done)) and done[0] == 0
    assert told[0][1:] == (None, None)
    assert told[-1][2] == trace.outputs["text"] == "eht tac eht god sdnif"
    assert told[-1][0] == told[-1][1] == trace.axis("target").size
    if beam == 1:
        assert all(trace.outputs["text"].startswith(text or "") for *_, text in told)


@pytest.mark.parametrize("beam", [1, 3])
def test_what_is_told_may_end_it_at_once_and_nothing_is_left_open(loaded, beam):
    def tell(done, total, text):
        if done == 2:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        translate.trace(loaded, "the cat finds the dog", beam=beam, on_progress=tell)
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in loaded.model.modules()]
    assert not any(hooks) and not is_observed()


def test_the_likeliest_tokens_of_each_step_are_told(loaded):
    outputs = translate.trace(loaded, "the cat finds the dog", beam=1).outputs
    assert len(outputs["steps"]) == len(outputs["tokens"]) == len(outputs["probabilities"])
    for token, share, best in zip(
        outputs["tokens"], outputs["probabilities"], outputs["steps"], strict=True
    ):
        shares = [each["probability"] for each in best]
        assert best[0] == {"token": token, "probability": share}, "greedy takes the likeliest"
        assert len(best) == 5 and shares == sorted(shares, reverse=True) and sum(shares) <= 1
    product = math.prod(outputs["probabilities"])
    assert math.log(product) == pytest.approx(outputs["score"], abs=1e-4)


def test_an_edit_changes_what_is_decoded_and_what_is_shown_of_it_alike(loaded):
    text, name = "the cat finds the dog", "decoder.attention"
    alone = translate.trace(loaded, text, beam=1)
    assert alone.map().names == (name,)
    with edit(loaded.model, {name: edits.hide([(1, 1), (None, 4)])}):
        edited = translate.trace(loaded, text, beam=1)
    seen = edited.map().weights()
    assert (seen[:, 4] == 0).all() and seen[1, 1] == 0 and (seen[2:, 1] > 0).all()
    likeliest = [each[0]["token"] for each in edited.outputs["steps"]]
    assert likeliest == edited.outputs["tokens"], "what was decoded step by step was edited too"
    assert edited.outputs["score"] != alone.outputs["score"]


def test_every_layer_of_a_transformer_is_named_and_can_be_edited():
    loaded, text = load("translate-en-de"), "A dog runs."
    alone = translate.trace(loaded, text, beam=1)
    names = {map.id: map.names for map in alone.maps}
    assert names["alignment"] == ()
    assert names["cross"] == tuple(f"decoder.blocks.{i}.cross" for i in range(4))
    assert names["encoder"] == tuple(f"encoder.blocks.{i}.self_attention" for i in range(4))
    assert names["decoder"] == tuple(f"decoder.blocks.{i}.self_attention" for i in range(4))
    for map in ("cross", "encoder", "decoder"):
        with edit(loaded.model, {names[map][2]: edits.ablate(1)}):
            cells = translate.trace(loaded, text, beam=1).map(map).all_weights()
        assert (cells[2, 1] == 0).all() and (cells[2, 0].sum(-1) > 0.99).all()


def test_a_page_is_told_what_to_give(loaded):
    input = translate.input_spec(loaded.card)
    assert (input.kind, input.most) == ("text", 100)
    assert [(each.name, each.default) for each in input.options] == [("beam", 1), ("prefix", "")]
    assert translate.parse_input(loaded.card, input.example) == input.example


def test_a_text_of_more_than_a_page_may_ask_is_refused(loaded):
    assert translate.parse_input(loaded.card, "é" * 300) == "é" * 300
    with pytest.raises(ValueError, match="translate: expected a text of at most 600 bytes"):
        translate.parse_input(loaded.card, "é" * 301)


def test_what_is_typed_is_never_taken_for_a_file(loaded, tmp_path, monkeypatch):
    (tmp_path / "words.txt").write_text("the cat finds the dog")
    monkeypatch.chdir(tmp_path)
    assert translate.parse_input(loaded.card, "words.txt") == "words.txt"
    trace = translate.trace(loaded, translate.parse_input(loaded.card, "words.txt"), beam=1)
    assert "".join(trace.axis("source").labels) == "words.txt"


def test_the_numbers_of_maps_are_those_of_the_attentions(loaded):
    given = [{"at": "decoder.attention", "do": "hide", "cells": [[1, 2]]}]
    assert translate.to_model_edits(loaded.card, "the cat", given) == given
