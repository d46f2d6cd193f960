"""FlexAttention, forward on a CPU. It is traced, so these tests run without the shape checks."""

import pytest
import torch
from torch.nn.attention import flex_attention

from regard import attend, rules, scores, selects, use_backend
from regard.kernels.backends import flex
from tests.mechanisms import BIASES, FUSED, RULES, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11


class First:
    """A rule of one's own that may be changed."""

    keys = 1

    def __call__(self, b, h, q, k):
        return k < self.keys


@pytest.fixture
def unfused(monkeypatch):
    """Runs flex_attention without tracing it: many rules, and no time to compile each."""
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def both_ways(call, **others):
    found = []
    for backend in ("flex", "reference"):
        with use_backend(backend):
            found.append(attend(*call.qkv, **call.named | others))
    return found


@pytest.mark.compiled
@pytest.mark.parametrize("sizes", [Sizes(), Sizes(H=6, Q=7, K=5)], ids=["Q < K", "Q > K, grouped"])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_agrees_with_the_reference(rule, sizes, unfused):
    torch.testing.assert_close(*both_ways(asked(sizes, rule=rule, bias="relative")))


@pytest.mark.compiled
@pytest.mark.parametrize("bias", BIASES)
def test_every_bias_agrees_with_the_reference(bias, unfused):
    torch.testing.assert_close(*both_ways(asked(Sizes(), rule="causal", bias=bias)))


@pytest.mark.compiled
@pytest.mark.parametrize("score", FUSED)
def test_every_score_that_folds_agrees_with_the_reference(score, unfused):
    torch.testing.assert_close(*both_ways(asked(Sizes(H=6), score=score, rule="window")))


@pytest.mark.compiled
@pytest.mark.parametrize("rule", ["padding", "mask (B, H, Q, K)", "window", "around"])
def test_a_hidden_nan_reaches_nothing(rule, unfused):
    call = asked(Sizes(Q=3), rule=rule)
    clean = both_ways(call)[0]
    seen = rules.dense(call.named["rule"], B, H, 3, K)
    call.k[~seen.any(2)], call.v[~seen.any(2)], call.q[~seen.any(3)] = (
        torch.nan,
        torch.inf,
        torch.nan,
    )
    torch.testing.assert_close(both_ways(call)[0], clean)


@pytest.mark.compiled
def test_a_rule_that_was_changed_in_place_is_made_anew(unfused):
    call, lengths = asked(Sizes()), torch.tensor([2, 7])
    both_ways(call, rule=rules.padding(lengths))
    lengths.fill_(1)
    torch.testing.assert_close(*both_ways(call, rule=rules.padding(lengths)))


@pytest.mark.compiled
def test_a_callable_of_one_s_own_may_change_its_mind(unfused):
    call, reach = asked(Sizes(Q=1)), [6]

    def near(b, h, q, k):
        return (q - k).abs() <= reach[0]

    for places in (0, 1, 6):
        reach[0] = places
        torch.testing.assert_close(*both_ways(call, rule=near))
        torch.testing.assert_close(*both_ways(call, rule=rules.both(near, rules.causal)))


@pytest.mark.compiled
def test_a_rule_with_a_state_of_its_own_is_made_anew(unfused):
    call, rule = asked(Sizes()), First()
    for keys in (1, 3, 0):
        rule.keys = keys
        torch.testing.assert_close(*both_ways(call, rule=rule))


@pytest.mark.compiled
def test_a_rule_that_was_changed_without_a_count_of_it_is_made_anew(unfused):
    call = asked(Sizes())
    with torch.inference_mode():
        lengths = torch.tensor([2, 3])
        rule, at = rules.padding(lengths), rules.at(rules.causal, positions := torch.arange(Q))
        for _ in range(2):
            torch.testing.assert_close(*both_ways(call, rule=rule))
            torch.testing.assert_close(*both_ways(call, rule=at))
            lengths += 2
            positions += 2
    lengths = torch.tensor([2, 3])
    rule = rules.padding(lengths)
    for _ in range(2):
        torch.testing.assert_close(*both_ways(call, rule=rule))
        lengths.numpy()[:] += 2


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_traced_it_agrees_too():
    call = asked(Sizes(), rule="padding", bias="alibi")
    torch.testing.assert_close(*both_ways(call))


@pytest.mark.compiled
def test_no_more_masks_are_kept_than_said(unfused):
    for reach in range(flex.BLOCK_MASK_CACHE_SIZE + 5):
        both_ways(asked(Sizes()), rule=rules.window(reach))
    assert len(flex._block_mask_cache) == flex.BLOCK_MASK_CACHE_SIZE


REFUSED = {
    "only the softmax is fused": {"select": selects.hard},
    "only dot, scaled_dot, Cosine, General and Location fold into a dot product": {
        "score": scores.Additive(torch.ones(H, D))
    },
    "flex attention has no dropout": {"dropout": 0.5},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_flex_cannot_run_is_said_in_words(reason):
    call = asked(Sizes())
    with use_backend("flex"), pytest.raises(ValueError, match=reason):
        attend(*call.qkv, **REFUSED[reason])


def test_float64_and_gradients_on_a_cpu_are_refused():
    q, k, v = torch.randn(3, B, H, Q, D)
    with use_backend("flex"):
        with pytest.raises(ValueError, match="flex attention has no float64"):
            attend(q.double(), k.double(), v.double())
        with pytest.raises(ValueError, match="flex attention has no backward on a CPU"):
            attend(q.requires_grad_(), k, v)


@pytest.mark.parametrize("what", ["score", "bias"])
def test_gradients_of_a_mechanism_are_refused_on_a_cpu_too(what):
    call = asked(Sizes(), score="general", bias="tensor (Q, 1)")
    held = call.named[what]
    (held.weight if what == "score" else held).requires_grad_()
    with use_backend("flex"), pytest.raises(ValueError, match="has no backward on a CPU"):
        attend(*call.qkv, **call.named)
