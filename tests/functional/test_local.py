"""A near rule as small dense pieces: their shapes by hand, and what comes back together."""

import pytest
import torch

from regard import rules, scores, selects
from regard.functional.attention import attention, dense_mask
from regard.functional.call import build_call, repeat_kv_heads
from regard.functional.local import (
    _Stretches,
    find_around_rule,
    split_into_blocks,
    split_into_single_queries,
    with_dot_product,
)
from tests.mechanisms import FUSED, Sizes, asked

B, H, Q, K, D = 2, 3, 5, 7, 11


def whole(call):
    """The call, run as it stands."""
    k, v = repeat_kv_heads(call.k, call.q.shape[1]), repeat_kv_heads(call.v, call.q.shape[1])
    return attention(
        call.q, k, v, score=call.score, select=call.select, rule=call.rule, bias=call.bias
    )


@pytest.mark.parametrize("name", FUSED)
def test_a_folded_call_is_the_same_call(name):
    given = asked(Sizes(H=6), score=name)
    call = build_call(*given.qkv, **given.named)
    torch.testing.assert_close(whole(with_dot_product(call)), whole(call), atol=1e-5, rtol=1e-4)
    assert with_dot_product(call).k.shape[1] == 6


def test_bands_by_hand():
    q = torch.arange(4.0)[None, None, :, None]
    pieces, _ = split_into_blocks(
        build_call(q, q, q, score=scores.dot, rule=rules.window(1)), block=2
    )
    # blocks of two queries, over the block itself and one block to either side
    assert pieces.q.flatten(1).tolist() == [[0, 1], [2, 3]]
    assert pieces.k.flatten(1).tolist() == [[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 0, 0]]
    seen = dense_mask(pieces.q, pieces.k, pieces.rule).int().tolist()
    assert seen[0][0] == [[0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0]]
    assert seen[1][0] == [[0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]]


@pytest.mark.parametrize("Q, K", [(5, 7), (7, 5), (1, 7), (7, 1), (7, 7)])
@pytest.mark.parametrize("block", [1, 2, 3, 10])
def test_bands_join_to_the_whole(Q, K, block):
    rule = rules.both(rules.causal, rules.window(2))
    call = build_call(*asked(Sizes(Q=Q, K=K)).qkv, rule=rule)
    pieces, join = split_into_blocks(call, block=block)
    torch.testing.assert_close(join(whole(pieces)), whole(call), atol=1e-5, rtol=1e-4)


def test_gathered_keys_by_hand():
    k = torch.arange(5.0)[None, None, :, None]
    rule = rules.around(torch.tensor([[[0.0, 2.5]]]), 1)
    pieces, _ = split_into_single_queries(build_call(k[:, :, :2], k, k, rule=rule), rule)
    # a window that hangs over the end is moved inside, and the rule hides what is out of reach
    assert pieces.k.flatten(1).tolist() == [[0, 1, 2], [2, 3, 4]]
    seen = dense_mask(pieces.q, pieces.k, pieces.rule)
    assert seen.flatten(1).tolist() == [[True, True, False], [True, True, False]]


@pytest.mark.parametrize("reach", [0, 0.4, 1, 2.5, 20])
@pytest.mark.parametrize("Q, K", [(5, 7), (7, 5), (3, 1)])
def test_gathered_keys_join_to_the_whole(reach, Q, K):
    centre = torch.rand(B, H, Q) * (K + 4) - 2
    rule, select = rules.around(centre, reach), selects.gaussian(centre, 1.0)
    call = build_call(*asked(Sizes(Q=Q, K=K)).qkv, rule=rule, select=select)
    pieces, join = split_into_single_queries(call, find_around_rule(call.rule))
    torch.testing.assert_close(join(whole(pieces)), whole(call), atol=1e-5, rtol=1e-4)


def test_a_centre_in_half_precision_still_tells_neighbours_apart():
    centre = torch.full((1, 1, 1), 512.0).bfloat16()
    call = build_call(*torch.randn(3, 1, 1, 1, 4), rule=rules.around(torch.zeros(1, 1, 1), 1))
    k = torch.arange(600.0)[None, None, :, None].expand(1, 1, 600, 4)
    rule = rules.around(centre, 1)
    pieces, _ = split_into_single_queries(build_call(call.q, k, k, rule=rule), rule)
    assert pieces.k[0, 0, :, 0].tolist() == [511, 512, 513]


def test_the_centred_part_of_a_rule_is_found():
    around = rules.around(torch.zeros(B, H, Q), 1)
    assert find_around_rule(rules.both(rules.causal, rules.both(around, rules.prefix(3)))) is around
    assert (
        find_around_rule(rules.either(rules.causal, around)) is None
        and find_around_rule(None) is None
    )


def test_gradients_of_keys_that_many_queries_gather_are_not_rounded_query_by_query():
    q, k = (torch.zeros(1, 1, n, 1, dtype=torch.bfloat16) for n in (400, 2))
    v = torch.tensor([1.0, 0.0], dtype=torch.bfloat16)[None, None, :, None].requires_grad_()
    bias = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)
    rule = rules.around(torch.full((1, 1, 400), 0.5), 1)
    call = build_call(q, k, v, score=scores.dot, rule=rule, bias=bias)
    pieces, join = split_into_single_queries(call, find_around_rule(call.rule))
    grads = torch.autograd.grad(join(whole(pieces)).sum(), (v, bias))
    # half of each query's gradient; bfloat16 holds neither 128.5 nor 64.25
    assert grads[0].flatten().tolist() == [200, 200]
    assert grads[1].tolist() == [100, -100]


def test_gradients_of_keys_in_several_stretches_are_rounded_once():
    x = torch.zeros(1, 1, 10, 1, dtype=torch.bfloat16, requires_grad=True)
    out = _Stretches.apply(x, 2, 3)  # three stretches; the third block is in each of them
    given = torch.zeros(3, 6, dtype=torch.bfloat16)
    given[2, 0], given[1, 2], given[0, 4] = 256, 1, 1
    (got,) = torch.autograd.grad(out, x, given.view_as(out))
    assert got.flatten()[4] == 258  # and not 256, as when 257 is rounded on the way
