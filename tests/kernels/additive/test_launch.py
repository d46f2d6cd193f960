"""How kernels are launched changes nothing: tiles, shares of keys, bands of queries."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels.additive import launch as additive_launch
from regard.kernels.additive.plan import Tile
from tests.kernels.calls import INTERPRETED, QUIET, change, everything, fused, inputs, small

pytestmark = [QUIET, INTERPRETED]

# Weights are rounded before values are read, against the largest score so far.
NEAR = {"atol": 2e-2, "rtol": 2e-2}
TILES = [Tile(1, 2, 2, 1), Tile(2, 1, 1, 1), Tile(1, 1, 2, 2)]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_tile_does_not_matter(dtype, monkeypatch):
    call = inputs(K=17, dtype=dtype)
    expected = fused(*call, rule=rules.window(12))
    near = NEAR if dtype == torch.bfloat16 else {}
    for tile in TILES:
        change(monkeypatch, tile=tile)
        torch.testing.assert_close(fused(*call, rule=rules.window(12)), expected, **near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_few_queries_read_what_tiles_read(dtype, monkeypatch):
    call = inputs(1, 2, 3, 33, 11, Dv=13, groups=1, dtype=dtype)
    few = fused(*call, rule=rules.window(20))
    change(monkeypatch, DECODE_MAX_QUERIES=0)
    near = NEAR if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(few, fused(*call, rule=rules.window(20)), **near)


def test_what_few_queries_read_flows_back_though_tiles_weigh_it_again(monkeypatch):
    # scores reach 240, and half precision leaves all of that out: both roads must do so
    q, k, v, vector = inputs(Q=3, K=5, dtype=torch.bfloat16)
    call = q / 8, k / 8, v, torch.full_like(vector, 30)
    few = everything(*call)
    change(monkeypatch, DECODE_MAX_QUERIES=0)
    for mine, theirs in zip(few, everything(*call), strict=True):
        torch.testing.assert_close(mine, theirs, atol=5e-2, rtol=5e-2)


@pytest.mark.parametrize(
    "rule",
    [None, rules.window(80), rules.padding(torch.tensor([3]), side="left"), torch.tensor(False)],
    ids=["all", "window", "left padding", "blind"],
)
def test_shares_of_the_keys_make_the_whole(rule, monkeypatch):
    call = inputs(1, 2, 2, 200)
    change(monkeypatch, DECODE_PROGRAMS=1)
    whole = fused(*call, rule=rule)
    change(monkeypatch, DECODE_PROGRAMS=1024, DECODE_MIN_KEYS=1)
    torch.testing.assert_close(fused(*call, rule=rule), whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_bands_of_queries_make_the_whole(dtype, monkeypatch):
    call = *inputs(Q=33, K=3, dtype=dtype), torch.zeros(33, 3)
    bands, one_band = [], additive_launch._launch_backward_band
    change(monkeypatch, _launch_backward_band=lambda *x: bands.append(0) or one_band(*x))
    whole = everything(*call, rule=rules.window(20))
    assert len(bands) == 1
    change(monkeypatch, SCRATCH_MIN_BYTES=0, SCRATCH_RATIO_BOUNDS=(0.0, 0.0))
    parts = everything(*call, rule=rules.window(20))
    assert len(bands) == 1 + 2
    torch.testing.assert_close(parts, whole)
