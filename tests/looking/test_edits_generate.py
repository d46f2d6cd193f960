"""Edits count queries and keys absolutely while a model of Hugging Face generates from a cache."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import edit, edits, look
from tests.looking import hugging_face as hf

CELLS = edits.chain(edits.hide([(9, 4), (2, 0), (None, 3)]), edits.force(11, 8, 0.5, heads=[1]))


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3"])
@torch.no_grad()
def test_an_edit_means_the_same_cells_step_by_step_and_all_at_once(name):
    model, tokens = hf.make(name), hf.words(5)
    changes = {f"model.layers.{i}.self_attn": CELLS for i in range(3)}
    with edit(model, changes), look(model) as steps:
        out = model.generate(tokens, **hf.settings(new=10))
    with edit(model, changes), look(model) as whole:
        for _ in range(2):
            model(out[:, :-1], use_cache=False)
    for attention in changes:
        found = steps[attention].weights()
        assert not found[:, :, 9, 4].any() and not found[..., 3].any()
        assert torch.allclose(found[:, 1, 11, 8], torch.tensor(0.5))
        # the model that was entered again counts anew
        for again in whole[attention].weights().split(14, 2):
            assert torch.allclose(found, again, atol=1e-6)


@torch.no_grad()
def test_a_static_cache_waits_for_the_key_that_is_hidden():
    model, tokens = hf.make("llama"), hf.words(5)
    name = "model.layers.1.self_attn"
    with edit(model, {name: edits.hide([(None, 8)])}), look(model) as seen:
        model.generate(tokens, cache_implementation="static", **hf.settings(new=8))
    found = seen[name].weights()
    assert not found[..., 8].any() and found[:, :, 11, :8].all() and found[:, :, 8:, 7].all()


@pytest.mark.parametrize("padded", [0, 2])
@pytest.mark.parametrize("way", ["sdpa", "eager"])
@torch.no_grad()
def test_a_static_cache_counts_queries_however_a_model_attends(way, padded):
    model, tokens = hf.make("llama"), hf.words(5)
    model.set_attn_implementation(way)
    mask = torch.ones_like(tokens)
    mask[0, :padded] = 0
    changes = {"model.layers.1.self_attn": CELLS}
    with edit(model, changes), look(model) as steps:
        given = hf.settings(new=10) | {"attention_mask": mask, "cache_implementation": "static"}
        out = model.generate(tokens, **given)
    real = F.pad(mask, (0, 9), value=1)
    places = (real.cumsum(1) - 1).clamp_min(0)
    with edit(model, changes), look(model) as whole:
        model(out[:, :-1], attention_mask=real, position_ids=places, use_cache=False)
    for name in whole.names():
        found, expected = steps[name].weights()[..., :14], whole[name].weights()
        torch.testing.assert_close(found[1], expected[1], atol=1e-6, rtol=0)
        valid = slice(padded, None)
        torch.testing.assert_close(found[0, :, valid], expected[0, :, valid], atol=1e-6, rtol=0)
    # keys are kept once, although rows of padding read all of the room for them
    assert len({id(kept.span.log) for kept in steps["model.layers.0.self_attn"].calls}) == 1


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma3"])
@torch.no_grad()
def test_queries_that_speculation_took_back_are_counted_again(kind):
    model, helper, tokens = hf.make(kind), hf.make(kind), hf.words(6)[:1]
    # a model of one layer, whose guesses are sometimes right
    for parameter in helper.model.layers[1:].parameters():
        parameter.data.zero_()
    given = {"max_new_tokens": 10, "min_new_tokens": 10, "do_sample": False}
    name = "model.layers.1.self_attn"
    with edit(model, {name: CELLS}), look(model) as seen:
        out = model.generate(tokens, assistant_model=helper, **given)
    calls = seen[name].calls
    assert sum(call.sizes[2] for call in calls) > 15  # something was taken back
    with edit(model, {name: CELLS}), look(model) as whole:
        assert torch.equal(model.generate(tokens, **given), out)
    for attention in whole.names():
        expected = whole[attention].weights()
        for call in seen[attention].calls[:-1]:
            Q, K = call.sizes[2:]
            # its first query is the last that is sure to have stayed
            query = call.first_key + K - Q
            torch.testing.assert_close(
                call.weights()[:, :, 0, : K - Q + 1],
                expected[:, :, query, call.first_key : query + 1],
                atol=1e-6,
                rtol=0,
            )
        assert len({id(kept.span.log) for kept in seen[attention].calls}) == 1


@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_attention_to_a_memory_counts_the_steps_of_its_decoder(beams):
    model, tokens = hf.make("bart"), hf.words(7)
    name = "model.decoder.layers.0.encoder_attn"
    for _ in range(2):
        with edit(model, {name: edits.force(3, 2, 1.0)}), look(model) as seen:
            for _ in range(2):
                model.generate(
                    tokens, num_beams=beams, min_new_tokens=6, max_new_tokens=6, do_sample=False
                )
        forced = seen[name].weights()[..., 2] == 1
        assert forced.all(0).all(0).nonzero().flatten().tolist() == [3, 9]


NEVER = {
    "edit: 'model.layers.0.self_attn' never had more than 9 queries, so there is no query 9": (
        edits.hide([(9, 0)])
    ),
    "edit: 'model.layers.0.self_attn' never had more than 9 keys, so there is no key 12": (
        edits.force(None, 12, 0.5)
    ),
}


@pytest.mark.parametrize("message", NEVER)
@pytest.mark.parametrize("cache", [None, "static"])
def test_a_query_or_a_key_that_never_came_is_refused_in_the_end(message, cache):
    model, tokens = hf.make("mistral"), hf.words(4)
    changes = {"model.layers.0.self_attn": NEVER[message]}
    with pytest.raises(ValueError) as refused, edit(model, changes):
        model.generate(tokens, cache_implementation=cache, **hf.settings(new=6))
    assert str(refused.value) == message


@torch.no_grad()
def test_each_use_of_a_shared_layer_is_edited_apart():
    model, tokens = hf.make("albert"), hf.words(6)
    name = "encoder.albert_layer_groups.0.albert_layers.0.attention"
    with look(model) as before:
        model(tokens)
    for use in (name, f"{name}#3"):
        with edit(model, {use: edits.ablate(2)}), look(model) as seen:
            model(tokens)
        ablated = [other for other in seen if not seen[other].weights()[:, 2].any()]
        assert ablated == [use]
        for other in list(before)[: list(before).index(use)]:
            assert torch.equal(seen[other].weights(), before[other].weights())


def test_a_use_that_never_came_is_refused_in_the_end_and_no_use_at_once():
    model, tokens = hf.make("albert"), hf.words(6)
    name = "encoder.albert_layer_groups.0.albert_layers.0.attention"
    words = f"edit: '{name}#9' ran no attention; of this model did {name}, {name}#2"
    with pytest.raises(ValueError, match=words), edit(model, {f"{name}#9": edits.ablate(2)}):
        model(tokens)
    for wrong in ("#1", "#", "#x", "#02x"):
        with pytest.raises(ValueError, match=f"has no module '{name}{wrong}'; did you mean"):
            edit(model, {name + wrong: edits.ablate(2)}).__enter__()


class Cached(nn.Module):
    """Attends to a cache that it is handed."""

    def forward(self, q, k):
        return F.scaled_dot_product_attention(q, k, k)


def test_a_cache_that_was_there_before_the_edit_is_counted_from_its_first_key():
    model, k = Cached(), torch.randn(2, 3, 9, 4)
    with edit(model, {"Cached": edits.hide([(1, 8), (2, 8)])}), look(model) as seen:
        for n in range(7, 10):
            model(torch.randn(2, 3, 1, 4), k[:, :, :n].clone())
    found = seen["Cached"].weights()
    assert not found[:, :, 2, 8].any() and found[:, :, :, :7].all()
