"""Machines that are held to their plain twin: their sizes, and all that they give and learn."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from regard.kernels.ntm import api as ntm_kernel
from regard.kernels.ntm.types import MachineState, Sizes, Weights

each_controller = pytest.mark.parametrize("lstm", [False, True], ids=["feed_forward", "lstm"])
each_heads = pytest.mark.parametrize("heads", [(1, 1), (2, 3)], ids=["1+1", "2+3"])
each_shifts = pytest.mark.parametrize("shifts", [1, 3, 5])
B = 2


class Machine(NamedTuple):
    """What `tape.through` takes."""

    of_x: Tensor
    begin: MachineState
    weights: Weights
    sizes: Sizes


def machine(
    lstm: bool = True,
    heads: tuple[int, int] = (1, 1),
    shifts: int = 3,
    *,
    steps: int = 3,
    N: int = 11,
    W: int = 7,
    C: int = 13,
    dtype: torch.dtype = torch.float32,
) -> Machine:
    """Two machines in the middle of an episode, with so many inputs to come."""
    sizes, Z = Sizes(*heads, W, shifts), 4 * C if lstm else C
    R, H, P = sizes.reads, sizes.heads, sizes.num_head_parameters

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=dtype)

    read, places, memory = drawn(B, R, W), drawn(B, H, N).softmax(-1), drawn(B, N, W)
    begin = MachineState(drawn(B, C), drawn(B, C if lstm else 0), read, places, memory)
    to_said = 0.3 * drawn(Z, C) if lstm else None
    weights = Weights(0.3 * drawn(Z, R * W), to_said, 0.5 * drawn(P, C), drawn(P))
    return Machine(drawn(steps, B, Z), begin, weights, sizes)


def walker() -> Machine:
    """Machines whose heads begin at slot 0 of zeros, go one slot a step, and write ones there."""
    made = machine(False, N=5, W=3, C=2)
    bias = torch.zeros(1, made.sizes.num_head_parameters)
    key, add, erase, gate, _, sharpness, shift = made.sizes.split_head_parameters(bias)
    for told in (key, add, erase, sharpness):
        told.fill_(50.0)
    gate.fill_(-50.0)
    shift.copy_(torch.tensor([-50.0, -50.0, 50.0]))
    weights = made.weights._replace(to_heads=torch.zeros(bias.shape[1], 2), bias=bias[0])
    places, memory = torch.eye(5)[0].expand(B, 2, 5), torch.zeros(B, 5, 3)
    return made._replace(begin=made.begin._replace(weights=places, memory=memory), weights=weights)


def learnt(
    made: Machine, through: Any = ntm_kernel.run_all_steps
) -> tuple[list[Tensor], list[Tensor]]:
    """All that comes out, and what all that goes in gains if each number is wanted differently."""
    leaves, machine = alive(made)
    found, end = through(*machine)
    out = [found, *end]
    return out, list(torch.autograd.grad(wanted(out), leaves, materialize_grads=True))


def wanted(out: list[Tensor]) -> Tensor:
    """One number that depends on every number of all that came out, on each differently."""
    flat = torch.cat([x.flatten() for x in out])
    return flat @ torch.linspace(-1, 1, len(flat)).to(flat)


def alive(made: Machine) -> tuple[list[Tensor], Machine]:
    """All tensors of a machine as leaves that learn, and the machine that is made of them."""
    parts = made.of_x, *made.begin, *made.weights
    given = [None if x is None else x.detach().clone().requires_grad_() for x in parts]
    of_x, begin, weights = given[0], MachineState(*given[1:6]), Weights(*given[6:])
    return [x for x in given if x is not None], Machine(of_x, begin, weights, made.sizes)
