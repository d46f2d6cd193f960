"""Chance: random choices, sizes and numbers that a dtype holds exactly."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.fuzz.truth import Array

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Draw:
    """Choices and numbers from the seed and the number of a call; each stream has its own."""

    def __init__(self, seed: int, number: int, *stream: int):
        self.random = np.random.default_rng([seed, number, *stream])

    def of(self, values: Sequence[Any], odds: Sequence[float] | None = None) -> Any:
        if odds is None:
            return values[int(self.random.integers(len(values)))]
        edges = np.cumsum(odds)
        return values[int(np.searchsorted(edges, self.random.random() * edges[-1], "right"))]

    def whole(self, low: int, high: int, *shape: int) -> Any:
        """A whole number from low to high, both among them, or an array of them."""
        found = self.random.integers(low, high + 1, shape or None)
        return found if shape else int(found)

    def chance(self, odds: float) -> bool:
        return bool(self.random.random() < odds)

    def mask(self, *shape: int) -> Array:
        return np.asarray(self.random.random(shape) < self.of((0.3, 0.6, 0.9)))

    def normal(self, dtype: str, *shape: int, size: float = 1.0) -> Array:
        return rounded(self.random.standard_normal(shape) * size, dtype)


def rounded(x: Array, dtype: str) -> Array:
    """Float64 numbers that the dtype holds exactly."""
    if dtype == "float64":
        return np.asarray(x, dtype=np.float64)
    if dtype == "float32":
        return np.asarray(x, dtype=np.float32).astype(np.float64)
    return torch.tensor(np.asarray(x)).to(DTYPES[dtype]).double().numpy()
