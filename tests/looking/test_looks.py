"""Looking is free: the same bits, the same kernel, exact weights, and nothing left behind."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard import attend, log_probability, logits, look, rules, selects, use_backend, weigh, why
from regard.layers import LocalP
from regard.looking import is_observed
from tests.mechanisms import BIASES, RULES, SCORES, SELECTS, TRAINED, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11


class Layer(nn.Module):
    """Attends to what it is given."""

    def forward(self, x):
        return attend(x, x, x, rule=rules.causal)


class Model(nn.Module):
    """Two layers, and a call of its own."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return attend(x, x, x)


def tensors():
    return torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)


# The output is the same, and so is the kernel.


@pytest.mark.parametrize("backend", TRAINED)
@pytest.mark.parametrize("rule", ["window", "around"])
def test_a_look_changes_no_bit_on_any_backend(backend, rule):
    call = asked(Sizes(), rule=rule)
    with use_backend(backend):
        alone = attend(*call.qkv, **call.named)
        with look() as seen:
            watched = attend(*call.qkv, **call.named)
    assert torch.equal(alone, watched) and seen["attend.0"].why.backend == backend


@pytest.mark.parametrize("width", [2, 8, 64, 65])
def test_a_look_changes_no_bit_of_a_plain_call_in_float64(width):
    q = torch.randn(B, H, Q, width, dtype=torch.float64)
    alone = attend(q, q, q)
    with look():
        assert torch.equal(alone, attend(q, q, q))


@pytest.mark.parametrize("rule", [None, *RULES])
def test_a_look_takes_the_same_backend(rule):
    call = asked(Sizes(), **{"rule": rule} if rule else {})
    alone = attend(*call.qkv, **call.named)
    with look() as seen:
        assert torch.equal(attend(*call.qkv, **call.named), alone)
    assert seen["attend.0"].why == why(*call.qkv, **call.named)


def test_a_look_changes_no_gradient():
    q, k, v = (x.requires_grad_() for x in tensors())
    alone = torch.autograd.grad(attend(q, k, v).sum(), (q, k, v))
    with look():
        watched = torch.autograd.grad(attend(q, k, v).sum(), (q, k, v))
    assert all(map(torch.equal, alone, watched))


def test_dropout_draws_the_same_and_looks_show_what_was_before_it():
    q, k, v = tensors()
    torch.manual_seed(1)
    alone = attend(q, k, v, dropout=0.5)
    torch.manual_seed(1)
    with look() as seen:
        assert torch.equal(attend(q, k, v, dropout=0.5), alone)
    assert torch.allclose(seen["attend.0"].weights(), weigh(q, k), atol=1e-6)


# What is seen is exact.


@pytest.mark.parametrize("what, name", [
    (what, name)
    for what, names in {"score": SCORES, "select": SELECTS, "rule": RULES, "bias": BIASES}.items()
    for name in names
])  # fmt: skip
def test_the_weights_of_every_mechanism_are_exact(what, name):
    call = asked(Sizes(H=6), **{what: name})
    with look() as seen:
        attend(*call.qkv, **call.named)
    assert torch.equal(seen["attend.0"].weights(), weigh(call.q, call.k, **call.named))


def test_a_look_keeps_the_very_draw_that_was_read():
    q, k, v = tensors()
    with look() as seen:
        out = attend(q, k, v, select=selects.sampled())
        weights = weigh(q, k, select=selects.sampled())
    assert torch.equal(seen["attend.0"].weights() @ v, out)
    assert torch.equal(seen["attend.1"].weights(), weights)


def test_weigh_logits_and_log_probability_are_seen_too():
    q, k, _ = tensors()
    with look() as seen:
        weigh(q, k)
        logits(q, k)
        log_probability(q, k, torch.zeros(B, H, Q).long())
    assert seen.names() == ["attend.0", "attend.1", "attend.2"]
    for name in seen:
        assert torch.allclose(seen[name].weights(), weigh(q, k), atol=1e-6)


def test_grouped_heads_are_seen_by_query_head():
    q, k, v = torch.randn(B, 6, Q, D), torch.randn(B, 2, K, D), torch.randn(B, 2, K, D)
    with look() as seen:
        attend(q, k, v)
    assert seen["attend.0"].weights().shape == (B, 6, Q, K)


def test_half_precision_gives_weights_of_its_own_dtype():
    q, k, v = (x.half() for x in tensors())
    with look() as seen:
        attend(q, k, v)
    assert seen["attend.0"].weights().dtype == torch.float16


# Names.


def test_modules_are_named_by_their_path_and_the_root_by_its_class():
    with look(model := Model()) as seen:
        model(torch.randn(B, H, Q, D))
    assert seen.names() == ["blocks.0", "blocks.1", "Model"]
    assert list(seen) == seen.names() and len(seen) == 3 and "blocks.1" in seen


def test_bare_calls_are_numbered():
    with look() as seen:
        attend(*tensors())
        attend(*tensors())
    assert seen.names() == ["attend.0", "attend.1"]


def test_a_name_that_was_not_seen_says_which_were():
    with look() as seen:
        attend(*tensors())
    with pytest.raises(KeyError, match=r"no attention named 'x' was seen; there is attend\.0"):
        seen["x"]


def test_a_call_outside_of_the_model_is_not_seen():
    with look(model := Model()) as seen:
        attend(*tensors())
        Model()(torch.randn(B, H, Q, D))
    assert seen.names() == []
    model(torch.randn(B, H, Q, D))
    assert seen.names() == []


