"""The losses of `regard.functional.losses`, which on a GPU form nothing as large as the logits.

Triton is imported only where a kernel runs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.functional import losses as plain
from regard.kernels.backends.flex import has_triton
from regard.kernels.guards import is_intercepted

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
# How many logits a program has at a time, and by how many warps.
BLOCK_LOGITS, NUM_WARPS = 4096, 8


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """`−log p(target)` of every token (B, T), as `functional.losses.cross_entropy`."""
    if not _can_use_kernel(logits):
        return plain.cross_entropy(logits, targets, smoothing=smoothing)
    found: Tensor = _CrossEntropy.apply(logits.flatten(0, 1), targets.flatten(), smoothing)
    return found.view_as(targets)


def divergence(ours: Tensor, theirs: Tensor) -> Tensor:
    """How far two predictions are apart (B, T), as `functional.losses.divergence`."""
    if not (_can_use_kernel(ours) and _can_use_kernel(theirs)):
        return plain.symmetric_kl(ours, theirs)
    found: Tensor = _Divergence.apply(ours.flatten(0, 1), theirs.flatten(0, 1))
    return found.view(ours.shape[:2])


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        from regard.kernels.losses.triton import rows as losses_rows

        (N, V), x, targets = logits.shape, logits.contiguous(), targets.contiguous()
        loss, lse = x.new_empty(2, N, dtype=torch.float32)
        with torch.cuda.device_of(x):
            losses_rows.cross_entropy_fwd_kernel[(N,)](
                x,
                targets,
                loss,
                lse,
                V,
                smoothing,
                smoothing > 0,
                BLOCK_LOGITS,
                num_warps=NUM_WARPS,
            )
        ctx.save_for_backward(x, targets, lse)
        ctx.smoothing = smoothing
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        from regard.kernels.losses.triton import rows as losses_rows

        x, targets, lse = ctx.saved_tensors
        (N, V), dx = x.shape, torch.empty_like(x)
        with torch.cuda.device_of(x):
            losses_rows.cross_entropy_bwd_kernel[(N,)](
                grad_output.contiguous(),
                x,
                targets,
                lse,
                dx,
                V,
                ctx.smoothing,
                BLOCK_LOGITS,
                num_warps=NUM_WARPS,
            )
        return dx, None, None


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ours: Tensor, theirs: Tensor) -> Tensor:
        from regard.kernels.losses.triton import rows as losses_rows

        (N, V), a, b = ours.shape, ours.contiguous(), theirs.contiguous()
        found, sums = (a.new_empty(shape, dtype=torch.float32) for shape in [(N,), (N, 4)])
        with torch.cuda.device_of(a):
            losses_rows.divergence_fwd_kernel[(N,)](
                a, b, found, sums, V, BLOCK_LOGITS, num_warps=NUM_WARPS
            )
        ctx.save_for_backward(a, b, sums)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        from regard.kernels.losses.triton import rows as losses_rows

        a, b, sums = ctx.saved_tensors
        (N, V), da, db = a.shape, torch.empty_like(a), torch.empty_like(b)
        with torch.cuda.device_of(a):
            losses_rows.divergence_bwd_kernel[(N,)](
                grad_output.contiguous(), a, b, sums, da, db, V, BLOCK_LOGITS, num_warps=NUM_WARPS
            )
        return da, db


def _can_use_kernel(logits: Tensor) -> bool:
    """Whether the kernels take these logits, and nobody wants to see what they do."""
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    ours = logits.device.type in DEVICES and logits.dtype in kinds and logits.numel() > 0
    return ours and has_triton() and not is_intercepted(logits)
