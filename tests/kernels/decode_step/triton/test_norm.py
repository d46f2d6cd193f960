"""One launch gives what a sum and a norm give."""

import pytest
import torch
from torch import nn

pytest.importorskip("triton")

from regard.kernels.decode_step.triton import norm as kernels
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
        total, out = kernels.add_norm(x, y, norm, keep_sum=True)
    assert total.tolist() == [[2.0, 6.0]] and out.tolist() == [[-0.5, 1.0]]


@EACH
@KEPT
@pytest.mark.parametrize(("B", "E"), [(1, 1), (3, 24), (5, 64)])
@torch.no_grad()
def test_one_launch_gives_what_a_sum_and_a_norm_give(B, E, kept, dtype):
    x, y, norm = torch.randn(B, E).to(dtype), torch.randn(B, E).to(dtype), normed(E, dtype)
    total, out = kernels.add_norm(x, y, norm, keep_sum=kept)
    assert_near(out, norm(x + y))
    assert_near(total, x + y if kept else norm(x + y))
