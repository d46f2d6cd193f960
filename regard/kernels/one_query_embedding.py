"""A token of each row, looked up, made as large as positions and put where it stands: one launch.

The twin is `table[tokens] · scale + places[position]`, rounded once.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels import one_query_chain as chain
from regard.kernels.one_query_chain import follow


# fmt: off
@triton.jit
def _embed(
    tokens_ptr, table_ptr, places_ptr, position_ptr, out_ptr, E, stride, scale,
    BE: tl.constexpr, CHAINED: tl.constexpr,
):
    # fmt: on
    row, e = tl.program_id(0).to(tl.int64), tl.arange(0, BE)
    follow(CHAINED)
    token, position = tl.load(tokens_ptr + row * stride), tl.load(position_ptr)
    x = tl.load(table_ptr + token * E + e, mask=e < E, other=0).to(tl.float32) * scale
    x += tl.load(places_ptr + position * E + e, mask=e < E, other=0).to(tl.float32)
    tl.store(out_ptr + row * E + e, x.to(out_ptr.dtype.element_ty), mask=e < E)


def embedded(
    tokens: Tensor, table: Tensor, places: Tensor, position: Tensor, scale: float
) -> Tensor:
    """Tokens (B,) as they are read at `position`, a tensor of no axes: (B, E).

    Args:
        tokens: which rows of `table` they are.
        table: of embeddings (V, E).
        places: what is added at each position (N, E).
        position: where the tokens stand.
        scale: how much larger tokens are made.
    """
    B, E = len(tokens), table.shape[1]
    out = table.new_empty(B, E)
    with torch.cuda.device_of(table):
        _embed[(B,)](
            tokens, table, places, position, out, E, tokens.stride(0), scale,
            BE=triton.next_power_of_2(E), num_warps=2, **chain.how(table),
        )  # fmt: skip
    return out