def test_a_look_inside_a_look_sees_its_own():
    model, x = Model(), torch.randn(B, H, Q, D)
    with look(model) as outer, look(model.blocks[1]) as inner, look() as all_of_it:
        model(x)
    assert outer.names() == ["blocks.0", "blocks.1", "Model"]
    assert inner.names() == ["Layer"] and len(all_of_it) == 3
    assert torch.equal(inner["Layer"].weights(), outer["blocks.1"].weights())


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_backward_pass_computes_again_was_seen_before(reentrant):
    model, x = Layer(), torch.randn(B, H, Q, D, requires_grad=True)
    with look(model) as seen:
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert seen["Layer"].weights().shape == (B, H, Q, Q)


def test_clear_forgets():
    with look() as seen:
        attend(*tensors())
        seen.clear()
        attend(*tensors())
    assert seen.names() == ["attend.0"]


# Nothing is left behind.


def hooks_of(model):
    return [
        (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._forward_hooks_always_called))
        for m in model.modules()
    ]


def test_everything_is_undone_after_a_look():
    model, modes = Model(), torch._C._len_torch_function_stack()
    before = hooks_of(model)
    with look(model):
        model(torch.randn(B, H, Q, D))
        assert torch._C._len_torch_function_stack() == modes + 1
        assert hooks_of(model) == before and torch.backends.mha.get_fastpath_enabled()
    assert hooks_of(model) == before and torch._C._len_torch_function_stack() == modes
    assert torch.backends.mha.get_fastpath_enabled() and not is_observed()


def test_everything_is_undone_after_an_exception_inside():
    model, modes = Model(), torch._C._len_torch_function_stack()
    with pytest.raises(ValueError, match="attend"), look(model):
        model(torch.randn(B, H, Q))
    assert not any(map(any, hooks_of(model))) and not is_observed()
    assert torch._C._len_torch_function_stack() == modes
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_model_that_failed_inside_a_look_is_still_named_right():
    with look(model := Model()) as seen:
        with pytest.raises(ValueError, match="attend"):
            model(torch.randn(B, H, Q))
        model(torch.randn(B, H, Q, D))
    assert seen.names() == ["blocks.0", "blocks.1", "Model"]


@pytest.mark.parametrize("trained", [True, False])
def test_memory_is_let_go_with_the_look(trained):
    q, k, v = tensors()
    source = q.requires_grad_(trained)
    with look() as seen:
        made = source * 2
        attend(made, k, v)
    kept = weakref.ref(seen["attend.0"].calls[0].call.q)
    del made
    assert kept() is not None
    del seen
    gc.collect()
    assert kept() is None


def test_a_look_keeps_no_graph_alive():
    q, k, v = (2 * x.requires_grad_() for x in tensors())
    with look() as seen:
        attend(q, k, v)
    call = seen["attend.0"].calls[0].call
    assert call.q.grad_fn is None and call.k.grad_fn is None and call.v is call.k


# What is written into later.


def test_reading_what_was_changed_in_place_is_an_error():
    q, k, v = tensors()
    with look() as seen:
        attend(q, k, v)
    k.zero_()
    with pytest.raises(RuntimeError, match="look: a tensor that was looked at has been changed"):
        seen["attend.0"].weights()
    with pytest.raises(RuntimeError, match="has been changed in place since"):
        seen["attend.0"].rows(0, 0, 0)


INSIDE = [
    ("score", "general"),
    ("rule", "padding"),
    ("bias", "tensor (Q, 1)"),
    ("select", "gaussian"),
]


@pytest.mark.parametrize("what, name", INSIDE)
def test_a_change_inside_a_mechanism_is_noticed_too(what, name):
    call = asked(Sizes(), **{what: name})
    with look() as seen:
        attend(*call.qkv, **call.named)
    held = call.named[what]
    held = held if isinstance(held, torch.Tensor) else next(iter(vars(held).values()))
    held.zero_()
    with pytest.raises(RuntimeError, match="has been changed in place since"):
        seen["attend.0"].weights()


def test_a_copy_survives_a_change():
    q, k, v = tensors()
    mask = torch.rand(Q, K) < 0.7
    with look(copy=True) as seen:
        attend(q, k, v, rule=mask)
    expected = weigh(q, k, rule=mask)
    k.zero_(), q.zero_(), mask.fill_(False)
    assert torch.equal(seen["attend.0"].weights(), expected)


@pytest.mark.parametrize("write", [lambda k: k.data.mul_(2), lambda k: k.numpy().fill(2.0)])
def test_a_copy_survives_writes_that_pytorch_does_not_count(write):
    q, k, v = tensors()
    expected = weigh(q, k)
    with look(copy=True) as seen:
        attend(q, k, v)
    version = k._version
    write(k)
    assert k._version == version  # so a reference cannot know: see the docstring of look
    assert torch.equal(seen["attend.0"].weights(), expected)


def test_inference_mode_is_looked_into_safely():
    with torch.inference_mode():
        q, k, v = tensors()
        with look() as seen:
            attend(q, k, v)
        expected = weigh(q, k)
        k.zero_()
    assert torch.allclose(seen["attend.0"].weights(), expected)


# What cannot be looked into.


def test_a_compiled_model_is_refused_in_words():
    whole, part, inner = Model(), Model(), Model()
    whole.compile()
    inner.blocks[0].compile()
    for model in (whole, torch.compile(part), inner):
        with pytest.raises(ValueError, match="look: a compiled model cannot be looked into"):
            look(model).__enter__()
    assert not is_observed()


def test_a_look_keeps_no_graph_alive_whatever_learns():
    layer, x = LocalP(8, 8, reach=2), torch.randn(2, 5, 8, requires_grad=True)
    with look(layer) as seen:
        layer(x, x)
    (kept,) = seen["attention"].calls
    assert not any(tensor.requires_grad for tensor, _ in kept.tensors)
    assert seen["attention"].weights().shape == (2, 1, 5, 5)
