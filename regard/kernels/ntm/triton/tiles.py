"""What the kernels of a machine share: products with vectors, bends, shifts of a ring."""

import triton
import triton.language as tl


@triton.jit
def matvec_add(
    total, weight_ptr, x_ptr, rows, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr
):
    """`found` (rows,) and on top of it a matrix (ROWS, COLS) times the vector at `x_ptr`."""
    # unrolled, so that the next tile is on its way while this one is multiplied
    for first in tl.static_range(0, COLS, STEP):
        cols = first + tl.arange(0, STEP)
        x = tl.load(x_ptr + cols, mask=cols < COLS, other=0.0)
        there = (rows[:, None] < ROWS) & (cols[None, :] < COLS)
        tile = tl.load(weight_ptr + rows[:, None] * COLS + cols[None, :], mask=there, other=0.0)
        total += tl.sum(tile * x[None, :], 1)
    return total


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit
def softmax(scores, there):
    """The softmax of a vector over what is there; zero elsewhere."""
    scores = tl.where(there, scores, float("-inf"))
    powers = tl.exp(scores - tl.max(scores, 0))
    return powers / tl.sum(powers, 0)


@triton.jit
def softmax_backward(probabilities, grad):
    """What the scores of a softmax gain."""
    return probabilities * (grad - tl.sum(probabilities * grad, 0))


@triton.jit
def inverse_norm(squared):
    """One over a length, given its square; 0 below 1e-15, where a vector has no direction."""
    return tl.where(squared > 1e-30, 1 / tl.sqrt(tl.maximum(squared, 1e-30)), 0.0)


@triton.jit
def softmax_max_and_sum(logits_ptr, s, SHIFTS: tl.constexpr):
    """The greatest of some logits, and the sum of their powers: `exp(x − most) / total` is one."""
    logits = tl.load(logits_ptr + s, mask=s < SHIFTS, other=float("-inf"))
    most = tl.max(logits, 0)
    return most, tl.sum(tl.exp(logits - most), 0)


@triton.jit
def circular_shift(ring_ptr, n, logits_ptr, most, total, N: tl.constexpr, SHIFTS: tl.constexpr):
    """A ring of N numbers, shifted as likely as the logits say: at least the smallest number."""
    found = tl.zeros_like(n).to(tl.float32)
    for j in tl.static_range(SHIFTS):
        share = tl.exp(tl.load(logits_ptr + j) - most) / total
        place = (n - (j - SHIFTS // 2) + N) % N
        found += share * tl.load(ring_ptr + place, mask=n < N, other=0.0)
    return tl.maximum(found, 1.1754943508222875e-38)
