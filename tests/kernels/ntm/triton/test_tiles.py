"""What the kernels of a machine share: each by hand, or as PyTorch says."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard.kernels.ntm.triton.tiles import (
    circular_shift,
    inverse_norm,
    matvec_add,
    softmax,
    softmax_backward,
    softmax_max_and_sum,
    softplus,
    tanh,
)
from tests.kernels.calls import INTERPRETED, QUIET

pytestmark = [QUIET, INTERPRETED]
TINY = torch.finfo(torch.float32).tiny


@triton.jit
def _multiplied(
    to_ptr, from_ptr, weight_ptr, x_ptr, Q: tl.constexpr, K: tl.constexpr, W: tl.constexpr
):
    """A matrix (Q, K) times a vector, W columns at a time, on top of what was there."""
    rows = tl.arange(0, 16)
    found = tl.load(from_ptr + rows, mask=rows < Q, other=0.0)
    found = matvec_add(found, weight_ptr, x_ptr, rows, Q, K, W)
    tl.store(to_ptr + rows, found, mask=rows < Q)


@triton.jit
def _bent(to_ptr, x_ptr):
    """tanh, softplus and one over the root of 8 numbers, one after the other."""
    n = tl.arange(0, 8)
    x = tl.load(x_ptr + n)
    tl.store(to_ptr + n, tanh(x))
    tl.store(to_ptr + 8 + n, softplus(x))
    tl.store(to_ptr + 16 + n, inverse_norm(x))


@triton.jit
def _softmaxed(to_ptr, x_ptr, gained_ptr, N: tl.constexpr):
    """A softmax of N numbers of 8, and what its scores gain."""
    n = tl.arange(0, 8)
    found = softmax(tl.load(x_ptr + n, mask=n < N, other=0.0), n < N)
    gained = tl.load(gained_ptr + n, mask=n < N, other=0.0)
    tl.store(to_ptr + n, found)
    tl.store(to_ptr + 8 + n, softmax_backward(found, gained))


@triton.jit
def _moved(to_ptr, ring_ptr, logits_ptr, N: tl.constexpr, K: tl.constexpr):
    """A ring of N numbers in a tile of 8, shifted as K logits say."""
    n, s = tl.arange(0, 8), tl.arange(0, 8)
    most, total = softmax_max_and_sum(logits_ptr, s, K)
    tl.store(to_ptr + n, circular_shift(ring_ptr, n, logits_ptr, most, total, N, K), mask=n < N)


@pytest.mark.parametrize("step", [4, 16])
def test_a_product_is_that_of_a_matrix_on_top_of_what_was_there(step):
    weight, x, before = torch.randn(11, 13), torch.randn(13), torch.randn(11)
    found = torch.empty(11)
    _multiplied[(1,)](found, before, weight, x, 11, 13, step)
    assert_close(found, before + weight @ x)


def test_bends_are_those_of_pytorch():
    x, found = torch.tensor([-90.0, -3, -0.5, 0, 1e-3, 2, 30, 90]), torch.empty(3, 8)
    _bent[(1,)](found, x)
    assert_close(found[0], x.tanh(), rtol=1e-5, atol=1e-6)
    assert_close(found[1], F.softplus(x))


def test_a_vector_of_zeros_has_no_direction_and_a_short_one_has():
    squares, found = torch.tensor([4.0, 0.25, 1, 1e-6, 1e-20, 1e-32, 0, 100]), torch.empty(3, 8)
    _bent[(1,)](found, squares)
    assert_close(found[2], torch.tensor([0.5, 2, 1, 1e3, 1e10, 0, 0, 0.1]))


@pytest.mark.parametrize("N", [1, 5, 8])
def test_a_softmax_is_that_of_pytorch_over_what_is_there(N):
    x, gained, found = 50 * torch.randn(8), torch.randn(8), torch.empty(2, 8)
    _softmaxed[(1,)](found, x, gained, N)
    leaf = x[:N].requires_grad_()
    weights = leaf.softmax(0)
    (slope,) = torch.autograd.grad(weights, leaf, gained[:N])
    assert_close([found[0, :N], found[1, :N]], [weights, slope])
    assert not found[:, N:].any()


@pytest.mark.parametrize("N", [5, 8])
@pytest.mark.parametrize("by", [-2, -1, 0, 1, 2])
def test_a_ring_is_shifted_round_by_hand(N, by):
    ring, logits, found = torch.arange(1.0, N + 1), torch.full((5,), -200.0), torch.empty(N)
    logits[by + 2] = 0
    _moved[(1,)](found, ring, logits, N, 5)
    assert_close(found, ring.roll(by))


def test_a_shift_is_as_likely_as_its_logit_says():
    ring, logits, found = torch.rand(7), torch.randn(3), torch.empty(7)
    _moved[(1,)](found, ring, logits, 7, 3)
    likely = logits.softmax(0)
    assert_close(found, sum(likely[j] * ring.roll(j - 1) for j in range(3)))


def test_what_is_shifted_is_never_nothing():
    found = torch.empty(5)
    _moved[(1,)](found, torch.zeros(5), torch.zeros(3), 5, 3)
    assert (found == TINY).all()
