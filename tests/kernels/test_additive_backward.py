"""The backward: a row's gradients sum to zero, and both forms of a derivative are one."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels import additive_launch
from regard.kernels.additive_launch import PTX, Problem, Tile
from tests.kernels.calls import everything, fused, inputs, plain
from tests.oracle import assert_as_good_as

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # of inf, which is meant
    pytest.mark.skipif(PTX, reason="without the interpreter kernels need a card"),
]

PARTS = (
    "descend: Σ g tanh is −2 Σ g r over all keys of a row, not over those of one program, so what "
    "vector learns is wrong where another program of the same row takes tanh itself"
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of 32 queries and 16 keys, and factors packed for calls as small as these."""
    monkeypatch.setattr(Problem, "tile", lambda call: Tile(1, 1, 2, 1))
    monkeypatch.setattr(additive_launch, "MANY", 0)


def test_two_keys_by_hand():
    # weights a half each, so a value's gradient is a half and a score's (v - mean) / 2 = ±1/4;
    # at zero tanh has the slope 1, and the vector is 2
    q, k, v = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 2, 1), torch.tensor([[[[0.0], [1.0]]]])
    _, dq, dk, dv, d_vector = everything(q, k, v, torch.tensor([[2.0]]), direction=1.0)
    assert dq.item() == d_vector.item() == 0
    assert dk.flatten().tolist() == [-0.5, 0.5] and dv.flatten().tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_row_s_gradients_of_scores_sum_to_zero(dtype):
    *_, d_bias = everything(*inputs(K=17, dtype=dtype), torch.zeros(1, 1, 5, 17))
    assert d_bias.abs().amax() > 0.01
    assert d_bias.sum(-1).abs().max() < 1e-6


def test_a_bias_that_nobody_learns_has_no_gradient():
    q, k, v, vector = (x.requires_grad_() for x in inputs())
    out = fused(q, k, v, vector, torch.zeros(5, 7))
    assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), (q, k, v, vector)))


def test_gradients_of_shared_keys_are_the_sum_over_their_heads():
    q, k, v, vector = inputs(1, 2, groups=1)
    _, _, dk, dv, _ = everything(q, k, v, vector)
    _, _, each_dk, each_dv, _ = everything(q, k.expand(1, 2, 7, 8), v.expand(1, 2, 7, 8), vector)
    torch.testing.assert_close(dk, each_dk.sum(1, keepdim=True))
    torch.testing.assert_close(dv, each_dv.sum(1, keepdim=True))


@pytest.mark.parametrize(
    ("Q", "which"),
    [
        pytest.param(5, "key", marks=pytest.mark.xfail(reason=PARTS)),
        (33, "query"),
        (5, "dimension"),
    ],
)
def test_one_large_among_ordinary_errs_no_more_than_plain(Q, which):
    q, k, v, vector = inputs(Q=Q, K=17, dtype=torch.bfloat16)
    where = {"key": k[:, :, :1], "query": q[:, :, :1], "dimension": q[..., :1]}[which]
    where *= 50
    assert_as_good_as(fused, plain, q, k, v, vector)


@pytest.mark.parametrize("few", [0, 5], ids=["tiles", "decoding"])
def test_a_large_query_that_meets_its_keys_halfway_errs_no_more_than_plain(few, monkeypatch):
    monkeypatch.setattr(additive_launch, "FEW", few)
    q, k, v, vector = inputs(K=9, dtype=torch.bfloat16)
    q[:, :, 0], k = 15, k / 4 - 14.5
    assert_as_good_as(fused, plain, q, k, v, vector)


def test_keys_out_of_a_window_get_nothing():
    *_, dk, dv, _ = everything(*inputs(Q=3, K=33), rule=rules.window(2))
    assert (dk[:, :, :28] == 0).all() and (dv[:, :, :28] == 0).all()
    assert (dk[:, :, 28:] != 0).any() and (dv[:, :, 28:] != 0).all()
