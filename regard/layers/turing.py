"""Heads that read and write a memory, and all steps of a machine with such heads at once."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.door import named, weigh
from regard.functional import memory
from regard.functional.scores import Cosine
from regard.kernels import following, tape
from regard.kernels.tape_sizes import Place, Sizes, Weights

Shifting = Literal["softmax", "real"]


class State(NamedTuple):
    """All that a machine is between two steps."""

    controller: tuple[Tensor, ...]  # (B, E) each: nothing, or what an LSTM said and remembers
    read: Tensor  # (B, reads, W)
    weights: Tensor  # (B, H, N): where each head is; those that read come first
    memory: Tensor  # (B, N, W)


class Orders(NamedTuple):
    """What a controller tells its heads."""

    key: Tensor  # (B, H, W), k
    add: Tensor  # (B, writes, W), a
    erase: Tensor  # (B, writes, W), e
    gate: Tensor  # (B, H), g
    strength: Tensor  # (B, H), β
    sharpness: Tensor  # (B, H), γ
    shift: Tensor  # (B, H, S), s


class Stages(NamedTuple):
    """How heads find their places, each (B, H, N)."""

    content: Tensor
    gated: Tensor
    shifted: Tensor
    sharpened: Tensor


class Heads(nn.Module):
    """One linear map from a controller to all orders of all heads, and what makes them orders.

    Args:
        cell: numbers in a slot.
        shifts: how many shifts a head may make at a step, as many to each side.
        shifting: a softmax over these shifts, or one real number between the outermost.
        gate: what untrained gates are told, before the sigmoid. Below 0 heads stay and walk before
            they learn to seek by content.
        sharpness: what the sharpness of untrained heads is told, before softplus.
    """

    def __init__(
        self,
        width: int,
        *,
        reads: int,
        writes: int,
        cell: int,
        shifts: int = 3,
        shifting: Shifting = "softmax",
        gate: float = 0.0,
        sharpness: float = 0.0,
    ):
        super().__init__()
        if reads < 1 or writes < 1:
            raise ValueError(
                "Heads: expected at least one head that reads and one that writes, "
                f"got reads={reads} and writes={writes}"
            )
        if shifts < 1 or shifts % 2 == 0:
            raise ValueError(
                f"Heads: expected an odd number of shifts, as many to each side, got {shifts}"
            )
        self.shifts, self.shifting = shifts, shifting
        told = shifts if shifting == "softmax" else 1
        self.sizes = Sizes(reads, writes, cell, told)
        self.orders = nn.Linear(width, self.sizes.orders)
        with torch.no_grad():
            bias = Orders(*self.sizes.parts(self.orders.bias[None]))
            bias.gate.fill_(gate)
            bias.sharpness.fill_(sharpness)

    def forward(self, hidden: Tensor) -> Orders:
        """The orders that the units of a controller (B, E) mean."""
        raw = Orders(*self.sizes.parts(self.orders(hidden)))
        return Orders(
            key=torch.tanh(raw.key),
            add=torch.tanh(raw.add),
            erase=torch.sigmoid(raw.erase),
            gate=torch.sigmoid(raw.gate),
            strength=F.softplus(raw.strength),
            sharpness=1 + F.softplus(raw.sharpness),
            shift=self._shifts(raw.shift),
        )

    @named
    def found(self, orders: Orders, state: State) -> Stages:
        """Where the heads go from where they are, stage by stage."""
        score = Cosine(orders.strength[..., None])
        content = weigh(orders.key[:, :, None], state.memory[:, None], score=score)[:, :, 0]
        gated = memory.interpolate(content, state.weights, orders.gate)
        shifted = memory.shift(gated, orders.shift)
        return Stages(content, gated, shifted, memory.sharpen(shifted, orders.sharpness))

    def moved(self, places: Tensor, orders: Orders, before: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, N, W) written at these places (B, H, N), and then what is read of it."""
        reading, writing = places.split([self.sizes.reads, self.sizes.writes], 1)
        after = memory.write(before, writing, orders.erase, orders.add)
        return after, memory.read(after, reading)

    def _shifts(self, raw: Tensor) -> Tensor:
        if self.shifting == "softmax":
            return torch.softmax(raw, -1)
        return memory.spread(self.shifts // 2 * torch.tanh(raw[..., 0]), self.shifts)


def at_once(inputs: Tensor, heads: Heads) -> bool:
    """Whether all steps may be taken at once: nobody wants to see them one by one."""
    followed = following.watched() or following.dispatched(inputs)
    # half precision is not written out; what autocast lowers would be
    whole = inputs.dtype in (torch.float32, torch.float64)
    whole = whole and not torch.is_autocast_enabled(inputs.device.type)
    return whole and not followed and heads.shifting == "softmax"


def through(
    of_x: Tensor, state: State, to_read: Tensor, to_said: Tensor | None, heads: Heads
) -> tuple[Tensor, State]:
    """What the heads read and the controller said (T, B, R W + E), and the state then.

    Args:
        of_x: the inputs as the controller takes them (T, B, Z), their bias added: Z is E, or 4 E
            for an LSTM.
        to_read: by what the controller multiplies what was read (Z, R W).
        to_said: by what an LSTM multiplies what it said (Z, E); None is a controller without state.
    """
    controller = state.controller
    if to_said is None:
        # nothing that it said, or remembers, counts
        B, E = of_x.shape[1:]
        controller = of_x.new_zeros(B, E), of_x.new_empty(B, 0)
    begin = Place._make((*controller, state.read, state.weights, state.memory))
    weights = Weights(to_read, to_said, heads.orders.weight, heads.orders.bias)
    found, end = tape.through(of_x, begin, weights, heads.sizes)
    kept = () if to_said is None else (end.hidden, end.cell)
    return found, State(kept, end.read, end.weights, end.memory)
