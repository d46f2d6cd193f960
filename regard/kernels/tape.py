"""All steps of a Neural Turing Machine at once, forward and backward.

It equals the loop of `regard.models.ntm`, whose every step autograd would follow operation by
operation. Here a step and its way back are written out, and the weights learn from all steps
together: on a card in one kernel each way (`tape_forward`, `tape_backward`), elsewhere in few
operations a step (`tape_plain`), which a training may ask to have compiled. Triton is imported only
where a kernel runs.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard import compiling
from regard.kernels import tape_plain
from regard.kernels.flex import has_triton
from regard.kernels.tape_sizes import Place, Sizes, Weights

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
# The most numbers of a memory that a program can hold.
LARGEST = 2**14


def through(of_x: Tensor, begin: Place, weights: Weights, sizes: Sizes) -> tuple[Tensor, Place]:
    """What the heads read and the controller said (T, B, R W + C), and where it all ends.

    Args:
        of_x: the inputs, multiplied for the controller, its bias added (T, B, Z).
        begin: where the machine is.
    """
    way: Any = _Fused if fused(of_x, begin.memory) else _Stepped
    inputs = (of_x, *begin, *weights)
    if way is _Stepped and not _learns(inputs):
        read_said, (_, cell, _, places, memory) = _walked(of_x, begin, weights, sizes)
    else:
        read_said, cell, places, memory = way.apply(*inputs, sizes)
    read = read_said[-1, :, : weights.read.shape[1]].view_as(begin.read)
    return read_said, Place(read_said[-1, :, weights.read.shape[1] :], cell, read, places, memory)


def fused(of_x: Tensor, memory: Tensor) -> bool:
    """Whether one kernel takes all steps."""
    there = of_x.device.type in DEVICES and of_x.dtype == torch.float32 and of_x.numel() > 0
    return there and has_triton() and memory[0].numel() <= LARGEST


def _learns(inputs: tuple[Tensor | None, ...]) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)


def _walked(of_x: Tensor, begin: Place, weights: Weights, sizes: Sizes) -> tuple[Tensor, Place]:
    """All steps of which nothing is kept for a way back."""
    place, found = begin._replace(memory=begin.memory.mT), []
    step = compiling.ready(tape_plain.forward)
    for z in of_x:
        place, _ = step(z, place, weights, sizes)
        found.append(_beside(place))
    return torch.stack(found), place._replace(memory=place.memory.mT)


def _beside(place: Place) -> Tensor:
    """What was read and said, side by side (B, R W + C)."""
    return torch.cat([place.read.flatten(1), place.hidden], 1)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of_x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        from regard.kernels import tape_launch

        begin, weights, sizes = Place(*rest[:5]), Weights(*rest[5:9]), rest[9]
        kept = tape_launch.forward(of_x, begin, weights, sizes)
        ctx.kept, ctx.weights, ctx.sizes = kept, weights, sizes
        ends = (x[-1].clone() for x in (kept.cell, kept.places, kept.memory))
        return kept.read_said[1:].clone(), *ends

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gained: Tensor, *end: Tensor) -> tuple[Any, ...]:
        from regard.kernels import tape_launch

        kept, weights = ctx.kept, ctx.weights
        begin, dgates, dorders = tape_launch.backward(
            gained.contiguous(), end, kept, weights, ctx.sizes
        )
        learned = _learned(dgates, dorders, kept.read_said, weights)
        return dgates, *begin, *learned, None


class _Stepped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of_x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        begin, weights, sizes = Place(*rest[:5]), Weights(*rest[5:9]), rest[9]
        places, kept = [begin._replace(memory=begin.memory.mT)], []
        step = compiling.ready(tape_plain.forward)
        for z in of_x:
            after, left = step(z, places[-1], weights, sizes)
            places.append(after)
            kept.append(left)
        read_said = torch.stack(list(map(_beside, places)))
        ctx.places, ctx.kept, ctx.read_said = places, kept, read_said
        ctx.weights, ctx.sizes = weights, sizes
        end = places[-1]
        return read_said[1:].clone(), end.cell.clone(), end.weights.clone(), end.memory.mT.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dread_said: Tensor, *end: Tensor) -> tuple[Any, ...]:
        weights, sizes, kept = ctx.weights, ctx.sizes, ctx.kept
        read = sizes.reads * sizes.cell
        dreads = dread_said[:, :, :read].unflatten(2, (sizes.reads, sizes.cell))
        dhiddens = dread_said[:, :, read:]
        none = torch.zeros_like(dhiddens[0]), torch.zeros_like(dreads[0])
        gained = Place(none[0], end[0], none[1], end[1], end[2].mT)
        gates: list[Any] = [None] * len(kept)
        orders: list[Any] = [None] * len(kept)
        back = compiling.ready(tape_plain.backward)
        for t in reversed(range(len(kept))):
            gained = gained._replace(
                hidden=gained.hidden + dhiddens[t], read=gained.read + dreads[t]
            )
            around = gained, ctx.places[t], ctx.places[t + 1], kept[t]
            gained, gates[t], orders[t] = back(*around, weights, sizes)
        dgates, dorders = torch.stack(gates), torch.stack(orders)
        learned = _learned(dgates, dorders, ctx.read_said, weights)
        return dgates, *gained._replace(memory=gained.memory.mT), *learned, None


def _learned(dgates: Tensor, dorders: Tensor, read_said: Tensor, weights: Weights) -> Weights:
    """What the weights gain of all steps together; `read_said` is of T + 1 moments."""
    gates, orders, R = dgates.flatten(0, 1), dorders.flatten(0, 1), weights.read.shape[1]
    before, after = read_said[:-1].flatten(0, 1), read_said[1:].flatten(0, 1)
    return Weights(
        read=gates.mT @ before[:, :R],
        hidden=None if weights.hidden is None else gates.mT @ before[:, R:],
        orders=orders.mT @ after[:, R:],
        bias=orders.sum(0),
    )
