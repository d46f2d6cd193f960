"""Heads that read and write a memory, and all steps of a machine with such heads at once."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import fast_path
from regard.dispatch import as_module_call, weigh
from regard.functional import memory
from regard.functional.scores import Cosine
from regard.kernels.ntm import api as ntm_kernel
from regard.kernels.ntm.types import MachineState, Sizes, Weights

ShiftMode = Literal["softmax", "real"]


class State(NamedTuple):
    """All that a machine is between two steps."""

    controller: tuple[Tensor, ...]  # (B, E) each: nothing, or what an LSTM said and remembers
    read: Tensor  # (B, reads, W)
    weights: Tensor  # (B, H, N): where each head is; those that read come first
    memory: Tensor  # (B, N, W)


class HeadParameters(NamedTuple):
    """What a controller tells its heads."""

    key: Tensor  # (B, H, W), k
    add: Tensor  # (B, writes, W), a
    erase: Tensor  # (B, writes, W), e
    gate: Tensor  # (B, H), g
    strength: Tensor  # (B, H), β
    sharpness: Tensor  # (B, H), γ
    shift: Tensor  # (B, H, S), s


class AddressingStages(NamedTuple):
    """How heads find their places, each (B, H, N)."""

    content: Tensor
    gated: Tensor
    shifted: Tensor
    sharpened: Tensor


class Heads(nn.Module):
    """One linear map from a controller to all orders of all heads, and what makes them orders.

    Args:
        slot_width: numbers in a slot.
        shifts: how many shifts a head may make at a step, as many to each side.
        shift_mode: a softmax over these shifts, or one real number between the outermost.
        gate_bias: what untrained gates are told, before the sigmoid. Below 0 heads stay and walk
            before they learn to seek by content.
        sharpness_bias: what the sharpness of untrained heads is told, before softplus.
    """

    def __init__(
        self,
        width: int,
        *,
        read_heads: int,
        write_heads: int,
        slot_width: int,
        shifts: int = 3,
        shift_mode: ShiftMode = "softmax",
        gate_bias: float = 0.0,
        sharpness_bias: float = 0.0,
    ):
        super().__init__()
        if read_heads < 1 or write_heads < 1:
            raise ValueError(
                "Heads: expected at least one head that reads and one that writes, "
                f"got read_heads={read_heads} and write_heads={write_heads}"
            )
        if shifts < 1 or shifts % 2 == 0:
            raise ValueError(
                f"Heads: expected an odd number of shifts, as many to each side, got {shifts}"
            )
        self.shifts, self.shift_mode = shifts, shift_mode
        told = shifts if shift_mode == "softmax" else 1
        self.sizes = Sizes(read_heads, write_heads, slot_width, told)
        self.head_parameters = nn.Linear(width, self.sizes.num_head_parameters)
        with torch.no_grad():
            bias = HeadParameters(
                *self.sizes.split_head_parameters(self.head_parameters.bias[None])
            )
            bias.gate.fill_(gate_bias)
            bias.sharpness.fill_(sharpness_bias)

    def forward(self, hidden: Tensor) -> HeadParameters:
        """The orders that the units of a controller (B, E) mean."""
        raw = HeadParameters(*self.sizes.split_head_parameters(self.head_parameters(hidden)))
        return HeadParameters(
            key=torch.tanh(raw.key),
            add=torch.tanh(raw.add),
            erase=torch.sigmoid(raw.erase),
            gate=torch.sigmoid(raw.gate),
            strength=F.softplus(raw.strength),
            sharpness=1 + F.softplus(raw.sharpness),
            shift=self._shift_weights(raw.shift),
        )

    @as_module_call
    def address(self, parameters: HeadParameters, state: State) -> AddressingStages:
        """Where the heads go from where they are, stage by stage."""
        score = Cosine(parameters.strength[..., None])
        content = weigh(parameters.key[:, :, None], state.memory[:, None], score=score)[:, :, 0]
        gated = memory.interpolate(content, state.weights, parameters.gate)
        shifted = memory.shift(gated, parameters.shift)
        return AddressingStages(
            content, gated, shifted, memory.sharpen(shifted, parameters.sharpness)
        )

    def write_and_read(
        self, weights: Tensor, parameters: HeadParameters, old_memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The memory (B, N, W) written at these places (B, H, N), and then what is read of it."""
        reading, writing = weights.split([self.sizes.reads, self.sizes.writes], 1)
        after = memory.write_memory(old_memory, writing, parameters.erase, parameters.add)
        return after, memory.read_memory(after, reading)

    def _shift_weights(self, raw: Tensor) -> Tensor:
        if self.shift_mode == "softmax":
            return torch.softmax(raw, -1)
        return memory.shift_distribution(self.shifts // 2 * torch.tanh(raw[..., 0]), self.shifts)


def can_run_all_steps(inputs: Tensor, heads: Heads) -> bool:
    """Whether all steps may be taken at once: nobody wants to see them one by one."""
    # half precision is not written out; what autocast lowers would be
    whole = inputs.dtype in (torch.float32, torch.float64)
    whole = whole and not torch.is_autocast_enabled(inputs.device.type)
    return whole and fast_path.not_intercepted(inputs) and heads.shift_mode == "softmax"


def run_all_steps(
    projected_inputs: Tensor,
    state: State,
    read_weight: Tensor,
    hidden_weight: Tensor | None,
    heads: Heads,
) -> tuple[Tensor, State]:
    """What the heads read and the controller said (T, B, R W + E), and the state then.

    Args:
        projected_inputs: the inputs as the controller takes them (T, B, Z), their bias added: Z is
            E, or 4 E for an LSTM.
        read_weight: by what the controller multiplies what was read (Z, R W).
        hidden_weight: by what an LSTM multiplies what it said (Z, E); None is a controller without
            state.
    """
    controller = state.controller
    if hidden_weight is None:
        # nothing that it said, or remembers, counts
        B, E = projected_inputs.shape[1:]
        controller = projected_inputs.new_zeros(B, E), projected_inputs.new_empty(B, 0)
    begin = MachineState._make((*controller, state.read, state.weights, state.memory))
    weights = Weights(
        read_weight, hidden_weight, heads.head_parameters.weight, heads.head_parameters.bias
    )
    found, end = ntm_kernel.run_all_steps(projected_inputs, begin, weights, heads.sizes)
    kept = () if hidden_weight is None else (end.hidden, end.cell)
    return found, State(kept, end.read, end.weights, end.memory)
