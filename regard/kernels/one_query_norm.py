"""What a layer adds and the norm behind it in one launch, its last product too where that pays.

The twins are `layer_norm(x + out)` and `layer_norm(x + linear(read))`. Sums, means and variances
are float32, and nothing is rounded in between. No gradient comes of it.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.kernels.additive_scores import product

PTX = not triton.knobs.runtime.interpret
# Half precision alone has a product on tensor cores that is as good as PyTorch's own.
HALVES = (torch.bfloat16, torch.float16)
# A program reads all weights, so few of them; it holds so many at a time, for so many rows.
FEW, NUMBERS, ROWS = 1 << 17, 1 << 14, 16
WIDEST = 1024


# fmt: off
@triton.jit
def _normed(x, at, row, inside, weight_ptr, bias_ptr, sum_ptr, out_ptr, e, E, eps):
    """Store rows of sums (R, BE) where somebody wants them, and their norms."""
    # fmt: on
    if sum_ptr is not None:
        tl.store(sum_ptr + at, x.to(sum_ptr.dtype.element_ty), mask=inside)
    mean = tl.sum(x, 1) / E
    x = tl.where((e < E)[None, :], x - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(x * x, 1) / E + eps)
    weight = tl.load(weight_ptr + e, mask=e < E, other=0).to(tl.float32)
    bias = tl.load(bias_ptr + e, mask=e < E, other=0).to(tl.float32)
    out = x * scale[:, None] * weight[None, :] + bias[None, :]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


# fmt: off
@triton.jit
def _add(
    x_ptr, y_ptr, weight_ptr, bias_ptr, sum_ptr, out_ptr, E, eps, BE: tl.constexpr,
):
    """One row of x + y, and its norm."""
    # fmt: on
    row, e = tl.program_id(0).to(tl.int64), tl.arange(0, BE)
    at, inside = (row * E + e)[None, :], (e < E)[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0).to(tl.float32)
    x += tl.load(y_ptr + at, mask=inside, other=0).to(tl.float32)
    _normed(x, at, row, inside, weight_ptr, bias_ptr, sum_ptr, out_ptr, e, E, eps)


# fmt: off
@triton.jit
def _project(
    x_ptr, y_ptr, matrix_ptr, shift_ptr, weight_ptr, bias_ptr, sum_ptr, out_ptr, B, K, E, eps,
    BB: tl.constexpr, BK: tl.constexpr, BE: tl.constexpr, PTX: tl.constexpr,
):
    """Some rows of x + y · matrixᵀ + shift, and their norms."""
    # fmt: on
    row, e = tl.program_id(0).to(tl.int64) * BB + tl.arange(0, BB), tl.arange(0, BE)
    at, inside = row[:, None] * E + e[None, :], (row < B)[:, None] & (e < E)[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0).to(tl.float32)
    if shift_ptr is not None:
        shift = tl.load(shift_ptr + e, mask=e < E, other=0).to(tl.float32)
        x += tl.where(inside, shift[None, :], 0.0)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        ours = (row < B)[:, None] & (k < K)[None, :]
        y = tl.load(y_ptr + row[:, None] * K + k[None, :], mask=ours, other=0)  # (BB, BK)
        theirs = (k < K)[:, None] & (e < E)[None, :]
        matrix = tl.load(matrix_ptr + e[None, :] * K + k[:, None], mask=theirs, other=0)
        x = product(y, matrix, x, "ieee", PTX)
    _normed(x, at, row, inside, weight_ptr, bias_ptr, sum_ptr, out_ptr, e, E, eps)


def added(x: Tensor, y: Tensor, norm: nn.LayerNorm, *, kept: bool) -> tuple[Tensor, Tensor]:
    """x + y (B, E) and its norm; the norm twice if the sum is not to be kept."""
    B, E = x.shape
    out = torch.empty_like(x)
    total = torch.empty_like(x) if kept else None
    with torch.cuda.device_of(x):
        _add[(B,)](
            x, y, norm.weight, norm.bias, total, out, E, norm.eps,
            BE=triton.next_power_of_2(E), num_warps=2 if E <= 512 else 4,
        )  # fmt: skip
    return (out if total is None else total), out


def projected(
    x: Tensor, y: Tensor, linear: nn.Linear, norm: nn.LayerNorm, *, kept: bool
) -> tuple[Tensor, Tensor]:
    """x + linear(y) (B, E) and its norm; the norm twice if the sum is not to be kept."""
    (B, E), K = x.shape, y.shape[1]
    dense = linear.weight.is_contiguous()
    if x.dtype not in HALVES or E * K > FEW or E > WIDEST or not dense:
        return added(x, linear(y), norm, kept=kept)
    out = torch.empty_like(x)
    total = torch.empty_like(x) if kept else None
    BE = max(16, triton.next_power_of_2(E))
    with torch.cuda.device_of(x):
        _project[(triton.cdiv(B, ROWS),)](
            x, y, linear.weight, linear.bias, norm.weight, norm.bias, total, out, B, K, E, norm.eps,
            BB=ROWS, BK=max(16, NUMBERS // BE), BE=BE, PTX=PTX, num_warps=8, num_stages=3,
        )  # fmt: skip
    return (out if total is None else total), out
