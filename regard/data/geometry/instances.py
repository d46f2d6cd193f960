"""Points, and which of them an answer points at, in order: what pointer networks learn from."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

# Batches an epoch. Instances are drawn without end, so an epoch is only a number that counts them.
BATCHES_PER_EPOCH = 1000
# Answers are filled up to a multiple of so many steps: then few forms of batches are met.
ANSWER_STEPS_MULTIPLE = 4
# Batches that are drawn while others are learned from.
PREFETCH_BATCHES = 4
# In which order points are read: as they are given, or from left to right, so that an index tells
# where a point is.
ReadingOrder = Literal["given", "left"]


@dataclass(frozen=True, eq=False)
class Instances:
    """Some instances side by side, with zeros behind their last points."""

    points: Float32[Tensor, "B N D"]
    lengths: Int64[Tensor, " B"]  # how many points each has
    answers: Int64[Tensor, "B T"]  # the points to point at, in order, and −1 behind them

    @property
    def tokens(self) -> int:
        """How many instances these are."""
        return len(self)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Instances":
        """The same instances on `device`."""
        return self.map_tensors(lambda x: x.to(device, non_blocking=non_blocking))

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Instances":
        """The same instances, with every tensor changed alike."""
        return Instances(*map(change, (self.points, self.lengths, self.answers)))

    def __len__(self) -> int:
        return len(self.points)


@runtime_checkable
class Task(Protocol):
    """What instances are drawn from."""

    @property
    def inputs(self) -> int:
        """Coordinates of a point."""

    @property
    def min_points(self) -> int:
        """The fewest points of an instance."""

    @property
    def max_points(self) -> int:
        """The most points of an instance."""

    def draw(self, random: np.random.Generator, count: int) -> Instances:
        """So many instances, each of as many points as chance has it, with their answers."""


class InstanceBatches:
    """Batches, each drawn from the seed, its epoch and its place alone.

    Args:
        rows: instances a batch.
    """

    def __init__(self, task: Task, *, rows: int, seed: int):
        for name, value, least in (("rows", rows, 1), ("seed", seed, 0)):
            if value < least:
                raise ValueError(
                    f"InstanceBatches: expected {name} of at least {least}, got {value}"
                )
        self.task, self.rows, self.seed = task, rows, seed

    def __len__(self) -> int:
        """Batches an epoch, the same in each."""
        return BATCHES_PER_EPOCH

    def epoch(self, number: int, start: int = 0) -> Iterator[Instances]:
        """The batches of one epoch, from batch `start` on; those before it are never drawn."""
        if number < 0:
            raise ValueError(f"epoch: expected a number of at least 0, got {number}")
        if not 0 <= start <= len(self):
            raise ValueError(f"epoch: expected start from 0 to {len(self)}, got {start}")
        return self._prefetch(number, range(start, len(self)))

    def _prefetch(self, number: int, places: range) -> Iterator[Instances]:
        """The batches at these places, some of them drawn while the ones before are used."""
        with ThreadPoolExecutor(2) as pool:
            coming: deque[object] = deque()
            for place in places:
                coming.append(pool.submit(self._draw_batch, number, place))
                if len(coming) > PREFETCH_BATCHES:
                    yield coming.popleft().result()  # type: ignore[attr-defined]
            while coming:
                yield coming.popleft().result()  # type: ignore[attr-defined]

    def _draw_batch(self, number: int, place: int) -> Instances:
        return self.task.draw(np.random.default_rng([self.seed, number, place]), self.rows)


def instances_from_arrays(
    points: np.ndarray, lengths: np.ndarray, answers: np.ndarray
) -> Instances:
    """Instances of arrays (B, N, D), (B,) and (B, T), answers filled up to some more steps."""
    B, T = answers.shape
    filled = np.full((B, -(-T // ANSWER_STEPS_MULTIPLE) * ANSWER_STEPS_MULTIPLE), -1, np.int64)
    filled[:, :T] = answers
    return Instances(
        torch.from_numpy(np.ascontiguousarray(points, np.float32)),
        torch.from_numpy(lengths.astype(np.int64)),
        torch.from_numpy(filled),
    )


def draw_points(
    random: np.random.Generator,
    count: int,
    min_points: int,
    max_points: int,
    *,
    order: ReadingOrder = "given",
) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, most, 2) of the unit square, and how many each row has (count,).

    They are float32 as they are shown, so that an answer is right for what is seen.
    """
    lengths = random.integers(min_points, max_points, count, endpoint=True)
    points = random.random((count, max_points, 2), np.float32)
    behind = np.arange(max_points) >= lengths[:, None]
    if order == "left":
        points[behind] = np.inf
        points = np.take_along_axis(points, points[..., :1].argsort(1, kind="stable"), 1)
    points[behind] = 0
    return points, lengths


def reading_order(points: np.ndarray, order: ReadingOrder) -> np.ndarray:
    """In which order points (n, 2) are read: their indices (n,)."""
    if order == "given":
        return np.arange(len(points))
    return np.argsort(points[:, 0], kind="stable")
