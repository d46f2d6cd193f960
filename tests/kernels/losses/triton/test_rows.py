"""Losses of whole rows in one launch are those of PyTorch, and so are their gradients."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.functional import losses as plain
from regard.kernels.losses import api as loss_kernel
from tests.kernels.calls import INTERPRETED, QUIET

pytestmark = [QUIET, INTERPRETED]
# One that fits into a block, one that fills it, and some that do not.
each_size = pytest.mark.parametrize("V", [5, 32, 33, 100])
each_dtype = pytest.mark.parametrize(
    ("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)]
)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(loss_kernel, "DEVICES", ("cpu",))
    monkeypatch.setattr(loss_kernel, "BLOCK_LOGITS", 32)


def logits(V, dtype=torch.float32, seed=0):
    drawn = torch.randn(2, 3, V, generator=torch.Generator().manual_seed(seed)) * 3
    return drawn.to(dtype).requires_grad_()


def targets(V):
    return torch.randint(V, (2, 3), generator=torch.Generator().manual_seed(1))


def learnt(loss, *given):
    """What a loss gives, and the gradients if its rows are wanted more or less."""
    found = loss(*given)
    return found, torch.autograd.grad((found * torch.arange(1.0, 7).view(2, 3)).sum(), given)


def assert_alike(ours, theirs, most):
    assert ours[0].dtype == theirs[0].dtype == torch.float32
    assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-5)
    assert_close(ours[1], theirs[1], rtol=most, atol=most)


@each_size
@each_dtype
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_that_of_pytorch(V, dtype, most, smoothing):
    x, at = logits(V, dtype), targets(V)
    ours = learnt(lambda x: loss_kernel.cross_entropy(x, at, smoothing=smoothing), x)
    theirs = learnt(lambda x: plain.cross_entropy(x, at, smoothing=smoothing), x)
    assert_alike(ours, theirs, most)


@each_size
@each_dtype
def test_divergence_is_that_of_its_twin(V, dtype, most):
    a, b = logits(V, dtype), logits(V, dtype, seed=2)
    assert_alike(learnt(loss_kernel.divergence, a, b), learnt(plain.symmetric_kl, a, b), most)


def test_halves_of_one_tensor_learn_like_two():
    both = logits(33)
    ours = learnt(lambda x: loss_kernel.divergence(*x.repeat(2, 1, 1).sin().chunk(2)), both)
    theirs = learnt(lambda x: plain.symmetric_kl(*x.repeat(2, 1, 1).sin().chunk(2)), both)
    assert_alike(ours, theirs, 1e-5)


def test_a_target_that_asks_for_nothing_costs_and_teaches_nothing():
    x, at = logits(33), targets(33)
    at[0, 1] = -100
    found, (slope,) = learnt(lambda x: loss_kernel.cross_entropy(x, at), x)
    assert found[0, 1] == 0 and not slope[0, 1].any()
    assert_close(found, plain.cross_entropy(x, at))


def test_a_target_that_is_no_word_shows():
    at = targets(33)
    at[1, 2] = 33
    found = loss_kernel.cross_entropy(logits(33), at)
    assert found[1, 2].isnan() and found.isfinite().sum() == 5


def test_words_that_are_forbidden_weigh_nothing():
    x, at = logits(33).detach(), torch.zeros(2, 3, dtype=torch.long)
    x[..., 20:] = -torch.inf
    x.requires_grad_()
    ours = learnt(lambda x: loss_kernel.cross_entropy(x, at), x)
    theirs = learnt(lambda x: plain.cross_entropy(x, at), x)
    assert_alike(ours, theirs, 1e-5)
