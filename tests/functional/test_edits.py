"""Changes to a call: what each does to the weights, by hand, and what is refused."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard import edits, rules, scores, selects
from regard.functional import attention as plain
from regard.functional.call import build_call, zero_ablated_heads

B, H, Q, K, D = 2, 3, 5, 7, 11
INF = float("inf")


def asked(**named):
    return build_call(torch.randn(B, H, Q, D), torch.randn(B, H, K, D), None, **named)


def row(*weights):
    """A call of one query whose softmax gives these weights."""
    logs = torch.tensor([[[weights]]]).log()
    return build_call(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, len(weights), 1), None, bias=logs)


def weights(call):
    found = plain.weights(
        call.q, call.k, score=call.score, select=call.select, rule=call.rule, bias=call.bias
    )
    return zero_ablated_heads(call, found)


def of_one(call):
    return weights(call)[0, 0, 0]


def later(call, begun):
    return replace(call, first_query=begun)


# What changes nothing.

NOTHING = {
    "ablate": edits.ablate(),
    "hide": edits.hide([]),
    "hide later": edits.hide([(Q, 0)], heads=[1]),
    "heat": edits.heat(1),
    "force later": edits.force(Q, 0, 0.5),
    "chain": edits.chain(),
    "chain of such": edits.chain(edits.heat(1.0), edits.ablate()),
}


@pytest.mark.parametrize("change", NOTHING.values(), ids=NOTHING)
def test_what_changes_nothing_gives_the_very_call(change):
    call = asked()
    assert change(call) is call


# Heads.


def test_heads_that_are_not_heard_have_no_weights_and_others_keep_theirs():
    call = asked()
    found, before = weights(edits.ablate(0, 2)(call)), weights(call)
    assert not found[:, [0, 2]].any() and torch.equal(found[:, 1], before[:, 1])


def test_heads_are_ablated_one_after_the_other():
    assert edits.chain(edits.ablate(0), edits.ablate(2))(asked()).heads.tolist() == [0, 1, 0]


# Cells.


def test_hiding_is_a_mask():
    call, mask = asked(), torch.ones(Q, K, dtype=torch.bool)
    mask[1, 2] = mask[4, 0] = False
    mask[:, 6] = False
    found = weights(edits.hide([(1, 2), (4, 0), (None, 6)])(call))
    assert torch.equal(found, plain.weights(call.q, call.k, rule=mask))


def test_hiding_from_some_heads_leaves_the_others():
    call = asked()
    found, before = weights(edits.hide([(None, 3)], heads=[1])(call)), weights(call)
    assert not found[:, 1, :, 3].any() and torch.equal(found[:, [0, 2]], before[:, [0, 2]])


def test_hiding_hides_beside_the_rule():
    found = edits.hide([(0, 0), (4, 6)])(asked(rule=rules.causal)).rule
    assert rules.draw(found, Q, K) == "\n".join(
        ["░██░░░░", "████░░░", "█████░░", "██████░", "██████░"]
    )


def test_a_row_of_which_all_is_hidden_reads_nothing():
    found = weights(edits.hide([(2, key) for key in range(K)])(asked()))
    assert not found[:, :, 2].any() and found[:, :, 1].all()


@pytest.mark.parametrize("change", [edits.hide([(9, 3)]), edits.force(9, 3, 0.0)])
def test_queries_count_from_where_the_attention_began(change):
    found = weights(change(later(asked(), 8)))
    assert not found[:, :, 1, 3].any() and found[:, :, [0, 2, 3, 4]].all()
    call = later(asked(), 10)
    assert change(call) is call


# Scores and selects.


def test_another_score_and_another_select_take_the_place_of_those_there():
    call = asked()
    found = edits.chain(edits.score(scores.dot), edits.select(selects.hard))(call)
    assert torch.equal(
        weights(found), plain.weights(call.q, call.k, score=scores.dot, select=selects.hard)
    )


def test_heat_divides_all_that_is_softmaxed():
    call = asked(bias=torch.randn(Q, K), rule=rules.causal)
    s = call.q @ call.k.mT / D**0.5 + call.bias.values
    s = s.masked_fill(~rules.dense(rules.causal, B, H, Q, K), -INF)
    assert_close(weights(edits.heat(0.3)(call)), (s / 0.3).softmax(-1))


def test_heat_goes_from_the_best_key_to_the_mean():
    call = row(0.2, 0.5, 0.3)
    assert of_one(edits.heat(1e-38)(call)).tolist() == [0, 1, 0]
    assert_close(of_one(edits.heat(1e9)(call)), torch.full((3,), 1 / 3))


def test_heat_by_hand():
    assert_close(of_one(edits.heat(0.5)(row(0.75, 0.25))), torch.tensor([0.9, 0.1]))


# Weights.


def test_a_forced_weight_by_hand():
    found = of_one(edits.force(0, 0, 0.2)(row(0.5, 0.3, 0.2)))
    assert_close(found, torch.tensor([0.2, 0.48, 0.32]))


@pytest.mark.parametrize("weight", [0, 0.3, 1.0])
def test_a_forced_cell_has_its_weight_and_its_row_its_sum(weight):
    found = weights(edits.force(3, 2, weight)(asked()))
    assert_close(found[:, :, 3, 2], torch.full((B, H), float(weight)))
    assert_close(found.sum(-1), torch.ones(B, H, Q))


def test_where_nothing_is_left_to_scale_the_others_share_alike():
    call = edits.select(selects.hard)(row(0.2, 0.5, 0.2, 0.1))
    call = edits.hide([(0, 3)])(call)
    assert_close(of_one(edits.force(0, 1, 0.4)(call)), torch.tensor([0.3, 0.4, 0.3, 0]))


def test_a_key_that_is_seen_alone_has_its_weight_all_the_same():
    call = edits.hide([(0, 0)])(row(0.5, 0.5))
    assert_close(of_one(edits.force(0, 1, 0.4)(call)), torch.tensor([0, 0.4]))


def test_what_may_not_be_seen_is_not_forced():
    call = asked(rule=rules.causal)
    found = weights(edits.force(None, 4, 0.9)(call))
    assert torch.equal(found[:, :, :2], weights(call)[:, :, :2])
    assert_close(found[:, :, 2:, 4], torch.full((B, H, Q - 2), 0.9))


def test_rows_that_sum_to_less_keep_their_sum():
    call = asked(select=selects.gaussian(torch.full((B, H, Q), 3.0), 1.5))
    before = weights(call)
    found = weights(edits.force(None, 3, 0.01, heads=[0])(call))
    assert torch.equal(found[:, 1:], before[:, 1:])
    assert_close(found.sum(-1), before.sum(-1))
    assert_close(found[:, 0, :, 3], torch.full((B, Q), 0.01))


def test_of_two_forced_cells_the_later_makes_room_at_the_cost_of_the_earlier():
    change = edits.chain(edits.force(0, 0, 0.5), edits.force(0, 1, 0.5))
    assert_close(of_one(change(row(0.2, 0.2, 0.6))), torch.tensor([2 / 7, 0.5, 3 / 14]))


@pytest.mark.parametrize("change", [edits.heat(0.7), edits.force(1, 2, 0.4), edits.ablate(1)])
def test_gradients_are_right(change):
    q, k = (torch.randn(1, 2, n, 3, dtype=torch.float64).requires_grad_() for n in (3, 4))
    rule = rules.causal
    assert torch.autograd.gradcheck(
        lambda q, k: weights(change(build_call(q, k, None, rule=rule))), (q, k)
    )


# What cannot be.

WRONG = [
    (lambda: edits.ablate(0, -1), "ablate: expected whole heads >= 0, got -1"),
    (lambda: edits.hide([(0, -1)]), "hide: expected whole keys >= 0, got -1"),
    (lambda: edits.hide([(True, 1)]), "hide: expected whole queries >= 0, got True"),
    (lambda: edits.hide([(None, 1)], heads=[-2]), "hide: expected whole heads >= 0, got -2"),
    (lambda: edits.heat(0), "heat: expected a finite temperature > 0, got 0"),
    (lambda: edits.heat(-1.0), "heat: expected a finite temperature > 0, got -1"),
    (lambda: edits.heat(math.nan), "heat: expected a finite temperature > 0, got nan"),
    (lambda: edits.heat(INF), "heat: expected a finite temperature > 0, got inf"),
    (lambda: edits.force(0, 1, 1.5), "force: expected a weight from 0 to 1, got 1.5"),
    (lambda: edits.force(0, 1, math.nan), "force: expected a weight from 0 to 1, got nan"),
    (lambda: edits.force(0, -1, 0.5), "force: expected whole keys >= 0, got -1"),
    (lambda: edits.force(-3, 1, 0.5), "force: expected whole queries >= 0, got -3"),
    (lambda: edits.score(scores.Additive), "score: expected a callable .*, got .*Additive"),
    (lambda: edits.select(selects.TopK), "select: expected a callable on scores, got .*TopK"),
    (
        lambda: edits.chain(edits.Temperature),
        "chain: expected a callable from Call to Call, got .*Temperature",
    ),
]


@pytest.mark.parametrize("make, words", WRONG, ids=[words for _, words in WRONG])
def test_nonsense_is_refused_when_it_is_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


NOT_THERE = [
    (edits.ablate(1, 3), "ablate: expected heads below H=3, got 3"),
    (edits.hide([(0, 1)], heads=[4]), "hide: expected heads below H=3, got 4"),
    (edits.force(0, 1, 0.5, heads=[3]), "force: expected heads below H=3, got 3"),
]


@pytest.mark.parametrize("change, words", NOT_THERE, ids=[words for _, words in NOT_THERE])
def test_what_is_not_there_is_refused_when_it_is_known(change, words):
    with pytest.raises(ValueError, match=words):
        change(asked())


@pytest.mark.parametrize("change", [edits.hide([(None, 9)]), edits.force(2, 9, 0.5)])
@pytest.mark.parametrize("begun", [0, K - Q])
def test_a_key_that_may_still_come_is_waited_for(change, begun):
    call = later(asked(), begun)
    assert change(call) is call
    query = 2 if isinstance(change, edits.ForcedWeight) else -1
    assert edits.largest_indices(edits.chain(change, edits.heat(2.0))) == (query, 9)


@pytest.mark.parametrize("change", [edits.hide([(9, 13)]), edits.force(9, 13, 0.0)])
def test_keys_are_counted_from_where_the_cache_began(change):
    found = weights(change(replace(asked(), first_query=8, first_key=10)))
    assert not found[:, :, 1, 3].any() and found[:, :, [0, 2, 3, 4]].all()


@pytest.mark.parametrize("change", [edits.hide([(None, 3)]), edits.force(None, 3, 0.0)])
def test_a_key_that_a_cache_let_go_is_not_there_any_more(change):
    call = replace(asked(), first_query=8, first_key=4)
    assert change(call) is call


def test_changes_are_values():
    assert edits.hide([(0, 1)], heads=[2]) == edits.hide([(0, 1)], heads=[2])
    assert edits.chain(edits.ablate(1)) != edits.chain(edits.ablate(2))
    assert "heads=(0, 3)" in repr(edits.ablate(0, 3))
