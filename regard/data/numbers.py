"""Numbers to be put in order by pointing at them, the lowest first."""

from dataclasses import dataclass

import numpy as np

from regard.data.instances import Instances, Order, instances


@dataclass(frozen=True)
class Numbers:
    """Numbers from 0 to 1, and the places at which they stand, from the lowest number on."""

    # the fewest numbers of an instance
    least: int = 5
    # the most numbers of an instance
    most: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"Numbers: expected 1 ≤ least ≤ most, got {self}")

    @property
    def inputs(self) -> int:
        """A number each."""
        return 1

    @property
    def order(self) -> Order:
        """They are read as they are given."""
        return "given"

    def draw(self, random: np.random.Generator, count: int) -> Instances:
        """So many instances, each of as many numbers as chance has it."""
        lengths = random.integers(self.least, self.most, count, endpoint=True)
        numbers = random.random((count, self.most), np.float32)
        behind = np.arange(self.most) >= lengths[:, None]
        numbers[behind] = np.inf
        answers = numbers.argsort(1, kind="stable")
        answers[behind] = -1
        numbers[behind] = 0
        return instances(numbers[..., None], lengths, answers)
