"""What one attention saw: rows, joined calls, the best keys, entropy."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import attend, edit, edits, look, rules, selects, weigh
from tests.mechanisms import BIASES, RULES, SCORES, SELECTS, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11


@pytest.fixture
def record():
    call = asked(Sizes(), rule="causal", bias="alibi")
    with look() as seen:
        attend(*call.qkv, **call.named)
    return seen["attend.0"]


class Step(nn.Module):
    """One step of a decoder: attends once a call."""

    def forward(self, q, k):
        return attend(q, k, k)


ASKED = [2, -1, [0, 4, -2], slice(1, None, 2), slice(None), torch.tensor([3, 0]), range(2), []]


@pytest.mark.parametrize("queries", ASKED, ids=str)
def test_rows_are_rows_of_the_weights(record, queries):
    whole = record.weights()[1, 2]
    expected = whole[queries] if isinstance(queries, slice | list | torch.Tensor) else None
    if expected is None:
        expected = whole[list(queries)] if isinstance(queries, range) else whole[queries][None]
    assert torch.allclose(record.rows(1, 2, queries), expected.reshape(-1, K), atol=1e-6)


@pytest.mark.parametrize("what, name", [
    (what, name)
    for what, names in {"score": SCORES, "select": SELECTS, "rule": RULES, "bias": BIASES}.items()
    for name in names
])  # fmt: skip
def test_rows_of_every_mechanism_are_exact(what, name):
    call = asked(Sizes(H=6), **{what: name})
    with look() as seen:
        attend(*call.qkv, **call.named)
    rows, whole = seen["attend.0"].rows(1, 4, [4, 0, 3]), seen["attend.0"].weights()
    assert torch.allclose(rows, whole[1, 4, [4, 0, 3]], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_in_half_precision_are_those_of_the_weights(dtype):
    q = torch.randn(B, H, Q, D, dtype=dtype)
    with look() as seen:
        attend(q, q, q, rule=rules.causal)
    rows, whole = seen["attend.0"].rows(1, 2, [4, 0, 3]), seen["attend.0"].weights()
    assert rows.dtype == dtype
    assert_close(rows, whole[1, 2, [4, 0, 3]])
    assert seen["attend.0"].entropy().isfinite().all()


def test_a_head_that_is_not_heard_has_rows_of_zeros_and_no_entropy():
    model, q = Step(), torch.randn(B, H, Q, D)
    with edit(model, {"Step": edits.ablate(1)}), look(model) as seen:
        model(q, q)
    assert not seen["Step"].rows(0, 1, [2, 0]).any() and not seen["Step"].entropy()[:, 1].any()
    assert_close(seen["Step"].weights()[:, 2], weigh(q, q)[:, 2])
    assert_close(seen["Step"].top(2).weights[:, 1], torch.zeros(B, Q, 2))


def test_rows_of_a_draw_are_the_draw():
    call = asked(Sizes())
    with look() as seen:
        attend(*call.qkv, select=selects.sampled())
    assert torch.equal(seen["attend.0"].rows(1, 2, slice(None)), seen["attend.0"].weights()[1, 2])


@pytest.mark.parametrize("grown", [0, 1], ids=["fixed", "growing"])
def test_calls_of_one_module_join_along_the_queries(grown):
    model, keys = Step(), torch.randn(B, H, K, D)
    queries = torch.randn(3, B, H, 1, D)
    with look(model) as seen:
        for i, q in enumerate(queries):
            model(q, keys[:, :, : K - grown * (2 - i)])
    weights = seen["Step"].weights()
    assert weights.shape == (B, H, 3, K)
    for i, q in enumerate(queries):
        there = K - grown * (2 - i)
        assert torch.allclose(weights[:, :, i, :there], weigh(q, keys[:, :, :there])[:, :, 0])
        assert weights[:, :, i, there:].eq(0).all()
    assert torch.allclose(seen["Step"].rows(1, 2, [2, 0]), weights[1, 2, [2, 0]], atol=1e-6)


def test_calls_of_other_batches_do_not_join():
    model = Step()
    with look(model) as seen:
        model(torch.randn(1, H, Q, D), torch.randn(1, H, K, D))
        model(torch.randn(2, H, Q, D), torch.randn(2, H, K, D))
    with pytest.raises(ValueError, match="look: calls of 'Step' have other batches or heads"):
        seen["Step"].weights()
    assert seen["Step"].calls[1].weights().shape == (2, H, Q, K)


def test_top_is_that_of_the_weights(record):
    top, best = record.top(3), record.weights().topk(3, -1)
    assert torch.allclose(top.weights, best.values, atol=1e-6)
    assert torch.equal(top.keys[..., 0], best.indices[..., 0]) and top.keys.shape == (B, H, Q, 3)


def test_top_of_more_than_there_are_is_all(record):
    assert record.top(100).keys.shape == (B, H, Q, K)


def test_entropy_by_hand():
    q, k, v = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4)
    with look() as seen:
        attend(q, k, v, rule=rules.causal)
    assert seen["attend.0"].entropy().flatten().tolist() == pytest.approx(
        [math.log(2), math.log(3)]
    )


def test_the_entropy_of_float64_weights_has_their_digits():
    q, k = torch.randn(1, 1, 1, D).double(), torch.randn(1, 1, K, D).double()
    with look() as seen:
        attend(q, k, k)
    expected = torch.special.entr(weigh(q, k)).sum(-1)
    assert_close(seen["attend.0"].entropy(), expected, rtol=1e-14, atol=0)


def test_one_key_alone_has_no_entropy():
    call = asked(Sizes())
    with look() as seen:
        attend(*call.qkv, select=selects.hard)
    assert seen["attend.0"].entropy().eq(0).all()


WRONG = {
    "look: expected batch from 0 to 1, got 2": (2, 0, 0),
    "look: expected batch from 0 to 1, got -1": (-1, 0, 0),
    "look: expected head from 0 to 2, got 3": (0, 3, 0),
    "look: expected queries below Q=5, got [5]": (0, 0, 5),
    "look: expected queries below Q=5, got [0, -6]": (0, 0, [0, -6]),
    "look: expected queries as a tensor of integers, got a tensor of bool": (
        0,
        0,
        torch.ones(Q).bool(),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_rows_that_are_not_there_are_refused_in_words(record, message):
    with pytest.raises(ValueError) as refused:
        record.rows(*WRONG[message])
    assert str(refused.value) == message


class Learned(nn.Module):
    """A score of one's own that lives in a module: under autocast its products are lowered."""

    def __init__(self):
        super().__init__()
        self.to_key = nn.Linear(D, D)

    def forward(self, q, k):
        return self.to_key(q) @ k.mT


def test_a_look_asks_a_score_of_one_s_own_under_the_autocast_it_ran_under():
    call, score = asked(Sizes(), rule="causal"), Learned()
    with torch.autocast("cpu", torch.bfloat16), look() as seen:
        formed = weigh(call.q, call.k, score=score, rule=rules.causal)
    assert torch.equal(seen["attend.0"].weights(), formed)
    assert torch.equal(seen["attend.0"].rows(1, 2, slice(None)), formed[1, 2])


def test_a_look_that_is_read_under_autocast_shows_what_ran_without(record):
    before = record.weights(), record.rows(1, 2, [3, 1])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(record.weights(), before[0])
        assert torch.equal(record.rows(1, 2, [3, 1]), before[1])


def test_a_batch_of_nothing_has_best_keys_and_entropies_of_no_row():
    q = torch.randn(0, H, Q, D)
    with look() as seen:
        attend(q, q, q)
    assert seen["attend.0"].top(2).weights.shape == (0, H, Q, 2)
    assert seen["attend.0"].entropy().shape == (0, H, Q)
