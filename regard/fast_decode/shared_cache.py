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

from regard.kernels.decode_step.api import CPU_MIN_KEYS
from regard.layers.caches import Cache

# For so many tokens of a beam there is room at first, and for twice as many where that is full.
MIN_CAPACITY_STEPS = 32
# One beam alone is read faster where less than so many keys of a head lie empty behind it.
SINGLE_BEAM_SPARE_STEPS = 4


class KeyValue(NamedTuple):
    """What an attention reads, the heads of all sources one after another."""

    k: Tensor  # (B, H, K, D)
    v: Tensor  # (B, H, K, D)


@dataclass(frozen=True, eq=False)
class SharedMemoryCache:
    """The memories of some layers, each read by `beam_width` beams of each source.

    Args:
        layers: the keys and values of each; at least so many keys that they are read fast.
        length: how many keys there are; behind them are zeros.
        has_padding: whether some keys are hidden from somebody.
        beam_width: how many beams read them.
    """

    layers: tuple[KeyValue, ...]
    length: int
    has_padding: bool
    beam_width: int = 1

    @classmethod
    def from_caches(cls, caches: Sequence[Cache], bias: Tensor) -> "SharedMemoryCache":
        """The keys of caches, for one beam a source; `bias` hides some of them (B, 1, 1, S)."""
        length = len(caches[0])
        size = max(CPU_MIN_KEYS, length)
        read = (
            KeyValue(_pad_with_zeros(cache.k, size), _pad_with_zeros(cache.v, size))
            for cache in caches
        )
        return cls(tuple(read), length, has_padding=bool((bias != 0).any()))

    def expand_beams(self, beam_width: int) -> "SharedMemoryCache":
        """The same for so many beams in place of each; products of matrices want keys turned."""
        turned = tuple(KeyValue(k.mT.contiguous().mT, v) for k, v in self.layers)
        return replace(
            self,
            layers=turned if beam_width > 1 else self.layers,
            beam_width=self.beam_width * beam_width,
        )

    def to_caches(self) -> tuple[Cache, ...]:
        """The keys as caches with a row for each beam."""

        def repeat_beams(x: Tensor) -> Tensor:
            real = x[:, :, : self.length]
            return real if self.beam_width == 1 else real.repeat_interleave(self.beam_width, 0)

        return tuple(Cache(repeat_beams(k), repeat_beams(v)) for k, v in self.layers)

    def score_bias(self, bias: Tensor) -> Tensor | None:
        """What is added to scores (B, 1, 1, K), from what it is for each beam (B·W, 1, 1, S).

        None where all that is read may be seen.
        """
        behind = max(CPU_MIN_KEYS - self.length, 0)
        if not behind:
            return bias[:: self.beam_width] if self.has_padding else None
        return F.pad(bias[:: self.beam_width], (0, behind), value=-torch.inf)


