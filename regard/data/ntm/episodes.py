"""Episodes of the tasks of the Neural Turing Machine: what is shown, what is asked, the answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float32
from torch import Tensor

# Batches an epoch. Episodes are drawn without end, so an epoch is only a number that counts them.
BATCHES_PER_EPOCH = 1000


@dataclass(frozen=True, eq=False)
class Episodes:
    """Some episodes side by side, with zeros behind their ends."""

    inputs: Float32[Tensor, "B T I"]
    targets: Float32[Tensor, "B T O"]  # zeros and ones, and zeros where nothing is asked
    target_mask: Bool[Tensor, "B T"]  # the steps whose output counts
    slots: int  # vectors that a memory has to hold in the longest of them

    @property
    def tokens(self) -> int:
        """How many episodes these are: errors are told in bits an episode."""
        return len(self)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Episodes":
        """The same episodes on `device`."""
        return self.map_tensors(lambda x: x.to(device, non_blocking=non_blocking))

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Episodes":
        """The same episodes, with every tensor changed alike."""
        inputs, targets, asked = map(change, (self.inputs, self.targets, self.target_mask))
        return Episodes(inputs, targets, asked, self.slots)

    def __len__(self) -> int:
        return len(self.inputs)


@runtime_checkable
class Task(Protocol):
    """What episodes are drawn from."""

    @property
    def inputs(self) -> int:
        """Channels of the input: bits, flags and numbers."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What the channels of the input tell that stand behind the bits of a vector."""

    @property
    def outputs(self) -> int:
        """Channels of the output, a bit each."""

    @property
    def steps(self) -> int:
        """Steps of the longest episode, to which all others are filled up."""

    @property
    def slots(self) -> int:
        """Vectors that a memory has to hold in the longest episode."""

    def draw(self, random: np.random.Generator, count: int, difficulty: float = 1.0) -> Episodes:
        """So many episodes, each of a length of its own.

        Args:
            difficulty: how far the greatest length has risen, from 0, the shortest, to 1, the
                longest.
        """

    def parse_episode(self, text: str) -> Episodes:
        """The one episode that a person typed, with its right answer and no filling behind it."""


class EpisodeBatches:
    """Batches of one shape, each drawn from the seed, its epoch and its place alone.

    Args:
        rows: episodes a batch.
        curriculum: over how many batches the greatest length rises to the longest; 0 draws all
            lengths from the beginning.
    """

    def __init__(self, task: Task, *, rows: int, seed: int, curriculum: int = 0):
        for name, value, least in (("rows", rows, 1), ("seed", seed, 0)):
            if value < least:
                raise ValueError(
                    f"EpisodeBatches: expected {name} of at least {least}, got {value}"
                )
        if curriculum < 0:
            raise ValueError(
                f"EpisodeBatches: expected a curriculum of at least 0 batches, got {curriculum}"
            )
        self.task = task
        self.rows = rows
        self.seed = seed
        self.curriculum = curriculum

    def __len__(self) -> int:
        """Batches an epoch, the same in each."""
        return BATCHES_PER_EPOCH

    def epoch(self, number: int, start: int = 0) -> Iterator[Episodes]:
        """The batches of one epoch, from batch `start` on; those before it are never drawn."""
        if number < 0:
            raise ValueError(f"epoch: expected a number of at least 0, got {number}")
        if not 0 <= start <= len(self):
            raise ValueError(f"epoch: expected start from 0 to {len(self)}, got {start}")
        return (self._draw_batch(number, place) for place in range(start, len(self)))

    def _draw_batch(self, number: int, place: int) -> Episodes:
        random = np.random.default_rng([self.seed, number, place])
        drawn = number * len(self) + place + 1
        share = min(1.0, drawn / self.curriculum) if self.curriculum else 1.0
        return self.task.draw(random, self.rows, share)


def episodes_from_arrays(
    inputs: np.ndarray, targets: np.ndarray, target_mask: np.ndarray, slots: int
) -> Episodes:
    """Episodes of arrays (B, T, I), (B, T, O) and (B, T)."""
    shown, right = (each.astype(np.float32, copy=False) for each in (inputs, targets))
    first, second, third = map(torch.from_numpy, (shown, right, target_mask))
    return Episodes(first, second, third, slots)


def curriculum_max(smallest: int, largest: int, difficulty: float) -> int:
    """The greatest length, risen by `difficulty` of the way from `smallest` to `largest`."""
    if not 0 <= difficulty <= 1:
        raise ValueError(f"draw: expected a difficulty from 0 to 1, got {difficulty}")
    return smallest + int(difficulty * (largest - smallest))


def parse_vectors(where: str, text: str, bits: int) -> np.ndarray:
    """The vectors (n, bits) of `01101001 11110000`, with blanks, commas or nothing between them.

    Args:
        where: who reads, for the error message.
    """
    groups = text.replace(",", " ").split() or [text]
    for group in groups:
        if not group or len(group) % bits or set(group) - set("01"):
            form = f"vectors of {bits} bits, as in {example_vectors(bits)}"
            raise ValueError(f"{where}: expected {form}, got {group!r:.80}")
    return np.array([int(bit) for bit in "".join(groups)], np.uint8).reshape(-1, bits)


def example_vectors(bits: int) -> str:
    """Two vectors as one would type them."""
    return " ".join((vector * bits)[:bits] for vector in ("01101001", "11110000"))


def format_vectors(bits: Float32[Tensor, "n O"]) -> str:
    """Vectors as one would type them, `01101001 11110000`; what is above one half is a one.

    >>> format_vectors(torch.tensor([[0.0, 1.0], [0.9, 0.2]]))
    '01 10'
    """
    return " ".join("".join(str(int(bit > 0.5)) for bit in vector) for vector in bits.tolist())
