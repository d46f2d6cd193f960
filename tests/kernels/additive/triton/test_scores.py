"""The scores of a tile: tanh to its last digits."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard.kernels.additive.triton.scores import shifted_tanh
from tests.kernels.calls import INTERPRETED, QUIET, small

pytestmark = [QUIET, INTERPRETED]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


@triton.jit
def _bend(x_ptr, to_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(to_ptr + at, shifted_tanh(x, True, False))
    tl.store(to_ptr + N + at, shifted_tanh(x, False, False))


def bend(x):
    """tanh to the last digit, and tanh less one as half precision takes it."""
    to = torch.empty(2, len(x))
    _bend[(1,)](x, to, len(x))
    return to


def ulps(found, exact):
    """How far off, in units of the last place of what is right in float32."""
    exact32 = exact.float()
    unit = torch.nextafter(exact32.abs(), torch.tensor(torch.inf)) - exact32.abs()
    return ((found.double() - exact).abs() / unit.double()).max()


def test_tanh_by_hand():
    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-30, -1e-30, 40.0])
    found = bend(x)[0]
    assert found[4].isnan()
    assert found[[0, 1, 2, 3, 5, 6, 7]].tolist() == [0, 0, 1, -1, *x[5:7].tolist(), 1]


@pytest.mark.parametrize("most", [40.0, 4.0, 0.6, 1e-3, 1e-20])
def test_tanh_is_right_to_two_units_in_the_last_place(most):
    x = torch.linspace(-most, most, 4096)
    assert ulps(bend(x)[0], x.double().tanh()) <= 2.5


def test_what_half_precision_takes_is_tanh_less_one_to_a_ten_millionth():
    x = torch.linspace(-40, 40, 4096)
    exact = x.double().tanh() - 1
    torch.testing.assert_close(bend(x)[1].double(), exact, atol=2e-7, rtol=0)
