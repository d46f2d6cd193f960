"""Rules: a mask drawn by hand for each, their laws, agreement with flex_attention, refusals."""

import pytest
import torch
from hypothesis import given
from torch.nn.attention.flex_attention import create_mask, flex_attention

from regard import attend, rules, use_backend
from regard.functional.rules import band, bind, dense, draw, index_grid, leaf_rules, mask_tensor
from tests.mechanisms import RULES, Sizes, asked, grown, mask, sizes, trees

B, H, Q, K, D = 2, 3, 5, 7, 11


def picture(text):
    return "\n".join(text.split())


def test_causal_by_hand():
    assert draw(rules.causal, 3, 4) == picture("██░░ ███░ ████")


def test_the_last_query_stands_on_the_last_key():
    assert draw(rules.causal, 4, 2) == picture("░░ ░░ █░ ██")


def test_window_by_hand():
    assert draw(rules.window(1), 4, 4) == picture("██░░ ███░ ░███ ░░██")


def test_prefix_by_hand():
    assert draw(rules.prefix(2), 2, 3) == picture("██░ ██░")


def test_padding_by_hand():
    lengths = torch.tensor([2, 0])
    assert draw(rules.padding(lengths), 1, 3, B=2) == "██░"
    assert draw(rules.padding(lengths, side="left"), 1, 3, B=2) == "░██"
    assert not dense(rules.padding(lengths), 2, 1, 1, 3)[1].any()


def test_documents_by_hand():
    rule = rules.documents(torch.tensor([[0, 0, 1]]))
    assert draw(rule, 3, 3) == picture("██░ ██░ ░░█")
    assert draw(rule, 1, 3) == "░░█"


def test_a_query_before_the_first_key_belongs_to_no_document():
    assert draw(rules.documents(torch.tensor([[0, 0]])), 3, 2) == picture("░░ ██ ██")


def test_around_by_hand():
    centre = torch.tensor([[[0.0, 2.5]]])
    assert draw(rules.around(centre, 1), 2, 4) == picture("██░░ ░░██")


def test_at_by_hand():
    assert draw(rules.at(rules.causal, torch.tensor([0, 2])), 2, 4) == picture("█░░░ ███░")


def test_at_may_say_another_place_in_each_row():
    rule = rules.at(rules.causal, torch.tensor([[0], [2]]))
    assert dense(rule, 2, 1, 1, 3)[:, 0, 0].tolist() == [[True, False, False], [True, True, True]]


def test_a_bool_tensor_is_not_shifted():
    here = torch.tensor([[True, False, False]])
    assert draw(here, 1, 3) == "█░░"
    assert draw(rules.both(here, rules.causal), 1, 3) == "█░░"


def test_both_and_either_by_hand():
    near, first = rules.window(1), rules.prefix(1)
    assert draw(rules.both(near, first), 3, 3) == picture("█░░ █░░ ░░░")
    assert draw(rules.either(near, first), 3, 3) == picture("██░ ███ ███")


@given(sizes(), trees(), trees())
def test_both_is_and_either_is_or(s, one, two):
    one, two = grown(one, s), grown(two, s)
    a, b = dense(one, *s.full), dense(two, *s.full)
    assert torch.equal(dense(rules.both(one, two), *s.full), a & b)
    assert torch.equal(dense(rules.either(one, two), *s.full), a | b)


@given(sizes(B=2, Q=5, K=7), trees())
def test_a_rule_asked_for_single_places_says_the_same(s, tree):
    rule = bind(grown(tree, s), *s.full)
    whole = dense(rule, *s.full)
    for b, h, q, k in [(0, 0, 0, 0), (1, s.H - 1, 4, 6), (1, 0, 3, 2)]:
        one = rule(*map(torch.tensor, (b, h, q + s.K - s.Q, k)))
        assert bool(one) == bool(whole[b, h, q, k])


@given(sizes(K=13), trees())
def test_nothing_is_seen_outside_of_the_band(s, tree):
    rule = bind(grown(tree, s), *s.full)
    back, ahead = band(rule)
    _, _, q, k = index_grid(*s.full)
    assert not (dense(rule, *s.full) & ((k < q - back) | (k > q + ahead))).any()


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_a_mask_mod_of_flex_attention(name):
    s = Sizes(Q=K)  # where Q = K, positions are indices
    call = asked(s, rule=name)
    rule = bind(call.named["rule"], *s.full)
    hidden = ~create_mask(rule, *s.full, device="cpu")
    assert torch.equal(~hidden, dense(rule, *s.full))


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_takes_our_rule_as_it_is():
    q, k, v = (torch.randn(B, H, K, D) for _ in "qkv")
    rule = rules.both(rules.causal, rules.padding(torch.tensor([3, 7])))
    block = torch.nn.attention.flex_attention.create_block_mask(rule, B, H, K, K, device="cpu")
    with use_backend("reference"):
        ours = attend(q, k, v, rule=rule)
    assert torch.allclose(flex_attention(q, k, v, block_mask=block), ours, atol=1e-5)


def test_a_rule_is_spelled_out_no_larger_than_it_must_be():
    assert mask_tensor(rules.causal, B, H, Q, K).shape == (Q, K)
    assert mask_tensor(bind(mask(B, 1, 1, K), B, H, Q, K), B, H, Q, K).shape == (B, 1, 1, K)


