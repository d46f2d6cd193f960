"""Things kept within a budget of bytes; those that were used longest ago go first."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Entry(Generic[T]):
    value: T
    size: int
    last_used: int


@dataclass(eq=False)
class LRUCache(Generic[T]):
    """What is kept by name; several threads may use it at once."""

    budget: int
    _entries: dict[str, _Entry[T]] = field(default_factory=dict)
    _clock: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, value: T, size: int) -> None:
        """Keep a thing of so many bytes; what does not fit beside it goes, it itself never."""
        with self._lock:
            self._entries.pop(name, None)
            self._make_room(size)
            self._entries[name] = _Entry(value, size, next(self._clock))

    def get(self, name: str) -> T | None:
        """The thing of this name, which counts as used now, or None where it is not kept."""
        with self._lock:
            place = self._entries.get(name)
            if place is None:
                return None
            place.last_used = next(self._clock)
            return place.value

    def items(self) -> list[tuple[str, T]]:
        """Every name and its thing, the newest last."""
        with self._lock:
            return [(name, place.value) for name, place in self._entries.items()]

    @property
    def bytes(self) -> int:
        """How many are held."""
        with self._lock:
            return self._total_bytes()

    def make_room(self, size: int) -> None:
        """Let go what would not fit beside a thing that is about to come."""
        with self._lock:
            self._make_room(size)

    def _make_room(self, size: int) -> None:
        while self._entries and self._total_bytes() + size > self.budget:
            del self._entries[min(self._entries, key=lambda one: self._entries[one].last_used)]

    def _total_bytes(self) -> int:
        return sum(place.size for place in self._entries.values())
