"""One launch gives what a product gives, and a ReLU behind it."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from regard.kernels.decode_step.triton import linear as kernels
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED

FULL, HALF, HALF16 = torch.float32, torch.bfloat16, torch.float16
EACH = pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
NEAR = {FULL: 2e-6, HALF: 2e-2, HALF16: 3e-3}


def exact(linear, x):
    """What a product gives that is rounded once."""
    bias = None if linear.bias is None else linear.bias.double()
    return nn.functional.linear(x.double(), linear.weight.double(), bias)


def assert_near(found, expected):
    near = NEAR[found.dtype]
    torch.testing.assert_close(found, expected.to(found.dtype), atol=near, rtol=near)


@torch.no_grad()
def test_a_row_by_hand():
    x, weight = torch.tensor([[1.0, 2.0]]).bfloat16(), torch.tensor([[3.0, 4.0], [-5.0, 1.0]])
    bias = torch.tensor([0.5, 1.0]).bfloat16()
    assert kernels.linear(x, weight.bfloat16(), bias).tolist() == [[11.5, -2.0]]
    assert kernels.linear(x, weight.bfloat16(), bias, relu=True).tolist() == [[11.5, 0.0]]


@EACH
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(
    ("B", "K", "N"), [(1, 1, 1), (3, 40, 70), (17, 600, 33), (70, 16, 32), (5, 512, 64)]
)
@torch.no_grad()
def test_one_launch_gives_what_a_product_gives(B, K, N, relu, dtype):
    linear, x = nn.Linear(K, N, bias=relu).to(dtype), torch.randn(B, K).to(dtype)
    expected = exact(linear, x)
    found = kernels.linear(x, linear.weight, linear.bias, relu=relu)
    assert found.dtype == dtype and found.is_contiguous()
    assert_near(found, expected.relu() if relu else expected)


@torch.no_grad()
def test_rows_may_lie_apart():
    linear, x = nn.Linear(24, 8).to(HALF), torch.randn(6, 3, 24).to(HALF)
    found = kernels.linear(x[:, 1], linear.weight, linear.bias)
    assert_near(found, exact(linear, x[:, 1]))


@torch.no_grad()
def test_what_lies_otherwise_is_left_to_pytorch(monkeypatch):
    monkeypatch.setattr(kernels, "_linear_kernel", None)
    linear = nn.Linear(8, 8)
    for x, weight in [
        (torch.randn(8, 4).to(HALF).T, linear.weight.to(HALF)),
        (torch.randn(4, 8).to(HALF), linear.weight.to(HALF).T),
        (torch.randn(4, 8), linear.weight),
        (torch.randn(kernels.MAX_ROWS + 1, 8).to(HALF), linear.weight.to(HALF)),
    ]:
        found = kernels.linear(x, weight, None)
        assert_near(found, x.double() @ weight.double().T)