def test_parts_are_the_simple_rules_within():
    near, at = rules.window(1), rules.at(rules.causal, torch.tensor([0]))
    assert leaf_rules(rules.either(rules.both(near, rules.causal), at)) == [near, rules.causal, at]
    assert leaf_rules(None) == []


def test_rules_without_tensors_are_equal_when_they_say_the_same():
    assert rules.window(3) == rules.window(3) != rules.window(4)
    assert rules.both(rules.causal, rules.window(3)) == rules.both(rules.causal, rules.window(3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
@pytest.mark.parametrize("side", ["left", "right"])
def test_lengths_of_any_integer_type_mean_the_same(dtype, side):
    lengths = torch.tensor([3, 100])
    small = rules.padding(lengths.to(dtype), side=side)
    expected = dense(rules.padding(lengths, side=side), 2, 1, 1, 300)
    assert torch.equal(dense(small, 2, 1, 1, 300), expected)


def test_a_centre_in_half_precision_still_tells_neighbours_apart():
    rule = rules.around(torch.full((1, 1, 1), 512.0).bfloat16(), 1)
    assert dense(rule, 1, 1, 1, 600).nonzero()[:, 3].tolist() == [511, 512, 513]


def test_a_whole_centre_will_do():
    assert draw(rules.around(torch.tensor([[[1]]]), 1), 1, 4) == "███░"


WRONG = {
    "window: expected a whole reach >= 0, got -1": lambda: rules.window(-1),
    "prefix: expected a whole n >= 0, got -2": lambda: rules.prefix(-2),
    f"window: expected reach below 2^62, got {2**63}": lambda: rules.window(2**63),
    "at: expected positions below ids' length L=7, got 9": lambda: rules.at(
        rules.both(rules.causal, rules.documents(torch.zeros(B, 7).long())),
        torch.tensor([0, 1, 9, 3, 4]),
    ),
    "padding: expected lengths as a tensor of integers, got a tensor of float32": (
        lambda: rules.padding(torch.ones(B))
    ),
    "padding: expected lengths of shape (B), got (2, 1)": (
        lambda: rules.padding(torch.ones(B, 1).long())
    ),
    "padding: expected lengths of shape (B=2), got (3,)": (
        lambda: rules.padding(torch.ones(3).long())
    ),
    "padding: expected lengths from 0 to K=7, got [3, 8]": (
        lambda: rules.padding(torch.tensor([3, 8]))
    ),
    "padding: expected lengths from 0 to K=7, got [-1, 2]": (
        lambda: rules.padding(torch.tensor([-1, 2]))
    ),
    "documents: expected ids as a tensor of integers, got a tensor of float32": (
        lambda: rules.documents(torch.ones(B, K))
    ),
    "documents: expected ids of shape (B=2, L) with L >= K=7, got (2, 5)": (
        lambda: rules.documents(torch.ones(B, 5).long())
    ),
    "around: expected reach >= 0, got -1.0": lambda: rules.around(torch.ones(B, H, Q), -1.0),
    "around: expected centre of shape (B=2, H=3, Q=5), got (2, 3, 7)": (
        lambda: rules.around(torch.ones(B, H, K), 1.0)
    ),
    "at: expected positions as a tensor of integers, got a tensor of float32": (
        lambda: rules.at(rules.causal, torch.ones(Q))
    ),
    "at: expected positions of shape (Q,) or (B, Q), got (1, 1, 5)": (
        lambda: rules.at(rules.causal, torch.ones(1, 1, Q).long())
    ),
    "at: expected positions of shape (B=2, Q=5), got (2, 7)": (
        lambda: rules.at(rules.causal, torch.ones(B, K).long())
    ),
    "at: a centre, a mask or another at is found by the query's index, not by its position; "
    "write both(at(...), around(...))": (
        lambda: rules.at(rules.around(torch.ones(B, H, Q), 1), torch.arange(Q))
    ),
    "both: expected at least one rule, got none": lambda: rules.both(),
    "either: expected at least one rule, got none": lambda: rules.either(),
    "rule: expected a bool tensor, True where a key may be seen, got a tensor of int64. "
    "A float tensor to add to the scores goes into bias=.": lambda: torch.ones(Q, K).long(),
    "rule: expected what it returns as a bool tensor, got a tensor of int64": (
        lambda: lambda b, h, q, k: q - k
    ),
    "attend: expected rule that broadcasts to (B=2, H=3, Q=5, K=7), got (7, 5)": (
        lambda: mask(K, Q)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_rule_that_cannot_be_meant_is_refused_in_words(message):
    with pytest.raises(ValueError) as refused:
        attend(torch.ones(B, H, Q, D), *torch.ones(2, B, H, K, D), rule=WRONG[message]())
    assert str(refused.value) == message


def test_left_padding_asked_without_sizes_says_what_it_needs():
    rule = rules.padding(torch.tensor([3]), side="left")
    with pytest.raises(ValueError, match="padding: on the left side a bare call needs keys="):
        rule(*map(torch.tensor, (0, 0, 0, 0)))


def test_a_centre_for_storing_alone_is_refused_in_words():
    with pytest.raises(ValueError, match=r"around: expected centre in float16.*float8_e5m2"):
        rules.around(torch.ones(1, 1, 2).to(torch.float8_e5m2), 1)
