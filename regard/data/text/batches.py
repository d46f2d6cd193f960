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
# Rows of a batch, and places of its sources and targets.
BatchShape = tuple[int, int]


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
        length_multiple: makes batches of few forms, for a training that is captured: sources and
            targets are as long as the next multiple of it, and each such length has one number of
            rows. Rows that no example fills have a source of PAD alone, no target, and the index
            −1.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        *,
        tokens: int,
        seed: int,
        shuffle: bool = True,
        length_multiple: int | None = None,
    ):
        if tokens < 1:
            raise ValueError(f"TokenBatches: expected tokens of at least 1, got {tokens}")
        if seed < 0:
            raise ValueError(f"TokenBatches: expected a seed of at least 0, got {seed}")
        if length_multiple is not None and length_multiple < 1:
            raise ValueError(
                f"TokenBatches: expected a length_multiple of at least 1, got {length_multiple}"
            )
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
        if length_multiple is None:
            self._sort_keys = longer * (1 + self._sources.lengths.max()) + self._sources.lengths
            self._bounds, self._shapes = _batch_bounds(np.sort(longer), tokens), list[BatchShape]()
        else:
            self._sort_keys = _round_up_lengths(longer, tokens, length_multiple)
            self._bounds, self._shapes = _bounds_and_shapes(self._sort_keys, tokens)

    def __len__(self) -> int:
        """Batches an epoch, the same in each."""
        return len(self._bounds) - 1

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch, from batch `start` on; those before it are never built."""
        if number < 0:
            raise ValueError(f"epoch: expected a number of at least 0, got {number}")
        if not 0 <= start <= len(self):
            raise ValueError(f"epoch: expected start from 0 to {len(self)}, got {start}")
        return self._build_batches(self._order(number)[start:])

    def _order(self, number: int) -> list[tuple[np.ndarray, BatchShape | None]]:
        """The examples of each batch, and its form where that is fixed."""
        order = np.arange(len(self._sort_keys))
        random = np.random.default_rng([self.seed, number])
        if self.shuffle:
            random.shuffle(order)
        order = order[np.argsort(self._sort_keys[order], kind="stable")]
        forms: list[BatchShape | None] = [*self._shapes] if self._shapes else [None] * len(self)
        parts = [order[a:b] for a, b in pairwise(self._bounds)]
        batches = list(zip(parts, forms, strict=True))
        if self.shuffle:
            batches = [batches[i] for i in random.permutation(len(batches))]
        return batches

    def _build_batches(self, order: list[tuple[np.ndarray, BatchShape | None]]) -> Iterator[Batch]:
        for indices, form in order:
            source, source_lengths = self._sources.pad_rows(indices, form)
            target, target_lengths = self._targets.pad_rows(indices, form)
            empty = len(source) - len(indices)
            yield Batch(
                source,
                # what reads a source reads something
                source_lengths.clamp_min(1),
                target,
                target_lengths,
                torch.from_numpy(np.pad(indices, (0, empty), constant_values=-1)),
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

    def pad_rows(
        self, indices: np.ndarray, shape: BatchShape | None = None
    ) -> tuple[Tensor, Tensor]:
        """The rows of `indices`, filled up with PAD, and their lengths."""
        lengths = self.lengths[indices]
        rows, places = shape or (len(indices), int(lengths.max()))
        ids = np.full((rows, places), PAD, dtype=np.int64)
        inside = np.arange(places) < lengths[:, None]
        taken = self._starts[indices, None] + np.arange(places)
        ids[: len(indices)] = np.where(inside, self._ids.take(taken, mode="clip"), PAD)
        lengths = np.pad(lengths, (0, rows - len(indices)))
        return torch.from_numpy(ids), torch.from_numpy(lengths)


def _batch_bounds(sizes: np.ndarray, max_tokens: int) -> list[int]:
    """Where batches begin and end, so that rows times the largest size stay within `max_tokens`."""
    cuts, largest = [0], 0
    for place, size in enumerate(sizes.tolist()):
        largest = max(largest, size)
        if place > cuts[-1] and (place + 1 - cuts[-1]) * largest > max_tokens:
            cuts.append(place)
            largest = size
    return [*cuts, len(sizes)]


def _round_up_lengths(longer: np.ndarray, max_tokens: int, length_multiple: int) -> np.ndarray:
    """The length that each example is filled up to: the next multiple that fills a batch."""
    lengths = -(-longer // length_multiple) * length_multiple
    for length, following in pairwise(np.unique(lengths).tolist()):
        if (lengths == length).sum() < max_tokens // length:
            lengths[lengths == length] = following
    return lengths


def _bounds_and_shapes(lengths: np.ndarray, max_tokens: int) -> tuple[list[int], list[BatchShape]]:
    """Where batches begin and end, and their forms, so that equal lengths have equal forms."""
    cuts, forms = [0], list[BatchShape]()
    for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
        rows = max(1, max_tokens // int(length))
        first = cuts[-1]
        cuts += [first + min(n + rows, int(count)) for n in range(0, int(count), rows)]
        forms += [(rows, int(length))] * (-(-int(count) // rows))
    return cuts, forms
