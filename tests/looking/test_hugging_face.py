"""Flex attention of Hugging Face is read from its arguments, and left as it was afterwards."""

import warnings

import pytest
import torch

from regard import edit, edits, look
from regard.functional import attention as plain
from regard.looking import hugging_face, observers
from regard.looking.hugging_face import SoftCappedDot
from tests.looking.hugging_face_models import MODELS

transformers = pytest.importorskip("transformers")
B, H, Q, K, D = 2, 4, 5, 7, 8


@pytest.fixture
def eagerly():
    """Without its compiler, which takes a minute."""
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        warnings.filterwarnings("ignore", "flex_attention called without")
        yield


def tables():
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    return AttentionInterface.get_interface, AttentionMaskInterface.__getitem__


def test_what_is_fetched_is_wrapped_while_something_is_open_and_then_as_before():
    before = tables()
    with look():
        assert all(a is not b for a, b in zip(tables(), before, strict=True))
        with edit(torch.nn.Linear(2, 2), {}):
            pass
        assert all(a is not b for a, b in zip(tables(), before, strict=True))
        interface = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
        assert interface.get_interface("eager", len) is len
    assert tables() == before


def test_transformers_that_nobody_imported_is_left_alone(monkeypatch):
    monkeypatch.delitem(hugging_face.sys.modules, "transformers.modeling_utils")
    assert hugging_face.transformers_patches(observers._Host()) == []


def given(**options):
    """What flex attention of transformers is called with, and the call that is read from it."""
    q, k = torch.randn(B, H, Q, D), torch.randn(B, 2, K, D)
    mask = options.pop("mask", None)
    source = hugging_face._flex_source(q, k, mask, options)
    call = source.make(*source.tensors)
    k = k.repeat_interleave(2, 1)
    named = {"score": call.score, "select": call.select, "rule": call.rule, "bias": call.bias}
    return q, k, plain.weights(q, k, **named)


def test_a_cap_bends_scores_before_the_mask_is_added():
    mask = torch.randn(B, 1, Q, K)
    q, k, weights = given(mask=mask, scaling=0.5, softcap=2.0)
    theirs = (2 * torch.tanh(q @ k.mT * 0.5 / 2) + mask).softmax(-1)
    torch.testing.assert_close(weights, theirs)
    assert SoftCappedDot(0.5, 2.0)(q, k).abs().max() < 2


def test_sinks_and_biases_are_read_too():
    sinks, bias = torch.randn(H), torch.randn(B, H, Q, K)
    q, k, weights = given(scaling=0.5, s_aux=sinks, position_bias=bias)
    whole = (q @ k.mT * 0.5 + bias).exp()
    theirs = whole / (whole.sum(-1, keepdim=True) + sinks.exp().view(H, 1, 1))
    torch.testing.assert_close(weights, theirs)


@pytest.mark.parametrize("name", ["Gemma2", "Llama"])
@torch.no_grad()
def test_an_edit_of_flex_is_that_of_eager(name, eagerly):
    found = MODELS[name]
    flex, eager = found.model("flex_attention"), found.model("eager")
    asked = found.given()
    change = {"layers.1.self_attn": edits.chain(edits.heat(2.0), edits.force(4, 2, 0.5, [1]))}
    with edit(flex, change), look(flex) as ours:
        out = flex(**asked)[0]
    with edit(eager, change), look(eager) as theirs:
        expected = eager(**asked)[0]
    valid = asked["attention_mask"] > 0
    torch.testing.assert_close(out[valid], expected[valid], atol=1e-5, rtol=1e-4)
    assert ours.names() == theirs.names()
    for a, b in ((ours[name].weights(), theirs[name].weights()) for name in ours):
        torch.testing.assert_close(a[:1], b[:1])  # the sentence that is not padded


@pytest.mark.compiled
@pytest.mark.slow
@torch.no_grad()
def test_compiled_flex_attention_keeps_every_bit_under_a_look():
    model, asked = MODELS["Llama (flex)"].model(), MODELS["Llama (flex)"].given()
    alone = model(**asked)[0]
    with look(model) as seen:
        assert torch.equal(model(**asked)[0], alone)
    assert seen.names() == ["layers.0.self_attn", "layers.1.self_attn"]


@pytest.mark.parametrize("way", ["eager", "sdpa"])
@torch.no_grad()
def test_steps_of_a_window_join_by_position_however_it_attends(way):
    found = MODELS["Mistral"]
    kind = transformers.MistralForCausalLM
    torch.manual_seed(0)
    model = kind._from_config(kind.config_class(**found.config), attn_implementation=way).eval()
    ids = torch.randint(3, 50, (2, 3))
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    with look(model) as steps:
        out = model.generate(ids, **options)
    with look(model) as whole:
        model(out[:, :-1])
    assert steps.names() == whole.names()
    for name in steps:
        torch.testing.assert_close(steps[name].weights(), whole[name].weights(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_each_use_of_a_shared_layer_is_named_apart_however_it_attends():
    seen = {}
    for way in ("eager", "sdpa"):
        model = MODELS["ALBERT"].model(way)
        with look(model) as seen[way]:
            model(**MODELS["ALBERT"].given())
    assert seen["eager"].names() == seen["sdpa"].names() and len(seen["eager"]) == 2


@torch.no_grad()
def test_an_edit_while_a_model_generates_is_the_same_however_it_attends():
    kind = transformers.LlamaForCausalLM
    ids = torch.randint(3, 50, (1, 4))
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "num_beams": 2}
    change = edits.chain(edits.hide([(5, 2), (None, 1)]), edits.force(6, 3, 0.5))
    found = []
    for way in ("eager", "sdpa"):
        torch.manual_seed(0)
        config = kind.config_class(**MODELS["Llama"].config)
        model = kind._from_config(config, attn_implementation=way).eval()
        name = "model.layers.1.self_attn"
        with edit(model, {name: change}), look(model) as seen:
            model.generate(ids, **options)
        found.append(seen[name].weights())
    torch.testing.assert_close(*found)
