"""The forward adds up tile by tile what a softmax over all keys gives at once."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from tests.kernels.calls import INTERPRETED, QUIET, change, fused, inputs, plain, small

pytestmark = [QUIET, INTERPRETED]


@pytest.fixture(autouse=True, params=["tiles", "decoding"])
def road(request, monkeypatch):
    """Every law holds in tiles of 16 keys, and in shares of 64 for each query alone."""
    with small(monkeypatch):
        if request.param == "tiles":
            change(monkeypatch, DECODE_MAX_QUERIES=0)
        else:
            change(monkeypatch, DECODE_MAX_QUERIES=99, DECODE_MIN_KEYS=1)
        yield


@pytest.mark.parametrize("end", [2, -2], ids=["last", "first"])
def test_the_largest_score_may_come_first_or_last(end):
    q, k, v, vector = inputs(Q=2, K=70)
    k = torch.linspace(-end, end, 70)[:, None].expand(1, 1, 70, 8)
    call = 0.1 * q, k, v, 20 * vector.abs()
    torch.testing.assert_close(fused(*call), plain(*call), atol=1e-5, rtol=1e-4)


def test_what_is_read_is_a_mean_of_the_values():
    q, k, v, vector = inputs(2, 2, 2, 70)
    ones = fused(q, k, torch.ones_like(v), vector)
    torch.testing.assert_close(ones, torch.ones_like(ones))


def test_keys_nobody_sees_may_come_before_the_first_that_is_seen():
    call, mask = inputs(Q=2, K=70), torch.arange(70) >= 66
    torch.testing.assert_close(fused(*call, rule=mask), plain(*call, rule=mask))


def test_rows_of_a_tile_may_be_blind_alone():
    call, mask = inputs(Q=2, K=70), torch.tensor([[False], [True]]).expand(2, 70)
    out = fused(*call, rule=mask)
    assert (out[:, :, 0] == 0).all()
    torch.testing.assert_close(out, plain(*call, rule=mask))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf], ids=str)
def test_a_value_of_no_weight_may_be_anything(poison):
    q, k, v, vector = inputs(Q=2, K=70)
    rule = rules.both(rules.causal, rules.padding(torch.tensor([65])))
    clean = fused(q, k, v, vector, rule=rule)
    k[:, :, 65:], v[:, :, 65:] = poison, poison
    assert torch.equal(fused(q, k, v, vector, rule=rule), clean)


def test_nan_that_is_seen_shows():
    q, k, v, vector = inputs(Q=2, K=20)
    k[:, :, 3] = torch.nan
    assert fused(q, k, v, vector).isnan().all()


@pytest.mark.parametrize("Dv", [1, 13, 33])
def test_values_of_any_width_are_read_whole(Dv):
    call = inputs(Q=2, K=20, Dv=Dv)
    torch.testing.assert_close(fused(*call), plain(*call))
