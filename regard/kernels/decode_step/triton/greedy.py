"""The likeliest token of each row, and what greedy decoding writes down of it, in one launch.

The twin is the plain half of `regard.decode.greedy_and_sample`: `argmax`, `log_softmax` at its
place, and both put behind the tokens so far. Sums are float32. A program has one row.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch

# How many numbers of a row a program has at a time.
BLOCK_LOGITS = 4096


@triton.jit
def _argmax_and_log_prob(logits_ptr, V, BV: tl.constexpr):
    """Where the largest number of a row stands, the first of equals, and its log-probability.

    A NaN stands above all, as it does in PyTorch.
    """
    most = tl.full([BV], -float("inf"), tl.float32)
    place, total = tl.zeros([BV], tl.int32), tl.zeros([BV], tl.float32)
    for start in range(0, V, BV):
        j = start + tl.arange(0, BV)
        x = tl.load(logits_ptr + j, mask=j < V, other=-float("inf")).to(tl.float32)
        larger = (x > most) | ((x != x) & (most == most))
        before = most
        place, most = tl.where(larger, j, place), tl.where(larger, x, most)
        base = tl.where(most == -float("inf"), 0.0, most)
        total = total * tl.exp(before - base) + tl.exp(x - base)
    nan = most != most
    lost = tl.max(nan.to(tl.int32), 0)
    rank = tl.where(nan, float("inf"), most)
    best = tl.max(rank, 0)
    chosen = (rank == best) & (nan | (lost == 0))
    token = tl.min(tl.where(chosen, place, 2147483647), 0)
    base = tl.where(best == -float("inf"), 0.0, best)
    gain = -tl.log(tl.sum(tl.exp(rank - base) * total, 0))
    # a row with NaN or +inf in it, or nothing but −inf, has no softmax
    no_softmax = (best == float("inf")) | (best == -float("inf"))
    return token, tl.where(no_softmax, float("nan"), gain)


# fmt: off
@triton.jit
def _append_greedy_token_kernel(
    logits_ptr, tokens_ptr, done_ptr, step_ptr, history_ptr, log_probs_ptr, limits_ptr,
    V, T, end, row_stride, limits_stride, BV: tl.constexpr, CHAINED: tl.constexpr,
):
    """Write one token more, or the end where a row is done."""
    # fmt: on
    row = tl.program_id(0).to(tl.int64)
    wait_for_previous_launch(CHAINED)
    token, gain = _argmax_and_log_prob(logits_ptr + row * row_stride, V, BV)
    done, step = tl.load(done_ptr + row).to(tl.int32), tl.load(step_ptr + row)
    token, gain = tl.where(done != 0, end, token).to(tl.int64), tl.where(done != 0, 0.0, gain)
    if step < T:  # a history that is full stays as it is
        tl.store(history_ptr + row * T + step, token)
        tl.store(log_probs_ptr + row * T + step, gain)
    over = (token == end) | (tl.load(limits_ptr + row * limits_stride) <= step + 1)
    tl.store(tokens_ptr + row, token)
    tl.store(done_ptr + row, over.to(tl.int8))
    tl.store(step_ptr + row, step + 1)


def append_greedy_token(
    logits: Tensor,
    tokens: Tensor,
    *,
    done: Tensor,
    step: Tensor,
    history: Tensor,
    log_probs: Tensor,
    limits: Tensor,
    end: int,
) -> None:
    """Take the likeliest token by logits (B, V); all else is changed in place, but the limits.

    Args:
        logits: of what follows, each row without gaps.
        tokens: the last of each row (B,).
        done: which rows have ended (B,).
        step: how many tokens each has (B,).
        history: those tokens, and the end behind them (B, T), without gaps.
        log_probs: their log-probabilities (B, T), without gaps.
        limits: the most tokens of each row (B,).
        end: the token that ends a row.
    """
    (B, V), T = logits.shape, history.shape[1]
    BV = min(BLOCK_LOGITS, triton.next_power_of_2(V))
    with torch.cuda.device_of(logits):
        _append_greedy_token_kernel[(B,)](
            logits, tokens, done.view(torch.int8), step, history, log_probs, limits,
            V, T, end, logits.stride(0), limits.stride(0), BV=BV, num_warps=8,
            **chain.launch_options(logits),
        )  # fmt: skip
    # torch did not see it: who counts what is written is told
    torch.autograd.graph.increment_version((tokens, done, step, history, log_probs))
