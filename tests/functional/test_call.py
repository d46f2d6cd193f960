"""A call as a value: what is checked, what is refused, what autocast does."""

from dataclasses import replace

import pytest
import torch

from regard.functional.call import (
    Why,
    autocast_qkv,
    build_call,
    check_edited_call,
    is_standard,
    map_tensors,
    repeat_kv_heads,
    tensors_of,
    with_dropout,
    without_values,
    zero_ablated_heads,
)
from regard.functional.rules import DenseMask

B, H, Q, K, D, DV = 2, 3, 5, 7, 11, 13


def tensors():
    return torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, DV)


def test_a_call_knows_its_sizes():
    assert build_call(*tensors()).sizes == (B, H, Q, K)


def test_a_bool_tensor_becomes_a_rule_that_knows_where_query_0_stands():
    rule = build_call(*tensors(), rule=torch.ones(Q, K).bool()).rule
    assert isinstance(rule, DenseMask) and rule.offset == K - Q


def test_without_values_the_keys_stand_in():
    q, k, _ = tensors()
    assert build_call(q, k, None).v is k


def test_heads_that_are_not_heard_are_zero_even_where_they_were_nan():
    call = replace(build_call(*tensors()), heads=torch.tensor([True, False, True]))
    found = zero_ablated_heads(
        call, torch.full((B, H, Q, DV), torch.nan).index_fill(1, torch.tensor([0, 2]), 1)
    )
    assert found.sum((0, 2, 3)).tolist() == [B * Q * DV, 0, B * Q * DV]


def test_which_heads_are_heard_goes_with_the_weights_and_is_one_of_the_tensors():
    heads = torch.tensor([True, False, True])
    call = without_values(replace(build_call(*tensors()), heads=heads, dropout=0.5, first_query=4))
    assert (call.heads is heads, call.v is call.k, call.dropout, call.first_query) == (
        True,
        True,
        0,
        4,
    )
    assert any(x is heads for x in tensors_of(call))
    assert map_tensors(call, torch.Tensor.clone).heads.tolist() == heads.tolist()


def test_a_call_made_of_another_keeps_what_it_was_given():
    before = build_call(*tensors())
    made = replace(
        before, heads=torch.ones(H).bool(), dropout=0.25, rule=DenseMask(torch.ones(K) > 0)
    )
    again = check_edited_call(made, before, where="edit")
    assert again.heads.all() and again.dropout == 0.25 and again.rule.offset == K - Q


def test_spread_repeats_each_head_for_its_group():
    x = torch.arange(2.0)[None, :, None, None]
    assert repeat_kv_heads(x, 4).flatten().tolist() == [0, 0, 1, 1]
    assert repeat_kv_heads(x, 2) is x


def test_what_plainly_goes_together_is_seen_at_a_glance():
    q, k, v = tensors()
    assert is_standard(q, k, v) and is_standard(q, k[:, :1], v[:, :1])
    assert not is_standard(q, k, v[:, :, :3])
    assert not is_standard(q, k.half(), v)
    assert not is_standard(q, k[:, :, :0], v[:, :, :0])


def test_autocast_asks_for_its_dtype_and_leaves_float64_alone():
    with torch.autocast("cpu", torch.bfloat16):
        assert {x.dtype for x in autocast_qkv(*tensors())} == {torch.bfloat16}
        double = [x.double() for x in tensors()]
        assert {x.dtype for x in autocast_qkv(*double)} == {torch.float64}
    assert {x.dtype for x in autocast_qkv(*tensors())} == {torch.float32}


def test_why_reads_well():
    text = str(Why("sdpa", {"sdpa": None, "flex": "no dropout", "reference": None}))
    assert text.splitlines()[0] == "sdpa runs this call"
    assert "flex: no dropout" in text and "reference: could, but another comes first" in text


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_dropout_is_a_share(share):
    with pytest.raises(ValueError, match="attend: expected dropout from 0 up to but not 1, got"):
        with_dropout(build_call(*tensors()), share)
