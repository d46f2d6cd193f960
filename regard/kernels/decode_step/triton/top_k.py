"""The largest logits of each row and their log-probabilities, in one launch.

The twin is what beam search does without it: `topk`, and `log_softmax` at its places. Sums are
float32. A program has one row, which it reads twice; whatever comes after that is in its caches.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch

# How many numbers of a row a program has at a time, and into how many lanes it deals them.
BLOCK_LOGITS, NUM_LANES = 4096, 256
# Less than any key.
LOWEST_KEY = tl.constexpr(-(2**63))


@triton.jit
def sort_key(x, index):
    """A whole number for each float32 at its place, in the order in which they are to be found.

    The larger has the larger key, and of equals the first. A NaN stands above all, as in PyTorch.
    """
    bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)  # the zeros are equals, too
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    bits = tl.where(x != x, 0x7FFFFFFF, bits)
    return (bits.to(tl.int64) << 32) | (0x7FFFFFFF - index)


@triton.jit
def value_from_key(key):
    """The number that a key was made of."""
    bits = (key >> 32).to(tl.int32)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)


@triton.jit
def index_from_key(key):
    """The place that a key was made of."""
    return 0x7FFFFFFF - (key & 0x7FFFFFFF)


@triton.jit
def _load_sort_keys(logits_ptr, j, V):
    """The keys of the logits at places `j`."""
    x = tl.load(logits_ptr + j, mask=j < V, other=-float("inf")).to(tl.float32)
    return tl.where(j < V, sort_key(x, j), LOWEST_KEY)


@triton.jit
def _lane_maxima(logits_ptr, V, BV: tl.constexpr, L: tl.constexpr):
    """The largest key of each lane; place j of the row is in lane j mod L."""
    keys = tl.full([BV], LOWEST_KEY, tl.int64)
    for start in range(0, V, BV):
        keys = tl.maximum(keys, _load_sort_keys(logits_ptr, start + tl.arange(0, BV), V))
    return tl.max(tl.reshape(keys, [BV // L, L]), 0)  # (L,)


@triton.jit
def _sum_exp(logits_ptr, base, V, BV: tl.constexpr):
    """The sum of exp(x − base) over the row."""
    total = tl.zeros([BV], tl.float32)
    for start in range(0, V, BV):
        j = start + tl.arange(0, BV)
        x = tl.load(logits_ptr + j, mask=j < V, other=-float("inf")).to(tl.float32)
        total += tl.exp(x - base)
    return tl.sum(total, 0)


# fmt: off
@triton.jit
def _top_k_kernel(
    logits_ptr, log_probs_ptr, tokens_ptr, V, row_stride,
    N: tl.constexpr, BV: tl.constexpr, L: tl.constexpr, BM: tl.constexpr, CHAINED: tl.constexpr,
):
    """Take the largest key of all lanes N times; only the lane it was in is looked at again."""
    # fmt: on
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * row_stride
    wait_for_previous_launch(CHAINED)
    keys = _lane_maxima(logits_ptr, V, BV, L)
    base = value_from_key(tl.max(keys, 0))
    base = tl.where(base == -float("inf"), 0.0, base)
    # NaN or +inf in a row is in its base, and makes this NaN
    total = tl.log(_sum_exp(logits_ptr, base, V, BV))
    lane, member = tl.arange(0, L), L * tl.arange(0, BM)
    for rank in range(N):
        key = tl.max(keys, 0)
        x, token = value_from_key(key), index_from_key(key)
        tl.store(log_probs_ptr + row * N + rank, tl.where(x == -float("inf"), x, x - base - total))
        tl.store(tokens_ptr + row * N + rank, token)
        # keys are taken in their order, so what is left of a lane is less than this one
        taken = (token % L).to(tl.int32)
        left = _load_sort_keys(logits_ptr, taken + member, V)
        left = tl.max(tl.where(left < key, left, LOWEST_KEY), 0)
        keys = tl.where(lane == taken, left, keys)


def top_k_log_probs(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The log-probabilities (R, n) of the n largest logits (R, V), largest first, and their places.

    Of equals the first comes first. A token of −inf gains −inf, and all else of a row with NaN or
    +inf gains NaN.

    Args:
        logits: each row without gaps.
        n: at most V.
    """
    R, V = logits.shape
    BV = min(BLOCK_LOGITS, triton.next_power_of_2(V))
    L = min(NUM_LANES, BV)
    gains = logits.new_empty(R, n, dtype=torch.float32)
    tokens = logits.new_empty(R, n, dtype=torch.int64)
    with torch.cuda.device_of(logits):
        _top_k_kernel[(R,)](
            logits, gains, tokens, V, logits.stride(0), N=n, BV=BV, L=L,
            BM=triton.next_power_of_2(triton.cdiv(V, L)), num_warps=8,
            **chain.launch_options(logits),
        )  # fmt: skip
    return gains, tokens
