"""One launch gives what a sum and a norm give, and the product before them."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from regard.kernels import one_query_norm as kernels
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED

FULL, HALF, HALF16 = torch.float32, torch.bfloat16, torch.float16
EACH = pytest.mark.parametrize("dtype", [FULL, HALF, HALF16], ids=str)
KEPT = pytest.mark.parametrize("kept", [True, False])
NEAR = {FULL: 2e-6, HALF: 4e-2, HALF16: 5e-3}


def normed(E, dtype):
    norm = nn.LayerNorm(E)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm.to(dtype)


def assert_near(found, expected):
    near = NEAR[found.dtype]
    torch.testing.assert_close(found, expected, atol=near, rtol=near)


def test_a_row_by_hand():
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 4.0]])
    norm = nn.LayerNorm(2, eps=0.0)
    with torch.no_grad():
        norm.bias.copy_(torch.tensor([0.5, 0.0]))
        total, out = kernels.added(x, y, norm, kept=True)
    assert total.tolist() == [[2.0, 6.0]] and out.tolist() == [[-0.5, 1.0]]


@EACH
@KEPT
@pytest.mark.parametrize(("B", "E"), [(1, 1), (3, 24), (5, 64)])
@torch.no_grad()
def test_one_launch_gives_what_a_sum_and_a_norm_give(B, E, kept, dtype):
    x, y, norm = torch.randn(B, E).to(dtype), torch.randn(B, E).to(dtype), normed(E, dtype)
    total, out = kernels.added(x, y, norm, kept=kept)
    assert_near(out, norm(x + y))
    assert_near(total, x + y if kept else norm(x + y))


@EACH
@KEPT
@pytest.mark.parametrize(("B", "K", "E"), [(1, 16, 16), (3, 40, 24), (17, 20, 33)])
@torch.no_grad()
def test_one_launch_gives_what_a_product_a_sum_and_a_norm_give(B, K, E, kept, dtype):
    x, y, norm = torch.randn(B, E).to(dtype), torch.randn(B, K).to(dtype), normed(E, dtype)
    linear = nn.Linear(K, E, bias=kept).to(dtype)
    total, out = kernels.projected(x, y, linear, norm, kept=kept)
    assert_near(out, norm(x + linear(y)))
    assert_near(total, x + linear(y) if kept else norm(x + linear(y)))


@pytest.mark.parametrize("most", [0, 1 << 17])
@torch.no_grad()
def test_whether_the_product_is_inside_does_not_matter(most, monkeypatch):
    x, y, norm = torch.randn(3, 24).to(HALF), torch.randn(3, 40).to(HALF), normed(24, HALF)
    linear = nn.Linear(40, 24).to(HALF)
    monkeypatch.setattr(kernels, "FEW", most)
    exact = [m.float() for m in (linear, norm)]
    expected = exact[1](x.float() + exact[0](y.float()))
    linear, norm = linear.to(HALF), norm.to(HALF)
    assert_near(kernels.projected(x, y, linear, norm, kept=False)[1], expected.to(HALF))


@torch.no_grad()
def test_how_many_weights_it_holds_at_a_time_does_not_matter(monkeypatch):
    x, y, norm = torch.randn(3, 24).to(HALF), torch.randn(3, 100).to(HALF), normed(24, HALF)
    linear = nn.Linear(100, 24).to(HALF)
    whole = kernels.projected(x, y, linear, norm, kept=True)
    monkeypatch.setattr(kernels, "NUMBERS", 512)
    for found, expected in zip(
        kernels.projected(x, y, linear, norm, kept=True), whole, strict=True
    ):
        assert_near(found, expected)
