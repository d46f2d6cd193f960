"""Batches of sentence pairs of like length; their order is a function of the seed and the epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

# The first three ids of every vocabulary.
PAD, BEGIN, END = 0, 1, 2

Example = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sentence pairs side by side, filled up with PAD behind their ends."""

    source: Int64[Tensor, "B S"]
    source_lengths: Int64[Tensor, " B"]
    target: Int64[Tensor, "B T"]  # BEGIN … END
    target_lengths: Int64[Tensor, " B"]  # BEGIN and END are counted
    indices: Int64[Tensor, " B"]  # which examples these are
    tokens: int  # target tokens to predict: all but BEGIN and padding

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Batch":
        """The same batch on `device`."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value.to(device, non_blocking=non_blocking)
        return Batch(**values)

    def __len__(self) -> int:
        return len(self.indices)


class TokenBatches:
    """Every example once an epoch, in batches of at most `tokens` places, padding included.

    A batch counts as its rows times its longest source or target, BEGIN and END with it. An
    example that is larger by itself is alone in its batch.

    Args:
        examples: pairs of source and target ids, without BEGIN and END.
        tokens: the most places of source or target in a batch.
        shuffle: False keeps one order, from short to long, as evaluation wants it.
    """

    def __init__(
        self, examples: Sequence[Example], *, tokens: int, seed: int, shuffle: bool = True
    ):
        if tokens < 1:
            raise ValueError(f"TokenBatches: expected tokens of at least 1, got {tokens}")
        if seed < 0:
            raise ValueError(f"TokenBatches: expected a seed of at least 0, got {seed}")
        if not len(examples):
            raise ValueError("TokenBatches: expected examples, got none")
        self.seed = seed
        self.shuffle = shuffle
        for place, (source, _) in enumerate(examples):
            if not len(source):
                raise ValueError(f"TokenBatches: expected a source, got none in example {place}")
        self._sources = _Rows("source", [source for source, _ in examples])
        self._targets = _Rows("target", [[BEGIN, *target, END] for _, target in examples])
        # By the longer side, then by the source. Each epoch has this order but for ties, and an
        # example's share of a batch is the same among ties: so the cuts are the same too.
        longer = np.maximum(self._sources.lengths, self._targets.lengths)
        self._rank = longer * (1 + self._sources.lengths.max()) + self._sources.lengths
        self._cuts = _cuts(np.sort(longer), tokens)

    def __len__(self) -> int:
        """Batches an epoch, the same in each."""
        return len(self._cuts) - 1

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch, from batch `start` on; those before it are never built."""
        if number < 0:
            raise ValueError(f"epoch: expected a number of at least 0, got {number}")
        if not 0 <= start <= len(self):
            raise ValueError(f"epoch: expected start from 0 to {len(self)}, got {start}")
        return self._built(self._order(number)[start:])

    def _order(self, number: int) -> list[np.ndarray]:
        """The examples of each batch."""
        order = np.arange(len(self._rank))
        random = np.random.default_rng([self.seed, number])
        if self.shuffle:
            random.shuffle(order)
        order = order[np.argsort(self._rank[order], kind="stable")]
        batches = [order[a:b] for a, b in pairwise(self._cuts)]
        if self.shuffle:
            batches = [batches[i] for i in random.permutation(len(batches))]
        return batches

    def _built(self, order: list[np.ndarray]) -> Iterator[Batch]:
        for indices in order:
            source, source_lengths = self._sources.padded(indices)
            target, target_lengths = self._targets.padded(indices)
            yield Batch(
                source,
                source_lengths,
                target,
                target_lengths,
                torch.from_numpy(indices),
                tokens=int(target_lengths.sum()) - len(indices),
            )


class _Rows:
    """Rows of ids end to end in one array, so that no batch is built token by token."""

    def __init__(self, name: str, rows: Sequence[Sequence[int]]):
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self._starts = np.cumsum(self.lengths) - self.lengths
        ids = np.fromiter(chain.from_iterable(rows), np.int64, int(self.lengths.sum()))
        if not 0 <= ids.min() <= ids.max() < 2**31:
            raise ValueError(
                f"TokenBatches: expected {name} ids from 0 to 2^31 - 1, "
                f"got {ids.min()} to {ids.max()}"
            )
        self._ids = ids.astype(np.int32)  # half the memory

    def padded(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """The rows of `indices`, filled up with PAD, and their lengths."""
        lengths = self.lengths[indices]
        places = np.arange(lengths.max())
        ids = self._ids.take(self._starts[indices, None] + places, mode="clip").astype(np.int64)
        ids[places >= lengths[:, None]] = PAD
        return torch.from_numpy(ids), torch.from_numpy(lengths)


def _cuts(sizes: np.ndarray, most: int) -> list[int]:
    """Where batches begin and end, so that rows times the largest size stay within `most`."""
    cuts, largest = [0], 0
    for place, size in enumerate(sizes.tolist()):
        largest = max(largest, size)
        if place > cuts[-1] and (place + 1 - cuts[-1]) * largest > most:
            cuts.append(place)
            largest = size
    return [*cuts, len(sizes)]
