"""Losses of predictions over many words, a row of logits at a time: nothing as large is formed.

The twins are in `regard.functional.losses`. Forward reads the logits and leaves a few numbers a
row; backward reads them again and writes their gradient.
"""

import triton
import triton.language as tl

# The target that asks for nothing, as in PyTorch.
IGNORE_INDEX = tl.constexpr(-100)


@triton.jit
def _load_logits(ptr, start, V, BLOCK: tl.constexpr):
    """Logits from `start` on, and −inf behind the last; which of them there are."""
    j = start + tl.arange(0, BLOCK)
    return j, tl.load(ptr + j, mask=j < V, other=-float("inf")).to(tl.float32)


@triton.jit
def _log_sum_exp_and_sum(ptr, V, BLOCK: tl.constexpr):
    """The log of the sum of exponentials of a row, and the sum of the row."""
    top, total = -float("inf"), 0.0
    plain = tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        j, x = _load_logits(ptr, start, V, BLOCK)
        new = tl.maximum(top, tl.max(x, 0))
        # a row that forbids everything has the peak −inf: anything finite does instead
        peak = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - peak) + tl.sum(tl.exp(x - peak), 0)
        plain += tl.where(j < V, x, 0.0)
        top = new
    return top + tl.log(total), tl.sum(plain, 0)


@triton.jit
def cross_entropy_fwd_kernel(
    x_ptr, target_ptr, loss_ptr, lse_ptr, V, smoothing, SMOOTH: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """`−log p(target)` of a row (N, V), some of it spread if SMOOTH; and the log-sum-exp."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * V
    lse, plain = _log_sum_exp_and_sum(x_ptr, V, BLOCK)
    target = tl.load(target_ptr + row)
    known = (target >= 0) & (target < V)
    chosen = tl.load(x_ptr + target, mask=known, other=float("nan")).to(tl.float32)
    loss = lse - chosen
    if SMOOTH:
        loss = (1 - smoothing) * loss + smoothing * (lse - plain / V)
    tl.store(loss_ptr + row, tl.where(target == IGNORE_INDEX, 0.0, loss))
    tl.store(lse_ptr + row, lse)


@triton.jit
def cross_entropy_bwd_kernel(
    dloss_ptr, x_ptr, target_ptr, lse_ptr, dx_ptr, V, smoothing, BLOCK: tl.constexpr
):  # fmt: skip
    """The gradient of the logits: p less what was to be found."""
    row = tl.program_id(0).to(tl.int64)
    target, lse = tl.load(target_ptr + row), tl.load(lse_ptr + row)
    gained = tl.where(target == IGNORE_INDEX, 0.0, tl.load(dloss_ptr + row))
    for start in range(0, V, BLOCK):
        j, x = _load_logits(x_ptr + row * V, start, V, BLOCK)
        wanted = tl.where(j == target, 1 - smoothing, 0.0) + smoothing / V
        dx = gained * (tl.exp(x - lse) - wanted)
        tl.store(dx_ptr + row * V + j, dx.to(dx_ptr.dtype.element_ty), mask=j < V)


@triton.jit
def divergence_fwd_kernel(a_ptr, b_ptr, out_ptr, sums_ptr, V, BLOCK: tl.constexpr):
    """The mean of KL(p‖q) and KL(q‖p) of two rows, and what its backward needs of them.

    That is (N, 4): both log-sum-exps, and the means of log p − log q by p and by q.
    """
    row = tl.program_id(0).to(tl.int64)
    a_ptr += row * V
    b_ptr += row * V
    of_a, _ = _log_sum_exp_and_sum(a_ptr, V, BLOCK)
    of_b, _ = _log_sum_exp_and_sum(b_ptr, V, BLOCK)
    by_p, by_q = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    apart = tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        j, a = _load_logits(a_ptr, start, V, BLOCK)
        j, b = _load_logits(b_ptr, start, V, BLOCK)
        a, b = a - of_a, b - of_b
        less = tl.where(j < V, a - b, 0.0)
        p, q = tl.exp(a), tl.exp(b)
        by_p += p * less
        by_q += q * less
        apart += (p - q) * less
    tl.store(out_ptr + row, tl.sum(apart, 0) / 2)
    sums_ptr += row * 4
    tl.store(sums_ptr, of_a)
    tl.store(sums_ptr + 1, of_b)
    tl.store(sums_ptr + 2, tl.sum(by_p, 0))
    tl.store(sums_ptr + 3, tl.sum(by_q, 0))


@triton.jit
def divergence_bwd_kernel(
    dout_ptr, a_ptr, b_ptr, sums_ptr, da_ptr, db_ptr, V, BLOCK: tl.constexpr
):  # fmt: skip
    """The gradients of both rows: p − q + p (d − E_p d) and q − p − q (d − E_q d), halved."""
    row = tl.program_id(0).to(tl.int64)
    half = tl.load(dout_ptr + row) / 2
    sums_ptr += row * 4
    of_a, of_b = tl.load(sums_ptr), tl.load(sums_ptr + 1)
    by_p, by_q = tl.load(sums_ptr + 2), tl.load(sums_ptr + 3)
    for start in range(0, V, BLOCK):
        j, a = _load_logits(a_ptr + row * V, start, V, BLOCK)
        j, b = _load_logits(b_ptr + row * V, start, V, BLOCK)
        a, b = a - of_a, b - of_b
        less, p, q = a - b, tl.exp(a), tl.exp(b)
        da = half * (p - q + p * (less - by_p))
        db = half * (q - p - q * (less - by_q))
        tl.store(da_ptr + row * V + j, da.to(da_ptr.dtype.element_ty), mask=j < V)
        tl.store(db_ptr + row * V + j, db.to(db_ptr.dtype.element_ty), mask=j < V)
