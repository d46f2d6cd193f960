"""Through tanh: both forms of its derivative are one, and shared keys gather from all heads."""

import pytest
import torch

pytest.importorskip("triton")

from tests.kernels.calls import INTERPRETED, QUIET, change, everything, fused, inputs, plain, small
from tests.oracle import assert_as_good_as

pytestmark = [QUIET, INTERPRETED]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


def test_gradients_of_shared_keys_are_the_sum_over_their_heads():
    q, k, v, vector = inputs(1, 2, groups=1)
    _, _, dk, dv, _ = everything(q, k, v, vector)
    _, _, each_dk, each_dv, _ = everything(q, k.expand(1, 2, 7, 8), v.expand(1, 2, 7, 8), vector)
    torch.testing.assert_close(dk, each_dk.sum(1, keepdim=True))
    torch.testing.assert_close(dv, each_dv.sum(1, keepdim=True))


@pytest.mark.parametrize(
    ("Q", "which"),
    [
        (5, "key"),
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
    change(monkeypatch, DECODE_MAX_QUERIES=few)
    q, k, v, vector = inputs(K=9, dtype=torch.bfloat16)
    q[:, :, 0], k = 15, k / 4 - 14.5
    assert_as_good_as(fused, plain, q, k, v, vector)


def test_a_blind_query_and_a_hidden_key_may_be_infinitely_far_apart():
    q, k, v, vector = inputs()
    q[:, :, 2], k[:, :, 3] = torch.inf, -torch.inf
    mask = (torch.arange(5) != 2)[:, None] & (torch.arange(7) != 3)
    assert all(x.isfinite().all() for x in everything(q, k, v, vector, rule=mask))


@pytest.mark.parametrize("D", [1, 33])
def test_dimensions_that_fill_no_warp_have_their_gradients(D):
    call = inputs(Q=5, K=3, D=D)
    assert_as_good_as(fused, plain, *call, slack=4.0)
