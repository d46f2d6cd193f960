"""Who takes which way to a loss."""

import pytest
import torch
from torch.testing import assert_close

from regard.functional import losses as plain
from regard.kernels.losses import api as loss_kernel

V = 7


def drawn(seed=0):
    return torch.randn(2, 3, V, generator=torch.Generator().manual_seed(seed))


def test_off_a_card_they_are_their_twins():
    a, b, at = drawn(), drawn(1), torch.ones(2, 3, dtype=torch.long)
    expected = plain.cross_entropy(a, at, smoothing=0.1)
    assert torch.equal(loss_kernel.cross_entropy(a, at, smoothing=0.1), expected)
    assert torch.equal(loss_kernel.divergence(a, b), plain.symmetric_kl(a, b))


def test_transforms_see_what_is_done(monkeypatch):
    # were the kernels taken, the transform would refuse them
    monkeypatch.setattr(loss_kernel, "DEVICES", ("cpu",))
    a, b = drawn(), drawn(1)
    slope = torch.func.grad(lambda x: loss_kernel.divergence(x, b).sum())
    expected = torch.func.grad(lambda x: plain.symmetric_kl(x, b).sum())
    assert_close(slope(a), expected(a))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_a_card_they_give_and_teach_what_their_twins_do(dtype):
    a, b = (torch.randn(4, 5, 10_003, device="cuda").to(dtype).requires_grad_() for _ in "ab")
    at = torch.randint(10_003, (4, 5), device="cuda")

    def learnt(of):
        loss = of.cross_entropy(a, at, smoothing=0.1) + 3 * of.divergence(a, b)
        return loss, torch.autograd.grad(loss.sum(), [a, b])

    most = 1e-4 if dtype == torch.float32 else 2e-2
    assert_close(learnt(loss_kernel), learnt(plain), rtol=most, atol=most)
