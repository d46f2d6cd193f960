"""On a GPU: one launch for all steps of all tours."""

from typing import Any

import torch
import triton
from torch import Tensor

from regard.kernels.tour.triton.decode_single import decode_single_tour_kernel
from regard.kernels.tour.triton.decode_tile import decode_tours_kernel
from regard.kernels.tour.types import Sizes, Tables

# Tours that a program takes side by side: the fewest that tensor cores multiply.
TOURS_PER_PROGRAM = 16
# Up to so many of an instance, each is quicker in a program of its own.
SINGLE_MAX_TOURS = 4


def launch_decode_tours(
    tables: Tables, sizes: Sizes, starts: Tensor | None, sample: bool
) -> Tensor:
    """The points of each tour in order (B, S, N); arguments as in `api.decode_tours`."""
    B, N, E = tables.keys.shape
    S = 1 if starts is None else starts.shape[1]
    tours = torch.empty(B, S, N, dtype=torch.int64, device=tables.keys.device)
    # drawn on the GPU, so that a recording of this draws anew
    seeds = torch.randint(2**30, (1,), device=tables.keys.device) if sample else tables.lengths
    given = (
        *(x.contiguous() for x in tables),
        tables.lengths if starts is None else starts.contiguous(),
        seeds,
        tours,
        *(N, S, N),
        *((E // sizes.heads) ** -0.5, E**-0.5, sizes.clip),
    )
    how: dict[str, Any] = {
        "E": E,
        "H": sizes.heads,
        "D": E // sizes.heads,
        "K": max(16, triton.next_power_of_2(N)),
        "STARTED": starts is not None,
        "DRAWN": sample,
        "CLIPPED": sizes.clip > 0,
        # the tables of a tour stay near by themselves; copies ahead of time would only fill it up
        "num_stages": 1,
    }
    if S <= SINGLE_MAX_TOURS and sizes.heads & (sizes.heads - 1) == 0:
        # a warp for so many bytes of a column of a table, measured
        warps = max(2, min(8, how["K"] * tables.keys.element_size() // 128))
        decode_single_tour_kernel[(B * S,)](*given, **how, num_warps=warps)
    else:
        # numbers of 32 bits are multiplied whole, as elsewhere, in three products of fewer bits
        decode_tours_kernel[(B, triton.cdiv(S, TOURS_PER_PROGRAM))](
            *given,
            **how,
            R=TOURS_PER_PROGRAM,
            PRECISION="tf32x3",
            num_warps=2 if how["K"] <= 128 else 8,
        )
    return tours
