"""All batches of all epochs as one stream whose place can be written down."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Batch(Protocol):
    """What a loss is given: `tokens` is its weight beside other batches, whatever a token is."""

    @property
    def tokens(self) -> int:
        """How many predictions the mean of the loss is over."""

    def to(self, device: Any) -> Any:
        """The same batch on another device."""


@runtime_checkable
class Batches(Protocol):
    """Batches by epoch: the same number gives the same batches in the same order, always."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch, from number `start` on."""


class Stream:
    """Epoch after epoch without end; `epoch` and `batch` say where the next batch stands."""

    def __init__(self, batches: Batches, epoch: int = 0, batch: int = 0):
        self.epoch, self.batch = epoch, batch
        self._batches = batches
        self._remaining = batches.epoch(epoch, batch)

    def next_batch(self) -> Any:
        """The next batch."""
        batch = next(self._remaining, None)
        if batch is None:
            self.epoch, self.batch = self.epoch + 1, 0
            self._remaining = self._batches.epoch(self.epoch, 0)
            batch = next(self._remaining, None)
        if batch is None:
            raise ValueError(f"fit: expected batches, got none in epoch {self.epoch}")
        self.batch += 1
        return batch
