"""Things kept within a budget of bytes; those that were used longest ago go first."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Place(Generic[T]):
    thing: T
    size: int
    used: int


@dataclass(eq=False)
class Shelf(Generic[T]):
    """What is kept by name; several threads may use it at once."""

    budget: int
    _places: dict[str, _Place[T]] = field(default_factory=dict)
    _clock: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, thing: T, size: int) -> None:
        """Keep a thing of so many bytes; what does not fit beside it goes, it itself never."""
        with self._lock:
            self._places.pop(name, None)
            self._make_room(size)
            self._places[name] = _Place(thing, size, next(self._clock))

    def get(self, name: str) -> T | None:
        """The thing of this name, which counts as used now, or None where it is not kept."""
        with self._lock:
            place = self._places.get(name)
            if place is None:
                return None
            place.used = next(self._clock)
            return place.thing

    def all(self) -> list[tuple[str, T]]:
        """Every name and its thing, the newest last."""
        with self._lock:
            return [(name, place.thing) for name, place in self._places.items()]

    @property
    def bytes(self) -> int:
        """How many are held."""
        with self._lock:
            return self._held()

    def make_room(self, size: int) -> None:
        """Let go what would not fit beside a thing that is about to come."""
        with self._lock:
            self._make_room(size)

    def _make_room(self, size: int) -> None:
        while self._places and self._held() + size > self.budget:
            del self._places[min(self._places, key=lambda one: self._places[one].used)]

    def _held(self) -> int:
        return sum(place.size for place in self._places.values())
