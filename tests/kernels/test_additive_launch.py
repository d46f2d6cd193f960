"""How kernels are launched changes nothing: tiles, shares of keys, bands of queries."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels import additive_launch
from regard.kernels.additive_launch import PTX, Problem, Tile, problem
from regard.kernels.seen import Seen
from tests.kernels.calls import everything, fused, inputs

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # of inf, which is meant
    pytest.mark.skipif(PTX, reason="without the interpreter kernels need a card"),
]

# Weights are rounded before values are read, against the largest score so far.
NEAR = {"atol": 2e-2, "rtol": 2e-2}
TILES = [Tile(1, 2, 2, 1), Tile(2, 1, 1, 1), Tile(1, 1, 2, 2)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of 32 queries and 16 keys, and factors packed for calls as small as these."""
    monkeypatch.setattr(Problem, "tile", lambda call: Tile(1, 1, 2, 1))
    monkeypatch.setattr(additive_launch, "MANY", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("Dv", [1, 64, 200, 512])
@pytest.mark.parametrize("Q", [5, 32, 33, 1000])
def test_tiles_have_as_many_rows_as_bands_are_rounded_to(Q, Dv, dtype, monkeypatch):
    monkeypatch.undo()
    q, k, v, vector = inputs(Q=Q, Dv=Dv, dtype=dtype)
    tile = problem(q, k, v, None, vector, Seen(), None).tile()
    # with 16 rows a band's last tile would have no factors
    assert tile.rows % 32 == 0 and tile.WR * tile.WC <= 16
    assert all(n & (n - 1) == 0 for n in tile)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_tile_does_not_matter(dtype, monkeypatch):
    call = inputs(K=17, dtype=dtype)
    expected = fused(*call, rule=rules.window(12))
    for tile in TILES:
        monkeypatch.setattr(Problem, "tile", lambda call, tile=tile: tile)
        near = NEAR if dtype == torch.bfloat16 else {}
        torch.testing.assert_close(fused(*call, rule=rules.window(12)), expected, **near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_few_queries_read_what_tiles_read(dtype, monkeypatch):
    call = inputs(1, 2, 3, 33, 11, Dv=13, groups=1, dtype=dtype)
    few = fused(*call, rule=rules.window(20))
    monkeypatch.setattr(additive_launch, "FEW", 0)
    near = NEAR if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(few, fused(*call, rule=rules.window(20)), **near)


def test_what_few_queries_read_flows_back_though_tiles_weigh_it_again(monkeypatch):
    # scores reach 240, and half precision leaves all of that out: both roads must do so
    q, k, v, vector = inputs(Q=3, K=5, dtype=torch.bfloat16)
    call = q / 8, k / 8, v, torch.full_like(vector, 30)
    few = everything(*call)
    monkeypatch.setattr(additive_launch, "FEW", 0)
    for mine, theirs in zip(few, everything(*call), strict=True):
        torch.testing.assert_close(mine, theirs, atol=5e-2, rtol=5e-2)


@pytest.mark.parametrize(
    "rule",
    [None, rules.window(80), rules.padding(torch.tensor([3]), side="left"), torch.tensor(False)],
    ids=["all", "window", "left padding", "blind"],
)
def test_shares_of_the_keys_make_the_whole(rule, monkeypatch):
    call = inputs(1, 2, 2, 200)
    monkeypatch.setattr(additive_launch, "PROGRAMS", 1)
    whole = fused(*call, rule=rule)
    monkeypatch.setattr(additive_launch, "PROGRAMS", 1024)
    monkeypatch.setattr(additive_launch, "LEAST", 1)
    torch.testing.assert_close(fused(*call, rule=rule), whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_bands_of_queries_make_the_whole(dtype, monkeypatch):
    call = inputs(1, 1, 33, 3, dtype=dtype)
    bands, one_band = [], additive_launch._one_band
    monkeypatch.setattr(additive_launch, "_one_band", lambda *x: bands.append(0) or one_band(*x))
    whole = everything(*call, torch.zeros(33, 3), rule=rules.window(20))
    assert len(bands) == 1
    monkeypatch.setattr(additive_launch, "SCRATCH", 0)
    monkeypatch.setattr(additive_launch, "BOUNDS", (0.0, 0.0))
    parts = everything(*call, torch.zeros(33, 3), rule=rules.window(20))
    assert len(bands) == 1 + 2
    torch.testing.assert_close(parts, whole)
