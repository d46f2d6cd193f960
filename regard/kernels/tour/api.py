"""Whole tours: from each point to the best one that is left, or to one that is drawn.

It equals the loop of `layers.tour_decoder`, step by step. On a GPU all steps of all tours are one
launch (`triton.decode_tile`), elsewhere few operations a step (`reference`). Nothing learns on the
way; how likely a tour was is learned from afterwards, all its steps at once
(`triton.log_probability`).
"""

import torch
from torch import Tensor

from regard.kernels.backends.flex import has_triton
from regard.kernels.tour import reference
from regard.kernels.tour.types import Sizes, Tables

# Where the kernel runs; tests add the CPU, where Triton's interpreter runs it.
DEVICES = ("cuda",)
# The most points that a program holds beside its tours.
MAX_POINTS = 512
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@torch.no_grad()
def decode_tours(
    tables: Tables, sizes: Sizes, *, starts: Tensor | None = None, sample: bool = False
) -> Tensor:
    """The points of each tour in order (B, S, N), and −1 behind the last of them.

    Args:
        starts: where each tour of an instance begins (B, S); None has one tour choose its own.
        sample: whether each next point is drawn by its probability, and not the likeliest.
    """
    if can_use_kernel(tables, sizes):
        from regard.kernels.tour import launch

        return launch.launch_decode_tours(tables, sizes, starts, sample)
    return reference.decode_tours(tables, sizes, starts, sample)


def log_probability(tables: Tables, sizes: Sizes, tours: Tensor, visit_steps: Tensor) -> Tensor:
    """The log-probability of each step of tours (B, S, T) that are begun, if `can_use_kernel`.

    Args:
        visit_steps: at which step of each tour each point is taken (B, S, N).
    """
    from regard.kernels.tour import launch_log_probability

    return launch_log_probability.log_probability(tables, sizes, tours, visit_steps)


def can_use_kernel(tables: Tables, sizes: Sizes) -> bool:
    """Whether one kernel takes all steps."""
    keys = tables.keys
    _, N, E = keys.shape
    width = E // sizes.heads
    fits = 0 < N <= MAX_POINTS and width >= 16 and width & (width - 1) == 0
    return fits and keys.device.type in DEVICES and keys.dtype in DTYPES and has_triton()
