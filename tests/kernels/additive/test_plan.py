"""A plan: made once for calls alike, and never taken for a call that differs."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels.additive import plan as additive_plan
from regard.kernels.additive.plan import (
    BACKWARD_QUERIES_PER_THREAD,
    ceil_div,
    next_power_of_2,
    plan_call,
)
from tests.kernels.calls import change, inputs, sight


@pytest.fixture(autouse=True)
def forgotten():
    additive_plan._make_plan.cache_clear()
    yield
    additive_plan._make_plan.cache_clear()


def plan(q, k, v, vector, bias=None, *, rule=None):
    return plan_call(q, k, v, None, vector, sight(rule, q, k), bias)[1]


def empty(B=1, H=1, Q=5, K=7, D=8, *, Dv=8, dtype=torch.bfloat16):
    """Inputs of any size, that nobody reads."""
    shapes = (B, H, Q, D), (B, H, K, D), (B, H, K, Dv), (H, D)
    return [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]


def test_numbers_by_hand():
    assert [ceil_div(n, 6) for n in (0, 1, 6, 7)] == [0, 1, 1, 2]
    assert [next_power_of_2(n) for n in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]


def test_groups_are_of_three_and_there_is_an_even_number_of_them():
    found = [plan(*inputs(D=D)).groups for D in (1, 3, 6, 7, 12, 13, 1024)]
    assert found == [2, 2, 2, 4, 4, 6, 342]


def test_calls_alike_have_one_plan():
    call = inputs()
    assert plan(*call) is plan(*call) is plan(*(x.clone() for x in call))


@pytest.mark.parametrize("what", ["length", "dtype", "layout", "place", "bias", "window"])
def test_calls_that_differ_have_plans_of_their_own(what):
    q, k, v, vector = inputs()
    moved = torch.cat([q.new_zeros(1), q.flatten()])[1:].view_as(q)
    other = {
        "length": lambda: plan(q[:, :, :4], k, v, vector),
        "dtype": lambda: plan(*(x.half() for x in (q, k, v, vector))),
        "layout": lambda: plan(q.transpose(1, 2).reshape(1, 5, 1, 8).transpose(1, 2), k, v, vector),
        "place": lambda: plan(moved, k, v, vector),
        "bias": lambda: plan(q, k, v, vector, torch.zeros(7)),
        "window": lambda: plan(q, k, v, vector, rule=rules.window(1)),
    }[what]()
    assert other is not plan(q, k, v, vector)
    assert other is not plan(q, k, v, vector, rule=rules.window(5))


def test_masks_and_biases_have_no_stride_where_they_are_spread():
    call, mask = inputs(2, 3), torch.ones(3, 1, 7, dtype=torch.bool)
    *_, of_mask, of_bias = plan(*call, torch.zeros(2, 1, 5, 1), rule=mask).strides
    assert (of_mask, of_bias) == ((0, 7, 0, 1), (5, 0, 1, 0))


def test_rows_are_read_in_fours_where_they_are_aligned():
    q, k, v, vector = inputs()
    assert plan(q, k, v, vector).aligned
    assert not plan(*inputs(D=10)).aligned
    assert not plan(torch.cat([q.new_zeros(1), q.flatten()])[1:].view_as(q), k, v, vector).aligned


def test_few_terms_and_float32_are_not_packed(monkeypatch):
    change(monkeypatch, TENSOR_CORE_MIN_TERMS=5 * 7 * 8)
    assert plan(*inputs(dtype=torch.bfloat16)).should_use_tensor_cores
    assert not plan(*inputs(K=6, dtype=torch.bfloat16)).should_use_tensor_cores
    assert not plan(*inputs()).should_use_tensor_cores


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("Q", [5, 33, 1025, 9999])
@pytest.mark.parametrize("H", [1, 64])
def test_bands_are_made_of_whole_tiles_and_fit_into_their_scratch(H, Q, dtype):
    found = plan(*empty(1, H, Q, 2000, 256, Dv=512, dtype=dtype))
    step = max(found.tile.rows, BACKWARD_QUERIES_PER_THREAD)
    for band in (found.forward_band, found.backward_band):
        assert band == Q or band % step == 0
    rows = H * found.backward_band * (10 * 2000 + 4 * found.backward_key_splits * 256)
    assert rows <= found.scratch_bytes or found.backward_band == step


def test_one_query_is_a_program_a_head_unless_its_keys_are_many_and_heads_few():
    assert plan(*empty(256, 1, 1, 16, 256, Dv=512)).single_query_block == (16, 256, 512, 1)
    assert plan(*empty(256, 1, 1, 130, 1024, Dv=512)).single_query_block == (64, 128, 128, 8)
    assert plan(*empty(1, 1, 1, 1, 1, Dv=1)).single_query_block == (1, 16, 16, 1)
    assert (
        plan(*empty(1, 1, 1, 1024, 256)).single_query_block
        and not plan(*empty(1, 1, 1, 1025, 256)).single_query_block
    )
    assert (
        plan(*empty(64, 1, 1, 1025, 256)).single_query_block
        and not plan(*empty(64, 1, 2, 16)).single_query_block
    )


@pytest.mark.parametrize("K", [1, 3, 16, 63, 64, 65, 1000])
@pytest.mark.parametrize(("D", "Dv"), [(1, 1), (64, 512), (1024, 8), (1024, 512)])
def test_one_query_s_chunks_have_all_numbers_and_blocks_stay_small(D, Dv, K):
    keys, dims, values, chunks = found = plan(*empty(64, 1, 1, K, D, Dv=Dv)).single_query_block
    assert chunks * dims >= D and chunks * values >= Dv
    assert keys * max(dims, values) <= 8192 and keys >= min(K, 64)
    assert found.warps == (8 if keys * max(dims, values) > 4096 else 4)


def test_one_query_s_backward_is_never_a_little_call_s():
    small = plan(*empty(2, 1, 1, 7))
    assert small.single_query_block and small.small_tile is None and not small.can_skip_lse
    q, k, _, vector = inputs(Q=1)
    index = torch.zeros(1, 1, 1, dtype=torch.long)
    assert (
        plan_call(q, k, None, index, vector, sight(None, q, k), None)[1].single_query_block is None
    )
    q, k, v, vector = inputs(1, 2, 1, groups=1)
    assert plan(q, k, v, vector).single_query_block is None
