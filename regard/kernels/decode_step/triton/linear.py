"""A product with weights for the few rows of a step, in half precision: one launch.

The twin is `linear(x)`, with negative numbers made zero if so wished. Sums are float32. A program
has some rows and columns, and fetches its weights before it waits for `x`. No gradient comes of it.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.additive.triton.scores import dot_add
from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch

PTX = not triton.knobs.runtime.interpret
# Half precision alone has a product on tensor cores that is as good as PyTorch's own.
HALF_DTYPES = (torch.bfloat16, torch.float16)
# More rows and more weights are PyTorch's.
MAX_ROWS, MAX_WEIGHTS = 512, 1 << 20
# Columns of a program, and how many numbers of its rows it has at a time.
BLOCK_COLUMNS, BLOCK_ELEMENTS = 32, 1 << 13


# fmt: off
@triton.jit
def _linear_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, B, K, N, stride,
    BB: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    WHOLE: tl.constexpr, RELU: tl.constexpr, CHAINED: tl.constexpr, PTX: tl.constexpr,
):
    """Some rows and columns of x · weightᵀ + bias; WHOLE if they are no deeper than BK."""
    # fmt: on
    row = tl.program_id(1).to(tl.int64) * BB + tl.arange(0, BB)
    n, k = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    x_ptr, weight_ptr = x_ptr + row[:, None] * stride, weight_ptr + n[None, :] * K
    weight = _load_block(weight_ptr, k[:, None], n[None, :], K, N)  # (BK, BN)
    total = tl.zeros([BB, BN], tl.float32)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + n, mask=n < N, other=0).to(tl.float32)[None, :]
    wait_for_previous_launch(CHAINED)
    total = dot_add(_load_block(x_ptr, k[None, :], row[:, None], K, B), weight, total, "ieee", PTX)
    if not WHOLE:
        for start in range(BK, K, BK):
            j = start + k
            weight = _load_block(weight_ptr, j[:, None], n[None, :], K, N)
            x = _load_block(x_ptr, j[None, :], row[:, None], K, B)
            total = dot_add(x, weight, total, "ieee", PTX)
    if RELU:
        total = tl.maximum(total, 0.0)
    out_ptr += row[:, None] * N + n[None, :]
    inside = (row < B)[:, None] & (n < N)[None, :]
    tl.store(out_ptr, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _load_block(ptr, k, other, K, N):
    """What lies at `k` of K in each of the `other` of N, zero beyond both."""
    return tl.load(ptr + k, mask=(k < K) & (other < N), other=0)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """x · weightᵀ + bias (B, N) for rows `x` (B, K), not below zero if `relu`."""
    (B, K), N = x.shape, len(weight)
    large = B > MAX_ROWS or N * K > MAX_WEIGHTS
    if x.dtype not in HALF_DTYPES or large or not _has_dense_rows(x, weight):
        out = F.linear(x, weight, bias)
        return F.relu_(out) if relu else out
    out = x.new_empty(B, N)
    BB = 16 if B <= 64 else 64
    BK = max(16, min(triton.next_power_of_2(K), BLOCK_ELEMENTS // BB))
    with torch.cuda.device_of(x):
        _linear_kernel[(triton.cdiv(N, BLOCK_COLUMNS), triton.cdiv(B, BB))](
            x, weight, bias, out, B, K, N, x.stride(0), BB=BB, BN=BLOCK_COLUMNS, BK=BK,
            WHOLE=BK >= K, RELU=relu, PTX=PTX, num_warps=4, num_stages=3, **chain.launch_options(x),
        )  # fmt: skip
    return out


def _has_dense_rows(x: Tensor, weight: Tensor) -> bool:
    return x.stride(1) == 1 and weight.is_contiguous()
