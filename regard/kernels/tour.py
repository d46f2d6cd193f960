"""Whole tours: from each point to the best one that is left, or to one that is drawn.

It equals the loop of `layers.touring`, step by step. On a card all steps of all tours are one
launch (`tour_steps`), elsewhere few operations a step (`tour_plain`). Nothing learns on the way;
how likely a tour was is learned from afterwards, all its steps at once (`tour_said`).
"""

import torch
from torch import Tensor

from regard.kernels import tour_plain
from regard.kernels.flex import has_triton
from regard.kernels.tour_sizes import Sizes, Tables

# Where the kernel runs; tests add the CPU, where Triton's interpreter runs it.
DEVICES = ("cuda",)
# The most points that a program holds beside its tours.
MOST = 512
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@torch.no_grad()
def walked(
    tables: Tables, sizes: Sizes, *, starts: Tensor | None = None, drawn: bool = False
) -> Tensor:
    """The points of each tour in order (B, S, N), and −1 behind the last of them.

    Args:
        starts: where each tour of an instance begins (B, S); None has one tour choose its own.
        drawn: whether each next point is drawn by its probability, and not the likeliest.
    """
    if fused(tables, sizes):
        from regard.kernels import tour_launch

        return tour_launch.walked(tables, sizes, starts, drawn)
    return tour_plain.walked(tables, sizes, starts, drawn)


def log_probability(tables: Tables, sizes: Sizes, tours: Tensor, taken: Tensor) -> Tensor:
    """The log-probability of each step of tours (B, S, T) that are begun, where it is `fused`.

    Args:
        taken: at which step of each tour each point is taken (B, S, N).
    """
    from regard.kernels import tour_worth

    return tour_worth.log_probability(tables, sizes, tours, taken)


def fused(tables: Tables, sizes: Sizes) -> bool:
    """Whether one kernel takes all steps."""
    keys = tables.keys
    _, N, E = keys.shape
    width = E // sizes.heads
    fits = 0 < N <= MOST and width >= 16 and width & (width - 1) == 0
    return fits and keys.device.type in DEVICES and keys.dtype in DTYPES and has_triton()
