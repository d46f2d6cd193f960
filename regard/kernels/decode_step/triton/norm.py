"""What a layer adds and the norm behind it, in one launch.

The twin is `layer_norm(x + out)`. Sums, means and variances are float32, and nothing is rounded in
between. No gradient comes of it.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch


# fmt: off
@triton.jit
def _add_norm_kernel(
    x_ptr, y_ptr, weight_ptr, bias_ptr, sum_ptr, out_ptr, E, eps,
    BE: tl.constexpr, CHAINED: tl.constexpr,
):
    """One row of x + y, if somebody wants it, and its norm."""
    # fmt: on
    row, e = tl.program_id(0).to(tl.int64), tl.arange(0, BE)
    at, inside = row * E + e, e < E
    weight = tl.load(weight_ptr + e, mask=inside, other=0).to(tl.float32)
    bias = tl.load(bias_ptr + e, mask=inside, other=0).to(tl.float32)
    wait_for_previous_launch(CHAINED)
    x = tl.load(x_ptr + at, mask=inside, other=0).to(tl.float32)
    x += tl.load(y_ptr + at, mask=inside, other=0).to(tl.float32)
    if sum_ptr is not None:
        tl.store(sum_ptr + at, x.to(sum_ptr.dtype.element_ty), mask=inside)
    x = tl.where(inside, x - tl.sum(x, 0) / E, 0.0)
    x = x * tl.rsqrt(tl.sum(x * x, 0) / E + eps) * weight + bias
    tl.store(out_ptr + at, x.to(out_ptr.dtype.element_ty), mask=inside)


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm, *, keep_sum: bool) -> tuple[Tensor, Tensor]:
    """x + y (B, E) and its norm; the norm twice if the sum is not to be kept."""
    B, E = x.shape
    out = torch.empty_like(x)
    total = torch.empty_like(x) if keep_sum else None
    with torch.cuda.device_of(x):
        _add_norm_kernel[(B,)](
            x, y, norm.weight, norm.bias, total, out, E, norm.eps,
            BE=triton.next_power_of_2(E), num_warps=2 if E <= 512 else 4, **chain.launch_options(x),
        )  # fmt: skip
    return (out if total is None else total), out
