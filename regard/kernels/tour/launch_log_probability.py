"""On a GPU: how likely tours were, one launch forward and one backward."""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.tour.triton import log_probability as tour_log_probability
from regard.kernels.tour.types import Sizes, Tables

# Steps of a tour that a program takes at a time, forward and back.
STEPS_PER_PROGRAM, BACKWARD_STEPS_PER_PROGRAM = 16, 32
# Programs over which the tours of an instance are spread on the way back.
BACKWARD_PROGRAMS = 8


def log_probability(tables: Tables, sizes: Sizes, tours: Tensor, visit_steps: Tensor) -> Tensor:
    """The log-probability of each step of tours (B, S, T), float32; that of the first is 0.

    Args:
        visit_steps: at which step of each tour each point is taken (B, S, N).
    """
    found: Tensor = _TourLogProbability.apply(
        *tables[:6], tours, visit_steps, tables.lengths, sizes
    )
    return found


class _TourLogProbability(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tables, tours, taken, lengths, sizes = inputs
        tables = [x.contiguous() for x in tables]
        tours, taken = tours.contiguous(), taken.to(torch.int32).contiguous()
        (B, N, E), (_, S, T) = tables[0].shape, tours.shape
        how = _kernel_options(N, E, sizes, STEPS_PER_PROGRAM)
        learns = any(ctx.needs_input_grad)
        found = torch.zeros(B, S, T, device=tours.device)
        rows = (B, S, T, how["K"]) if learns else (1,)
        slopes = torch.empty(rows, dtype=tables[0].dtype, device=tours.device)
        tour_log_probability.log_probability_fwd_kernel[
            (B, S, triton.cdiv(T - 1, STEPS_PER_PROGRAM))
        ](
            *tables,
            tours,
            taken,
            lengths,
            found,
            slopes,
            N,
            S,
            T,
            how["D"] ** -0.5,
            E**-0.5,
            sizes.clip,
            CLIPPED=sizes.clip > 0,
            LEARNS=learns,
            **how,
        )
        ctx.save_for_backward(*tables, tours, taken, lengths, slopes)
        ctx.sizes = sizes
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        *tables, tours, taken, lengths, slopes = ctx.saved_tensors
        (B, N, E), (_, S, T) = tables[0].shape, tours.shape
        how = _kernel_options(N, E, ctx.sizes, BACKWARD_STEPS_PER_PROGRAM)
        learnt = torch.zeros(4, B, N, E, device=grad.device)
        of_tours = torch.empty(B, S, E, device=grad.device)
        tour_log_probability.log_probability_bwd_kernel[(B, ctx.sizes.heads, BACKWARD_PROGRAMS)](
            *tables,
            tours,
            taken,
            lengths,
            slopes,
            grad.contiguous(),
            *learnt,
            of_tours,
            N,
            S,
            T,
            triton.cdiv(S, BACKWARD_PROGRAMS),
            how["D"] ** -0.5,
            **how,
        )
        keys, values, pointers, last = learnt
        began = tours[..., :1].expand(-1, -1, E)
        first = torch.zeros_like(keys).scatter_add_(1, began, of_tours)
        found = (keys, values, pointers, first, last, of_tours.sum(1))
        return *(x.to(tables[0].dtype) for x in found), None, None, None, None


def _kernel_options(N: int, E: int, sizes: Sizes, rows: int) -> dict[str, Any]:
    """What the kernels are compiled for."""
    K = max(16, triton.next_power_of_2(N))
    return {
        "E": E,
        "H": sizes.heads,
        "D": E // sizes.heads,
        "R": rows,
        "K": K,
        # numbers of 32 bits are multiplied whole, as elsewhere, in three products of fewer bits
        "PRECISION": "tf32x3",
        "num_warps": 2 if K <= 128 else 8,
        "num_stages": 1,
    }
