"""Starts the kernels of a machine: what is kept of all steps, and in which tiles they work."""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from regard.kernels import tape_backward, tape_forward
from regard.kernels.tape_sizes import Place, Sizes, Weights

# Rows and columns of a matrix that are multiplied at a time, and the warps of a program.
ROWS, STEP, WARPS = 256, 64, 8


class Kept(NamedTuple):
    """All steps of a machine; what has T + 1 rows begins with where it began."""

    gates: Tensor  # (T, B, Z): after their bends
    read_said: Tensor  # (T + 1, B, R W + C): what heads read, and what the controller said
    cell: Tensor  # (T + 1, B, C), or nothing without an LSTM
    places: Tensor  # (T + 1, B, H, N)
    memory: Tensor  # (T + 1, B, N, W)
    orders: Tensor  # (T, B, P): before their bends
    content: Tensor  # (T, B, H, N)
    gated: Tensor  # (T, B, H, N)


def forward(of_x: Tensor, begin: Place, weights: Weights, sizes: Sizes) -> Kept:
    """All steps forward, from inputs that are multiplied already (T, B, Z)."""
    T, B, _ = of_x.shape
    N = begin.memory.shape[1]
    firsts = torch.cat([begin.read.flatten(1), begin.hidden], 1), *begin[1:2], *begin[3:]
    states = [x.new_empty(T + 1, *x.shape) for x in firsts]
    for state, first in zip(states, firsts, strict=True):
        state[0] = first
    orders = of_x.new_empty(T, B, sizes.orders)
    rings = of_x.new_empty(2, T, B, sizes.heads, N)
    gates = of_x.clone(memory_format=torch.contiguous_format)
    kept = Kept._make((gates, *states, orders, *rings))
    tape_forward.forward[(B,)](
        *kept[:5],
        _joined(weights),
        weights.orders.contiguous(),
        weights.bias,
        *kept[5:],
        T,
        B,
        **_constants(kept, weights, sizes),
        BLOCK_P=128,
        BLOCK_Z=min(ROWS, triton.next_power_of_2(of_x.shape[2])),
        num_warps=WARPS,
    )
    return kept


def backward(
    gained: Tensor, end: tuple[Tensor, ...], kept: Kept, weights: Weights, sizes: Sizes
) -> tuple[Place, Tensor, Tensor]:
    """All steps back: what the beginning gains, and all gates (T, B, Z) and orders (T, B, P) do.

    Args:
        gained: by what was read and said (T, B, R W + C).
        end: the gain of the last cell, places and memory.
    """
    T, B, _ = kept.gates.shape
    dcell, dplaces, dmemory = (x.clone(memory_format=torch.contiguous_format) for x in end)
    dgates, dorders = torch.empty_like(kept.gates), torch.empty_like(kept.orders)
    carried, moved = torch.zeros_like(gained[0]), gained.new_empty(B, dmemory.shape[1])
    tape_backward.backward[(B,)](
        gained,
        kept.gates,
        *kept[2:],
        _joined(weights).mT.contiguous(),
        weights.orders.mT.contiguous(),
        dgates,
        dorders,
        dplaces,
        dmemory,
        dcell,
        carried,
        moved,
        T,
        B,
        **_constants(kept, weights, sizes),
        BLOCK_X=triton.next_power_of_2(gained.shape[2]),
        num_warps=WARPS,
    )
    read = sizes.reads * sizes.cell
    dread = carried[:, :read].unflatten(1, (sizes.reads, sizes.cell))
    return Place(carried[:, read:], dcell, dread, dplaces, dmemory), dgates, dorders


def _joined(weights: Weights) -> Tensor:
    """The matrix of all that a controller is told beside its inputs."""
    parts = [weights.read] if weights.hidden is None else [weights.read, weights.hidden]
    return torch.cat(parts, 1)


def _constants(kept: Kept, weights: Weights, sizes: Sizes) -> dict[str, Any]:
    C, N = kept.read_said.shape[2] - sizes.reads * sizes.cell, kept.memory.shape[2]
    return {
        "LSTM": weights.hidden is not None,
        "C": C,
        "R": sizes.reads,
        "WRITES": sizes.writes,
        "N": N,
        "W": sizes.cell,
        "SHIFTS": sizes.shifts,
        "P": sizes.orders,
        "BLOCK_C": triton.next_power_of_2(C),
        "BLOCK_N": triton.next_power_of_2(N),
        "BLOCK_W": triton.next_power_of_2(sizes.cell),
        "BLOCK_S": triton.next_power_of_2(sizes.shifts),
        "STEP": STEP,
    }
