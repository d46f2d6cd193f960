"""The sizes of a machine, and in which order its heads are told what to do."""

from typing import NamedTuple

from torch import Tensor


class Sizes(NamedTuple):
    """How many heads a machine has, and of which form."""

    reads: int
    writes: int
    cell: int
    shifts: int

    @property
    def heads(self) -> int:
        """All heads; those that read come first."""
        return self.reads + self.writes

    @property
    def activation_sizes(self) -> list[int]:
        """How many orders go through tanh, the sigmoid, softplus and the softmax."""
        H, W, writes = self.heads, self.cell, self.writes
        return [(H + writes) * W, writes * W + H, 2 * H, H * self.shifts]

    @property
    def num_head_parameters(self) -> int:
        """How many numbers the heads are told."""
        return sum(self.activation_sizes)

    def split_head_parameters(self, head_parameters: Tensor) -> tuple[Tensor, ...]:
        """Keys and what is added and erased (B, ·, W); gates, strengths, sharpness (B, H); shifts.

        The order is that of their bends: neighbours are bent at once.
        """
        H, W, writes = self.heads, self.cell, self.writes
        sizes = [H * W, writes * W, writes * W, H, H, H, H * self.shifts]
        key, add, erase, gate, strength, sharpness, shift = head_parameters.split(sizes, 1)
        return (
            key.unflatten(1, (H, W)),
            add.unflatten(1, (writes, W)),
            erase.unflatten(1, (writes, W)),
            gate,
            strength,
            sharpness,
            shift.unflatten(1, (H, self.shifts)),
        )


class Weights(NamedTuple):
    """What a machine has learned, of which its steps need all but the inputs' part."""

    read: Tensor  # (Z, R W): what was read, to the controller
    hidden: Tensor | None  # (Z, C): an LSTM's own state, to its gates
    to_heads: Tensor  # (P, C): the controller, to its heads
    bias: Tensor  # (P,)


class MachineState(NamedTuple):
    """All that a machine is between two steps; `cell` is empty without an LSTM."""

    hidden: Tensor  # (B, C)
    cell: Tensor  # (B, C)
    read: Tensor  # (B, R, W)
    weights: Tensor  # (B, H, N)
    memory: Tensor  # (B, N, W); in `reference` (B, W, N)
