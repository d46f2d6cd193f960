"""Numbers to be put in order by pointing at them, the lowest first."""

from dataclasses import dataclass

import numpy as np

from regard.data.geometry.instances import Instances, ReadingOrder, instances_from_arrays


@dataclass(frozen=True)
class Numbers:
    """Numbers from 0 to 1, and the places at which they stand, from the lowest number on."""

    # the fewest numbers of an instance
    min_points: int = 5
    # the most numbers of an instance
    max_points: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.min_points <= self.max_points:
            raise ValueError(f"Numbers: expected 1 ≤ min_points ≤ max_points, got {self}")

    @property
    def inputs(self) -> int:
        """A number each."""
        return 1

    @property
    def order(self) -> ReadingOrder:
        """They are read as they are given."""
        return "given"

    def draw(self, random: np.random.Generator, count: int) -> Instances:
        """So many instances, each of as many numbers as chance has it."""
        lengths = random.integers(self.min_points, self.max_points, count, endpoint=True)
        numbers = random.random((count, self.max_points), np.float32)
        behind = np.arange(self.max_points) >= lengths[:, None]
        numbers[behind] = np.inf
        answers = numbers.argsort(1, kind="stable")
        answers[behind] = -1
        numbers[behind] = 0
        return instances_from_arrays(numbers[..., None], lengths, answers)
