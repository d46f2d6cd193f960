"""The scores of a tile: tanh to its last digits, and both forms the same."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard.kernels.additive_cores import in_words
from regard.kernels.additive_launch import _factors
from regard.kernels.additive_plan import planned
from regard.kernels.additive_scores import bent, plainly
from regard.kernels.seen import Seen
from tests.kernels.calls import INTERPRETED, QUIET, inputs, plain_scores, small

pytestmark = [QUIET, INTERPRETED]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


@triton.jit
def _bend(x_ptr, to_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(to_ptr + at, bent(x, True, False))
    tl.store(to_ptr + N + at, bent(x, False, False))


@triton.jit
def _both_forms(q_ptr, k_ptr, vector_ptr, factors, to_ptr, groups, D, pairs: tl.constexpr):
    row, col = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    to = to_ptr + row * 16 + col
    tl.store(to, -2 * in_words(factors[0], factors[1], factors[2], groups, row, col, pairs))
    q_ptr, k_ptr = q_ptr + row * D, k_ptr + col * D
    tl.store(to + 256, plainly(q_ptr, k_ptr, vector_ptr, D, False, False, False))
    tl.store(to + 512, plainly(q_ptr, k_ptr, vector_ptr, D, True, False, False))


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


# eleven bits a factor, and two bfloat16 a factor; the interpreter cuts the latter, and loses a bit
@pytest.mark.parametrize("dtype, near", [(torch.bfloat16, 2**-9), (torch.float16, 2**-14)], ids=str)
@pytest.mark.parametrize("D", [1, 11])
@pytest.mark.parametrize("scale", [0.3, 5.0])
def test_products_of_exponentials_give_the_scores_of_tanh(scale, D, dtype, near):
    q, k, v, vector = inputs(Q=16, K=16, D=D, dtype=dtype)
    q, k = scale * q, scale * k
    of, plan = planned(q, k, v, None, vector, Seen(), None)
    u, w = (_factors(of, plan, x, 16, x is q) for x in (q, k))
    to = torch.empty(3, 16, 16)
    _both_forms[(1,)](
        q, k, vector, (u.words, w.words, u.beta), to, plan.groups, D, dtype == torch.float16
    )
    exact = plain_scores(q.double(), k.double(), vector.double())[0, 0]
    # all but the exact form leave the sum of the vector out
    to[:2] += vector.float().sum()
    size = vector.double().abs().sum().item()
    for found, digits in zip(to.double(), (near, 2**-20, 2**-21), strict=True):
        torch.testing.assert_close(found, exact, atol=digits * size, rtol=0)
