"""A few seconds over everything: what `make check` runs."""

import pytest
import torch

from regard import attend, log_probability, logits, look, rules, use_backend, weigh, why
from tests.mechanisms import BIASES, RULES, SCORES, SELECTS, TRAINED, Sizes, asked

NAMES = {"score": SCORES, "select": SELECTS, "rule": RULES, "bias": BIASES}
ONE_BY_ONE = [(what, name) for what, names in NAMES.items() for name in names]


@pytest.mark.parametrize("what, name", ONE_BY_ONE)
def test_every_mechanism_agrees_on_every_backend(what, name):
    call = asked(Sizes(), **{"rule": "window"} | {what: name})
    weights = weigh(call.q, call.k, **call.named)
    reasons = why(*call.qkv, **call.named).reasons
    for backend in (b for b in TRAINED if reasons[b] is None):
        with use_backend(backend):
            out = attend(*call.qkv, **call.named)
        torch.testing.assert_close(out, weights @ call.v, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", TRAINED)
def test_what_is_hidden_reaches_neither_output_nor_gradient(backend):
    call = asked(Sizes(), score="scaled_dot")
    rule = rules.both(rules.window(6), rules.padding(torch.tensor([0, 3])))
    call.k[1, :, 3:], call.v[0] = torch.nan, torch.inf
    q, k, v = (x.requires_grad_() for x in call.qkv)
    with use_backend(backend):
        out = attend(q, k, v, rule=rule)
    out.sum().backward()
    assert out[0].eq(0).all() and all(x.isfinite().all() for x in (out, q.grad, k.grad, v.grad))


def test_a_look_is_free_and_exact():
    call = asked(Sizes(), rule="causal", bias="alibi")
    alone = attend(*call.qkv, **call.named)
    with look() as seen:
        assert torch.equal(attend(*call.qkv, **call.named), alone)
    weights = seen["attend.0"].weights()
    assert torch.equal(weights, weigh(call.q, call.k, **call.named))
    assert torch.allclose(seen["attend.0"].rows(1, 2, [-1]), weights[1, 2, -1:])


def test_pointing_is_log_softmax():
    call = asked(Sizes(), rule="causal")
    index = torch.zeros(2, 3, 5).long()
    expected = logits(call.q, call.k, **call.named).log_softmax(-1)[..., 0]
    assert torch.allclose(log_probability(call.q, call.k, index, **call.named), expected, atol=1e-5)
