"""All steps of a Neural Turing Machine at once, forward and backward.

It equals the loop of `regard.models.ntm`, whose every step autograd would follow operation by
operation. Here a step and its way back are written out, and the weights learn from all steps
together: on a GPU in one kernel each way (`triton.forward`, `triton.backward`), elsewhere in few
operations a step (`reference`), which a training may ask to have compiled. Triton is imported only
where a kernel runs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.backends.flex import has_triton
from regard.kernels.ntm import reference
from regard.kernels.ntm.types import MachineState, Sizes, Weights
from regard.runtime import compile

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
# The most numbers of a memory that a program can hold.
MAX_MEMORY_ELEMENTS = 2**14


def run_all_steps(
    projected_inputs: Tensor, initial_state: MachineState, weights: Weights, sizes: Sizes
) -> tuple[Tensor, MachineState]:
    """What the heads read and the controller said (T, B, R W + C), and where it all ends.

    Args:
        projected_inputs: the inputs, multiplied for the controller, its bias added (T, B, Z).
        initial_state: where the machine is.
    """
    way: Any = (
        _KernelFunction
        if can_use_kernel(projected_inputs, initial_state.memory)
        else _StepwiseFunction
    )
    inputs = (projected_inputs, *initial_state, *weights)
    if way is _StepwiseFunction and not _needs_gradient(inputs):
        read_said, (_, cell, _, places, memory) = _run_without_gradient(
            projected_inputs, initial_state, weights, sizes
        )
    else:
        read_said, cell, places, memory = way.apply(*inputs, sizes)
    read = read_said[-1, :, : weights.read.shape[1]].view_as(initial_state.read)
    return read_said, MachineState(
        read_said[-1, :, weights.read.shape[1] :], cell, read, places, memory
    )


def can_use_kernel(projected_inputs: Tensor, memory: Tensor) -> bool:
    """Whether one kernel takes all steps."""
    there = (
        projected_inputs.device.type in DEVICES
        and projected_inputs.dtype == torch.float32
        and projected_inputs.numel() > 0
    )
    return there and has_triton() and memory[0].numel() <= MAX_MEMORY_ELEMENTS


def _needs_gradient(inputs: tuple[Tensor | None, ...]) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)


def _run_without_gradient(
    projected_inputs: Tensor, initial_state: MachineState, weights: Weights, sizes: Sizes
) -> tuple[Tensor, MachineState]:
    """All steps of which nothing is kept for a way back."""
    place, found = initial_state._replace(memory=initial_state.memory.mT), []
    step = compile.maybe_compile(reference.forward_step)
    for z in projected_inputs:
        place, _ = step(z, place, weights, sizes)
        found.append(_concat_read_and_hidden(place))
    return torch.stack(found), place._replace(memory=place.memory.mT)


def _concat_read_and_hidden(state: MachineState) -> Tensor:
    """What was read and said, side by side (B, R W + C)."""
    return torch.cat([state.read.flatten(1), state.hidden], 1)


class _KernelFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected_inputs: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        from regard.kernels.ntm import launch

        begin, weights, sizes = MachineState(*rest[:5]), Weights(*rest[5:9]), rest[9]
        kept = launch.launch_forward(projected_inputs, begin, weights, sizes)
        ctx.kept, ctx.weights, ctx.sizes = kept, weights, sizes
        ends = (x[-1].clone() for x in (kept.cell, kept.addresses, kept.memory))
        return kept.read_hidden[1:].clone(), *ends

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dread_hidden: Tensor, *dend: Tensor) -> tuple[Any, ...]:
        from regard.kernels.ntm import launch

        kept, weights = ctx.kept, ctx.weights
        begin, dgates, dorders = launch.launch_backward(
            dread_hidden.contiguous(), dend, kept, weights, ctx.sizes
        )
        learned = _weight_gradients(dgates, dorders, kept.read_hidden, weights)
        return dgates, *begin, *learned, None


class _StepwiseFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected_inputs: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        begin, weights, sizes = MachineState(*rest[:5]), Weights(*rest[5:9]), rest[9]
        places, kept = [begin._replace(memory=begin.memory.mT)], []
        step = compile.maybe_compile(reference.forward_step)
        for z in projected_inputs:
            after, left = step(z, places[-1], weights, sizes)
            places.append(after)
            kept.append(left)
        read_said = torch.stack(list(map(_concat_read_and_hidden, places)))
        ctx.places, ctx.kept, ctx.read_said = places, kept, read_said
        ctx.weights, ctx.sizes = weights, sizes
        end = places[-1]
        return read_said[1:].clone(), end.cell.clone(), end.weights.clone(), end.memory.mT.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dread_hidden: Tensor, *dend: Tensor) -> tuple[Any, ...]:
        weights, sizes, kept = ctx.weights, ctx.sizes, ctx.kept
        read = sizes.reads * sizes.cell
        dreads = dread_hidden[:, :, :read].unflatten(2, (sizes.reads, sizes.cell))
        dhiddens = dread_hidden[:, :, read:]
        none = torch.zeros_like(dhiddens[0]), torch.zeros_like(dreads[0])
        gained = MachineState(none[0], dend[0], none[1], dend[1], dend[2].mT)
        gates: list[Any] = [None] * len(kept)
        orders: list[Any] = [None] * len(kept)
        back = compile.maybe_compile(reference.backward_step)
        for t in reversed(range(len(kept))):
            gained = gained._replace(
                hidden=gained.hidden + dhiddens[t], read=gained.read + dreads[t]
            )
            around = gained, ctx.places[t], ctx.places[t + 1], kept[t]
            gained, gates[t], orders[t] = back(*around, weights, sizes)
        dgates, dorders = torch.stack(gates), torch.stack(orders)
        learned = _weight_gradients(dgates, dorders, ctx.read_said, weights)
        return dgates, *gained._replace(memory=gained.memory.mT), *learned, None


def _weight_gradients(
    dgates: Tensor, dhead_parameters: Tensor, read_hidden: Tensor, weights: Weights
) -> Weights:
    """What the weights gain of all steps together; `read_said` is of T + 1 moments."""
    gates, orders, R = dgates.flatten(0, 1), dhead_parameters.flatten(0, 1), weights.read.shape[1]
    before, after = read_hidden[:-1].flatten(0, 1), read_hidden[1:].flatten(0, 1)
    return Weights(
        read=gates.mT @ before[:, :R],
        hidden=None if weights.hidden is None else gates.mT @ before[:, R:],
        to_heads=orders.mT @ after[:, R:],
        bias=orders.sum(0),
    )
