"""Starts the kernels of a machine: what is kept of all steps, and in which tiles they work."""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from regard.kernels.ntm.triton import backward as ntm_backward
from regard.kernels.ntm.triton import forward as ntm_forward
from regard.kernels.ntm.types import MachineState, Sizes, Weights

# Rows and columns of a matrix that are multiplied at a time, and the warps of a program.
BLOCK_ROWS, BLOCK_COLUMNS, NUM_WARPS = 256, 64, 8


class SequenceActivations(NamedTuple):
    """All steps of a machine; what has T + 1 rows begins with where it began."""

    gates: Tensor  # (T, B, Z): after their bends
    read_hidden: Tensor  # (T + 1, B, R W + C): what heads read, and what the controller said
    cell: Tensor  # (T + 1, B, C), or nothing without an LSTM
    addresses: Tensor  # (T + 1, B, H, N)
    memory: Tensor  # (T + 1, B, N, W)
    head_parameters: Tensor  # (T, B, P): before their bends
    content: Tensor  # (T, B, H, N)
    gated: Tensor  # (T, B, H, N)


def launch_forward(
    projected_inputs: Tensor, initial_state: MachineState, weights: Weights, sizes: Sizes
) -> SequenceActivations:
    """All steps forward, from inputs that are multiplied already (T, B, Z)."""
    T, B, _ = projected_inputs.shape
    N = initial_state.memory.shape[1]
    firsts = (
        torch.cat([initial_state.read.flatten(1), initial_state.hidden], 1),
        *initial_state[1:2],
        *initial_state[3:],
    )
    states = [x.new_empty(T + 1, *x.shape) for x in firsts]
    for state, first in zip(states, firsts, strict=True):
        state[0] = first
    orders = projected_inputs.new_empty(T, B, sizes.num_head_parameters)
    rings = projected_inputs.new_empty(2, T, B, sizes.heads, N)
    gates = projected_inputs.clone(memory_format=torch.contiguous_format)
    kept = SequenceActivations._make((gates, *states, orders, *rings))
    ntm_forward.ntm_fwd_kernel[(B,)](
        *kept[:5],
        _controller_weight(weights),
        weights.to_heads.contiguous(),
        weights.bias,
        *kept[5:],
        T,
        B,
        **_kernel_constants(kept, weights, sizes),
        BLOCK_P=128,
        BLOCK_Z=min(BLOCK_ROWS, triton.next_power_of_2(projected_inputs.shape[2])),
        num_warps=NUM_WARPS,
    )
    return kept


def launch_backward(
    dread_hidden: Tensor,
    dend: tuple[Tensor, ...],
    activations: SequenceActivations,
    weights: Weights,
    sizes: Sizes,
) -> tuple[MachineState, Tensor, Tensor]:
    """All steps back: what the beginning gains, and all gates (T, B, Z) and orders (T, B, P) do.

    Args:
        dread_hidden: by what was read and said (T, B, R W + C).
        dend: the gain of the last cell, places and memory.
    """
    T, B, _ = activations.gates.shape
    dcell, dplaces, dmemory = (x.clone(memory_format=torch.contiguous_format) for x in dend)
    dgates, dorders = (
        torch.empty_like(activations.gates),
        torch.empty_like(activations.head_parameters),
    )
    carried, moved = torch.zeros_like(dread_hidden[0]), dread_hidden.new_empty(B, dmemory.shape[1])
    ntm_backward.ntm_bwd_kernel[(B,)](
        dread_hidden,
        activations.gates,
        *activations[2:],
        _controller_weight(weights).mT.contiguous(),
        weights.to_heads.mT.contiguous(),
        dgates,
        dorders,
        dplaces,
        dmemory,
        dcell,
        carried,
        moved,
        T,
        B,
        **_kernel_constants(activations, weights, sizes),
        BLOCK_X=triton.next_power_of_2(dread_hidden.shape[2]),
        num_warps=NUM_WARPS,
    )
    read = sizes.reads * sizes.cell
    dread = carried[:, :read].unflatten(1, (sizes.reads, sizes.cell))
    return MachineState(carried[:, read:], dcell, dread, dplaces, dmemory), dgates, dorders


def _controller_weight(weights: Weights) -> Tensor:
    """The matrix of all that a controller is told beside its inputs."""
    parts = [weights.read] if weights.hidden is None else [weights.read, weights.hidden]
    return torch.cat(parts, 1)


def _kernel_constants(
    activations: SequenceActivations, weights: Weights, sizes: Sizes
) -> dict[str, Any]:
    C, N = activations.read_hidden.shape[2] - sizes.reads * sizes.cell, activations.memory.shape[2]
    return {
        "LSTM": weights.hidden is not None,
        "C": C,
        "R": sizes.reads,
        "WRITES": sizes.writes,
        "N": N,
        "W": sizes.cell,
        "SHIFTS": sizes.shifts,
        "P": sizes.num_head_parameters,
        "BLOCK_C": triton.next_power_of_2(C),
        "BLOCK_N": triton.next_power_of_2(N),
        "BLOCK_W": triton.next_power_of_2(sizes.cell),
        "BLOCK_S": triton.next_power_of_2(sizes.shifts),
        "STEP": BLOCK_COLUMNS,
    }
