"""Keys and values that the beams of a source have in common, so that none of them is ever moved.

Beams of one source read the same memory. What they write lies side by side too, and which of it
belongs to a beam is said by its line: for each token of its past, the beam that wrote it. To move
beams is to move their lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.one_query import LEAST
from regard.layers.caches import Cache

# For so many tokens of a beam there is room at first, and for twice as many where that is full.
ROOM = 32
# One beam alone is read faster where less than so many keys of a head lie empty behind it.
FEW = 4


class Read(NamedTuple):
    """What an attention reads, the heads of all sources one after another."""

    k: Tensor  # (B, H, K, D)
    v: Tensor  # (B, H, K, D)


@dataclass(frozen=True, eq=False)
class Shared:
    """The memories of some layers, each read by `width` beams of each source.

    Args:
        layers: the keys and values of each; at least so many keys that they are read swiftly.
        length: how many keys there are; behind them are zeros.
        padded: whether some keys are hidden from somebody.
        width: how many beams read them.
    """

    layers: tuple[Read, ...]
    length: int
    padded: bool
    width: int = 1

    @classmethod
    def of(cls, caches: Sequence[Cache], bias: Tensor) -> "Shared":
        """The keys of caches, for one beam a source; `bias` hides some of them (B, 1, 1, S)."""
        length = len(caches[0])
        size = max(LEAST, length)
        read = (Read(_roomy(cache.k, size), _roomy(cache.v, size)) for cache in caches)
        return cls(tuple(read), length, padded=bool((bias != 0).any()))

    def spread(self, width: int) -> "Shared":
        """The same for so many beams in place of each; products of matrices want keys turned."""
        turned = tuple(Read(k.mT.contiguous().mT, v) for k, v in self.layers)
        return replace(self, layers=turned if width > 1 else self.layers, width=self.width * width)

    def caches(self) -> tuple[Cache, ...]:
        """The keys as caches with a row for each beam."""

        def own(x: Tensor) -> Tensor:
            real = x[:, :, : self.length]
            return real if self.width == 1 else real.repeat_interleave(self.width, 0)

        return tuple(Cache(own(k), own(v)) for k, v in self.layers)

    def hidden(self, bias: Tensor) -> Tensor | None:
        """What is added to scores (B, 1, 1, K), from what it is for each beam (B·W, 1, 1, S).

        None where all that is read may be seen.
        """
        behind = max(LEAST - self.length, 0)
        if not behind:
            return bias[:: self.width] if self.padded else None
        return F.pad(bias[:: self.width], (0, behind), value=-torch.inf)


@dataclass(frozen=True, eq=False)
class Written:
    """What `width` beams of each source have written, a key each at a step and in a layer.

    A longer one may lie in the same memory; what this one holds stays as it is.

    Args:
        rooms: room for keys and values (B, H, N·W, D) of each layer, those of a step together.
        length: how many steps were made.
        width: how many beams there are, W.
    """

    rooms: tuple[Read, ...]
    length: int
    width: int
    # how many steps were written to this memory, by whoever shares it
    _used: list[int] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, caches: Sequence[Cache]) -> "Written":
        """The keys of caches, written by one beam a source."""
        return cls._own([Read(cache.k, cache.v) for cache in caches], len(caches[0]), 1)

    def spread(self, width: int) -> "Written":
        """Room for so many beams, with what one has written as the first one's."""
        if width == 1:
            return self
        if self.width > 1:
            raise ValueError(f"Written: expected one beam to be spread, got {self.width}")

        def first(x: Tensor) -> Tensor:
            return F.pad(x[:, :, : self.length, None], (0, 0, 0, width - 1)).flatten(2, 3)

        return self._own([Read(first(k), first(v)) for k, v in self.rooms], self.length, width)

    def longer(self) -> tuple["Written", tuple[Read, ...]]:
        """With one step more, and where each layer is to write it (B, H, W, D)."""
        roomy, W = (self if self._follows() else self._moved()), self.width
        begin = self.length * W
        roomy._used[0] = self.length + 1
        longer = replace(roomy, length=self.length + 1)
        object.__setattr__(longer, "_used", roomy._used)
        # by another name: who holds what was here before is not told of a change
        slots = (Read(*(x.data.narrow(2, begin, W) for x in room)) for room in roomy.rooms)
        return longer, tuple(slots)

    def layers(self) -> tuple[Read, ...]:
        """What is read: all keys that were written, and some that were not where those are few."""
        size = max(LEAST, self.length * self.width)
        return tuple(Read(k.narrow(2, 0, size), v.narrow(2, 0, size)) for k, v in self.rooms)

    def line(self, before: Tensor) -> Tensor:
        """The lines of beams that write themselves what comes next (B·W, T + 1)."""
        if self.width == 1:
            return F.pad(before, (0, 1))
        beams = torch.arange(self.width).repeat(len(before) // self.width)
        return torch.cat([before, beams[:, None]], 1)

    def hidden(self, line: Tensor) -> Tensor | None:
        """What is added to the scores (B, 1, W, K) of `layers`, by the lines of beams (B·W, T).

        None where all that is read may be seen.
        """
        W, T, like = self.width, self.length, self.rooms[0].k
        behind = max(LEAST - T * W, 0)
        if W > 1:
            seen = (line[..., None] == torch.arange(W)).view(-1, 1, W, T * W)
            bias = like.new_zeros(()).where(seen, -torch.inf)
        elif behind:
            bias = like.new_zeros(1, 1, 1, T)
        else:
            return None
        return F.pad(bias, (0, behind), value=-torch.inf) if behind else bias

    def caches(self, line: Tensor) -> tuple[Cache, ...]:
        """The keys as caches with a row for each beam, by their lines (B·W, T)."""
        W, T = self.width, self.length
        B, H, _, D = self.rooms[0].k.shape
        places = (line + torch.arange(T) * W).view(B, 1, W * T, 1).expand(B, H, W * T, D)

        def own(x: Tensor) -> Tensor:
            if W == 1:
                return x[:, :, :T]
            return x.gather(2, places).view(B, H, W, T, D).transpose(1, 2).flatten(0, 1)

        return tuple(Cache(own(k), own(v)) for k, v in self.rooms)

    def _follows(self) -> bool:
        """Whether the next slots are there, and nobody has written to them."""
        return self._used[0] == self.length < self.rooms[0].k.shape[2] // self.width

    def _moved(self) -> "Written":
        """The same in memory of its own, with room for more."""
        size = self.length * self.width
        rooms = [Read(k.narrow(2, 0, size), v.narrow(2, 0, size)) for k, v in self.rooms]
        return self._own(rooms, self.length, self.width)

    @classmethod
    def _own(cls, rooms: Sequence[Read], length: int, width: int) -> "Written":
        """A copy with room for more."""
        size = max(LEAST, length + FEW) if width == 1 else max(ROOM, 2 * length) * width

        def key(k: Tensor) -> Tensor:
            # products of matrices want keys turned; to write one at a time would take longer
            return _roomy(k, size) if width == 1 else _roomy(k.mT, size, axis=-1).mT

        made = cls(tuple(Read(key(k), _roomy(v, size)) for k, v in rooms), length, width)
        made._used.append(length)
        return made


def _roomy(x: Tensor, size: int, axis: int = -2) -> Tensor:
    """A copy with zeros behind it, up to `size` along an axis."""
    shape = list(x.shape)
    shape[axis] = size - x.shape[axis]
    return torch.cat([x, x.new_zeros(shape)], axis)
