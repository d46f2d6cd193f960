"""The backward: a row's gradients sum to zero, and nothing flows where nothing was seen."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from tests.kernels.calls import INTERPRETED, QUIET, everything, fused, inputs, plain, small

pytestmark = [QUIET, INTERPRETED]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


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


def test_keys_out_of_a_window_get_nothing():
    *_, dk, dv, _ = everything(*inputs(Q=3, K=33), rule=rules.window(2))
    assert (dk[:, :, :28] == 0).all() and (dv[:, :, :28] == 0).all()
    assert (dk[:, :, 28:] != 0).any() and (dv[:, :, 28:] != 0).all()


def test_queries_before_the_first_key_read_nothing_and_get_nothing():
    call = [x.requires_grad_() for x in inputs(Q=40, K=5)]
    found = everything(*call, rule=rules.causal)
    assert all((x[:, :, :35] == 0).all() for x in found[:2])
    assert (found[0][:, :, 35:] != 0).all()
    out = plain(*call, rule=rules.causal)
    torch.testing.assert_close(found[0], out)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(found[1:], list(torch.autograd.grad(out, call, direction)))
