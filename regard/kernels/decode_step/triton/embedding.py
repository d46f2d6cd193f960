"""A token of each row, looked up, made as large as positions and put where it stands: one launch.

The twin is `table[tokens] · scale + position_table[position]`, rounded once.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch


# fmt: off
@triton.jit
def _embed_tokens_kernel(
    tokens_ptr, table_ptr, position_table_ptr, position_ptr, out_ptr, E, stride, scale,
    BE: tl.constexpr, CHAINED: tl.constexpr,
):
    # fmt: on
    row, e = tl.program_id(0).to(tl.int64), tl.arange(0, BE)
    wait_for_previous_launch(CHAINED)
    token, position = tl.load(tokens_ptr + row * stride), tl.load(position_ptr)
    x = tl.load(table_ptr + token * E + e, mask=e < E, other=0).to(tl.float32) * scale
    x += tl.load(position_table_ptr + position * E + e, mask=e < E, other=0).to(tl.float32)
    tl.store(out_ptr + row * E + e, x.to(out_ptr.dtype.element_ty), mask=e < E)


def embed_tokens(
    tokens: Tensor, table: Tensor, position_table: Tensor, position: Tensor, scale: float
) -> Tensor:
    """Tokens (B,) as they are read at `position`, a tensor of no axes: (B, E).

    Args:
        tokens: which rows of `table` they are.
        table: of embeddings (V, E).
        position_table: what is added at each position (N, E).
        position: where the tokens stand.
        scale: how much larger tokens are made.
    """
    B, E = len(tokens), table.shape[1]
    out = table.new_empty(B, E)
    with torch.cuda.device_of(table):
        _embed_tokens_kernel[(B,)](
            tokens, table, position_table, position, out, E, tokens.stride(0), scale,
            BE=triton.next_power_of_2(E), num_warps=2, **chain.launch_options(table),
        )  # fmt: skip
    return out