@dataclass(frozen=True, eq=False)
class SharedBeamCache:
    """What `beam_width` beams of each source have written, a key each at a step and in a layer.

    A longer one may lie in the same memory; what this one holds stays as it is.

    Args:
        buffers: room for keys and values (B, H, N·W, D) of each layer, those of a step together.
        length: how many steps were made.
        beam_width: how many beams there are, W.
    """

    buffers: tuple[KeyValue, ...]
    length: int
    beam_width: int
    # how many steps were written to this memory, by whoever shares it
    _steps_written: list[int] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_caches(cls, caches: Sequence[Cache]) -> "SharedBeamCache":
        """The keys of caches, written by one beam a source."""
        return cls._copy_with_capacity(
            [KeyValue(cache.k, cache.v) for cache in caches], len(caches[0]), 1
        )

    def expand_beams(self, beam_width: int) -> "SharedBeamCache":
        """Room for so many beams, with what one has written as the first one's."""
        if beam_width == 1:
            return self
        if self.beam_width > 1:
            raise ValueError(f"SharedBeamCache: expected one beam to expand, got {self.beam_width}")

        def pad_beams(x: Tensor) -> Tensor:
            return F.pad(x[:, :, : self.length, None], (0, 0, 0, beam_width - 1)).flatten(2, 3)

        return self._copy_with_capacity(
            [KeyValue(pad_beams(k), pad_beams(v)) for k, v in self.buffers], self.length, beam_width
        )

    def append_step(self) -> tuple["SharedBeamCache", tuple[KeyValue, ...]]:
        """With one step more, and where each layer is to write it (B, H, W, D)."""
        roomy, W = (self if self._can_append() else self._with_capacity()), self.beam_width
        begin = self.length * W
        roomy._steps_written[0] = self.length + 1
        longer = replace(roomy, length=self.length + 1)
        object.__setattr__(longer, "_steps_written", roomy._steps_written)
        # by another name: who holds what was here before is not told of a change
        slots = (KeyValue(*(x.data.narrow(2, begin, W) for x in room)) for room in roomy.buffers)
        return longer, tuple(slots)

    def layers(self) -> tuple[KeyValue, ...]:
        """What is read: all keys that were written, and some that were not where those are few."""
        size = max(CPU_MIN_KEYS, self.length * self.beam_width)
        return tuple(KeyValue(k.narrow(2, 0, size), v.narrow(2, 0, size)) for k, v in self.buffers)

    def next_beam_indices(self, beam_indices: Tensor) -> Tensor:
        """The lines of beams that write themselves what comes next (B·W, T + 1)."""
        if self.beam_width == 1:
            return F.pad(beam_indices, (0, 1))
        beams = torch.arange(self.beam_width).repeat(len(beam_indices) // self.beam_width)
        return torch.cat([beam_indices, beams[:, None]], 1)

    def score_bias(self, beam_indices: Tensor) -> Tensor | None:
        """What is added to the scores (B, 1, W, K) of `layers`, by the lines of beams (B·W, T).

        None where all that is read may be seen.
        """
        W, T, like = self.beam_width, self.length, self.buffers[0].k
        behind = max(CPU_MIN_KEYS - T * W, 0)
        if W > 1:
            seen = (beam_indices[..., None] == torch.arange(W)).view(-1, 1, W, T * W)
            bias = like.new_zeros(()).where(seen, -torch.inf)
        elif behind:
            bias = like.new_zeros(1, 1, 1, T)
        else:
            return None
        return F.pad(bias, (0, behind), value=-torch.inf) if behind else bias

    def to_caches(self, beam_indices: Tensor) -> tuple[Cache, ...]:
        """The keys as caches with a row for each beam, by their lines (B·W, T)."""
        W, T = self.beam_width, self.length
        B, H, _, D = self.buffers[0].k.shape
        places = (beam_indices + torch.arange(T) * W).view(B, 1, W * T, 1).expand(B, H, W * T, D)

        def gather_beams(x: Tensor) -> Tensor:
            if W == 1:
                return x[:, :, :T]
            return x.gather(2, places).view(B, H, W, T, D).transpose(1, 2).flatten(0, 1)

        return tuple(Cache(gather_beams(k), gather_beams(v)) for k, v in self.buffers)

    def _can_append(self) -> bool:
        """Whether the next slots are there, and nobody has written to them."""
        return self._steps_written[0] == self.length < self.buffers[0].k.shape[2] // self.beam_width

    def _with_capacity(self) -> "SharedBeamCache":
        """The same in memory of its own, with room for more."""
        size = self.length * self.beam_width
        rooms = [KeyValue(k.narrow(2, 0, size), v.narrow(2, 0, size)) for k, v in self.buffers]
        return self._copy_with_capacity(rooms, self.length, self.beam_width)

    @classmethod
    def _copy_with_capacity(
        cls, buffers: Sequence[KeyValue], length: int, beam_width: int
    ) -> "SharedBeamCache":
        """A copy with room for more."""
        size = (
            max(CPU_MIN_KEYS, length + SINGLE_BEAM_SPARE_STEPS)
            if beam_width == 1
            else max(MIN_CAPACITY_STEPS, 2 * length) * beam_width
        )

        def pad_keys(k: Tensor) -> Tensor:
            # products of matrices want keys turned; to write one at a time would take longer
            return (
                _pad_with_zeros(k, size)
                if beam_width == 1
                else _pad_with_zeros(k.mT, size, axis=-1).mT
            )

        made = cls(
            tuple(KeyValue(pad_keys(k), _pad_with_zeros(v, size)) for k, v in buffers),
            length,
            beam_width,
        )
        made._steps_written.append(length)
        return made


def _pad_with_zeros(x: Tensor, size: int, axis: int = -2) -> Tensor:
    """A copy with zeros behind it, up to `size` along an axis."""
    shape = list(x.shape)
    shape[axis] = size - x.shape[axis]
    return torch.cat([x, x.new_zeros(shape)], axis)
