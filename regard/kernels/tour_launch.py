"""On a card: one launch for all steps of all tours."""

import torch
import triton
from torch import Tensor

from regard.kernels.tour_sizes import Sizes, Tables
from regard.kernels.tour_steps import steps

# Tours that a program takes: the fewest that tensor cores multiply.
ROWS = 16


def walked(tables: Tables, sizes: Sizes, starts: Tensor | None, drawn: bool) -> Tensor:
    """The points of each tour in order (B, S, N); arguments as in `tour.walked`."""
    B, N, E = tables.keys.shape
    S = 1 if starts is None else starts.shape[1]
    tours = torch.empty(B, S, N, dtype=torch.int64, device=tables.keys.device)
    # drawn on the card, so that a recording of this draws anew
    seeds = torch.randint(2**30, (1,), device=tables.keys.device) if drawn else tables.lengths
    K = max(16, triton.next_power_of_2(N))
    steps[(B, triton.cdiv(S, ROWS))](
        *(x.contiguous() for x in tables),
        tables.lengths if starts is None else starts.contiguous(),
        seeds,
        tours,
        N,
        S,
        N,
        (E // sizes.heads) ** -0.5,
        E**-0.5,
        sizes.clip,
        E=E,
        H=sizes.heads,
        D=E // sizes.heads,
        R=ROWS,
        K=K,
        STARTED=starts is not None,
        DRAWN=drawn,
        CLIPPED=sizes.clip > 0,
        # numbers of 32 bits are multiplied whole, as elsewhere, in three products of fewer bits
        PRECISION="tf32x3",
        num_warps=2 if K <= 128 else 8,
        # the tables of a tour stay near by themselves; copies ahead of time would only fill it up
        num_stages=1,
    )
    return tours
