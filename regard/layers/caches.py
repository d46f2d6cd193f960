"""Keys and values that were projected once, kept as values: no module remembers them.

Both caches answer the same questions, so `MultiHead` asks and need not know which one it has:
where do the last queries stand, and what do a rule, a bias or a score mean there?
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from regard import check
from regard.functional import rules
from regard.functional.biases import Bias
from regard.functional.rules import Rule
from regard.functional.scores import Score, placed
from regard.layers import scores

# The fewest keys that a growing cache makes room for, and how many more one that is moved about.
LEAST, SOME = 32, 4


class Fused(NamedTuple):
    """The projections to queries, keys and values as one: parameters, so the same for all rows."""

    weight: nn.Parameter
    bias: nn.Parameter | None


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys (B, H, K, D) and values (B, H, K, Dv); to append to it makes a longer one.

    The longer one may lie in the same memory; what this one holds stays as it is.

    Args:
        k: the keys.
        v: the values.
        first: where the first query stands, a number or a tensor of no axes; None puts the last
            query on the last key.
        fused: what projects the tokens that come next, if whoever began the cache prepared it.
    """

    k: Tensor
    v: Tensor
    first: int | Tensor | None = None
    fused: Fused | None = None
    _room: "_Room | None" = field(default=None, init=False, repr=False)

    @classmethod
    def empty(
        cls,
        batch: int,
        heads: int,
        width: int,
        *,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> "Cache":
        """A cache of no keys."""
        none = torch.empty(batch, heads, 0, width, device=device, dtype=dtype)
        return cls(none, none)

    def __len__(self) -> int:
        return self.k.shape[2]

    def append(self, k: Tensor, v: Tensor) -> "Cache":
        """A cache of these keys behind those that are here."""
        _refuse_strangers("Cache", self.k, self.v, k, v)
        k, v = k.to(self.k.dtype), v.to(self.v.dtype)
        learns = any(x.requires_grad for x in (self.k, self.v, k, v))
        if learns or torch.compiler.is_compiling():
            return Cache(torch.cat([self.k, k], 2), torch.cat([self.v, v], 2), fused=self.fused)
        room = self._room
        if room is None or not room.follows(len(self), k.shape[2]):
            room = _Room(self.k, self.v, max(LEAST, 2 * (len(self) + k.shape[2])))
            room.write(self.k, self.v)
        room.write(k, v)
        return room.cache(self.fused)

    def crop(self, length: int) -> "Cache":
        """The first `length` keys."""
        _refuse_length("Cache", length, len(self))
        return Cache(self.k[:, :, :length], self.v[:, :, :length], fused=self.fused)

    def reorder(self, index: Tensor) -> "Cache":
        """The batch rows of `index`, as many as it has: what beam search keeps."""
        _refuse_rows("Cache", index, self.k.shape[0])
        return replace(self, k=self.k.index_select(0, index), v=self.v.index_select(0, index))

    def reordered(self, index: Tensor) -> "Cache":
        """As `reorder`, with room for what comes next: beam search does it at every step."""
        if self.first is not None or self.k.requires_grad or torch.compiler.is_compiling():
            return self.reorder(index)
        room = _Room(self.k, self.v, len(self) + SOME, rows=len(index))
        room.take(self.k, self.v, index)
        return room.cache(self.fused)

    def asked_from(self, first: int | Tensor) -> "Cache":
        """These keys for queries of another sequence, the first of which stands at `first` there.

        Turns and scores of distances go by this; rules and biases still count from the last key.
        """
        return replace(self, first=first)

    def contiguous(self) -> "Cache":
        """These keys and values with each head in one stretch of memory, to be read often."""
        return replace(self, k=self.k.contiguous(), v=self.v.contiguous())

    def fixed(self, size: int, *, finite: bool = False) -> "StaticCache":
        """These keys at the beginning of a cache of `size` slots; `finite` as in `StaticCache`."""
        k, v, fused = self.slots(size)
        # filled on the device: a number that is copied there cannot be part of a CUDA graph
        length = torch.full((), len(self), device=k.device)
        free = _free(k, length) if finite else None
        return StaticCache(k, v, length, free, fused)

    def slots(self, size: int) -> "Slots":
        """These keys at the beginning of `size` slots, for somebody else to count."""
        if len(self) > size:
            raise ValueError(f"StaticCache: {len(self)} keys, but the cache holds {size}")
        return Slots(_with_room(self.k, size), _with_room(self.v, size), self.fused)

    def last(self, n: int) -> Tensor:
        """Where `n` queries stand (n,): on the last keys, unless they are asked from elsewhere."""
        if self.first is None:
            return torch.arange(len(self) - n, len(self), device=self.k.device)
        return self.first + torch.arange(n, device=self.k.device)

    def next(self, n: int) -> Tensor:
        """The positions that the next `n` keys will have (n,)."""
        return torch.arange(len(self), len(self) + n, device=self.k.device)

    def rule(self, given: Rule | Tensor | None, n: int) -> Rule | Tensor | None:
        """The rule for `n` queries that stand on the last keys."""
        return given

    def bias(self, given: Bias | Tensor | None, n: int) -> Bias | Tensor | None:
        """The bias for `n` queries that stand on the last keys."""
        return given

    def score(self, given: Score, n: int) -> Score:
        """The score for `n` queries that stand on the last keys, or where they ask from."""
        asks = self.first is not None and isinstance(given, placed)
        return scores.at(given, self.last(n)) if asks else given


class _Room:
    """Memory for keys and values, and for some that are still to come; each slot is written once.

    Caches of all lengths share it: what lies behind the keys of one is nothing to it.
    """

    def __init__(self, k: Tensor, v: Tensor, size: int, *, rows: int | None = None):
        B, H, _, D = k.shape
        B = B if rows is None else rows
        self.k, self.v = k.new_empty(B, H, size, D), v.new_empty(B, H, size, v.shape[3])
        self.used = 0

    def follows(self, length: int, n: int) -> bool:
        """Whether the slots behind the first `length` are free for `n` more."""
        return self.used == length and length + n <= self.k.shape[2]

    def write(self, k: Tensor, v: Tensor) -> None:
        """Fill the next slots."""
        begin, self.used = self.used, self.used + k.shape[2]
        # by another name: who holds the keys before these, such as a look, is not told of a change
        self.k.data[:, :, begin : self.used] = k
        self.v.data[:, :, begin : self.used] = v

    def take(self, k: Tensor, v: Tensor, index: Tensor) -> None:
        """Fill the first slots with the rows of `index`."""
        self.used = k.shape[2]
        torch.index_select(k, 0, index, out=self.k.data[:, :, : self.used])
        torch.index_select(v, 0, index, out=self.v.data[:, :, : self.used])

    def cache(self, fused: Fused | None) -> Cache:
        """All that was written."""
        cache = Cache(self.k[:, :, : self.used], self.v[:, :, : self.used], fused=fused)
        object.__setattr__(cache, "_room", self)
        return cache


@dataclass(frozen=True, eq=False)
class StaticCache:
    """A cache of N slots whose shapes never change, for torch.compile and CUDA graphs.

    Appending writes into the slots in place, so a cache that was appended to shares its slots with
    the longer one; look at it with `look(model, copy=True)`. No gradient flows through it.

    Args:
        k: keys (B, H, N, D), of which the first `length` are real.
        v: values (B, H, N, Dv).
        length: how many keys there are, a tensor of no axes: the host never waits for it.
        free: if nothing that is not finite was ever written here, the bias that hides the free
            slots (B, 1, 1, N), written in place like them; None if each step is to clear them.
        fused: as in `Cache`.
    """

    k: Tensor
    v: Tensor
    length: Tensor
    free: Tensor | None = None
    fused: Fused | None = None

    def __len__(self) -> int:
        return int(self.length)  # waits for the device; nothing here calls it

    def append(self, k: Tensor, v: Tensor) -> "StaticCache":
        """The cache with these keys written behind those that are here."""
        _refuse_strangers("StaticCache", self.k, self.v, k, v)
        size, n = self.k.shape[2], k.shape[2]
        if k.requires_grad or v.requires_grad:
            raise ValueError(
                "StaticCache: no gradient flows through keys written in place; "
                "decode under torch.no_grad(), or train without a cache"
            )
        if n > size or (check.readable(self.length) and len(self) + n > size):
            raise ValueError(
                f"StaticCache: no room for {n} more keys, the cache holds {size}"
                + (f" and has {len(self)}" if check.readable(self.length) else "")
            )
        places = self.next(n)
        self.k.index_copy_(2, places, k.to(self.k.dtype))
        self.v.index_copy_(2, places, v.to(self.v.dtype))
        if self.free is not None:
            self.free.index_fill_(3, places, 0.0)
        return replace(self, length=self.length + n)

    def crop(self, length: int) -> "StaticCache":
        """The first `length` keys; the slots behind them are free again."""
        _refuse_length(
            "StaticCache",
            length,
            len(self) if check.readable(self.length) else self.k.shape[2],
        )
        cut = torch.full_like(self.length, length)
        return replace(
            self, length=cut, free=self.free if self.free is None else _free(self.k, cut)
        )

    def reorder(self, index: Tensor) -> "StaticCache":
        """The batch rows of `index` (B,), written in place."""
        _refuse_rows("StaticCache", index, self.k.shape[0])
        check.shape("StaticCache", "index", index, B=self.k.shape[0])
        self.k.copy_(self.k.index_select(0, index))
        self.v.copy_(self.v.index_select(0, index))
        return self

    def last(self, n: int) -> Tensor:
        """The positions of the last `n` keys (n,), on which `n` queries stand."""
        return self.next(n) - n

    def next(self, n: int) -> Tensor:
        """The positions that the next `n` keys will have (n,)."""
        return self.length[None] if n == 1 else self.length + torch.arange(n, device=self.k.device)

    def rule(self, given: Rule | Tensor | None, n: int) -> Rule | Tensor | None:
        """The rule for `n` queries that stand on the last keys: no free slot is seen."""
        if self.free is not None:
            return None if given is None else _at(given, self.last(n))
        filled = rules.padding(self.length.expand(self.k.shape[0]))
        return filled if given is None else rules.both(_at(given, self.last(n)), filled)

    def bias(self, given: Bias | Tensor | None, n: int) -> Bias | Tensor | None:
        """The bias for `n` queries that stand on the last keys."""
        if self.free is None:
            # a tensor goes by the index of its query, a function by the position, as a rule does
            return given if given is None else _at(given, self.last(n))
        if given is None or isinstance(given, Tensor):
            return self.free if given is None else given + self.free
        raise ValueError(
            "StaticCache: finite slots are hidden by a bias, to which only a tensor can be added, "
            f"got {check.kind(given)}; leave finite out"
        )

    def score(self, given: Score, n: int) -> Score:
        """The score for `n` queries that stand on the last keys."""
        return scores.at(given, self.last(n)) if isinstance(given, placed) else given

    def slots(self) -> "Slots":
        """The slots, for somebody else to count."""
        return Slots(self.k, self.v, self.fused)


class Slots(NamedTuple):
    """A static cache without its count: layers that step together count once, and one for all."""

    k: Tensor
    v: Tensor
    fused: Fused | None

    def cache(self, length: Tensor, free: Tensor) -> StaticCache:
        """The cache of which `length` slots are filled; `free` as there."""
        return StaticCache(self.k, self.v, length, free, self.fused)


Keys = Cache | StaticCache
SameKeys = TypeVar("SameKeys", Cache, StaticCache)


def _at(rule: Rule | Tensor, positions: Tensor) -> Rule | Tensor:
    """The rule for queries at `positions`; what goes by the query's index stays as it is."""
    if isinstance(rule, Tensor | rules.Given | rules.Around | rules.At):
        return rule
    if isinstance(rule, rules.Both):
        return rules.both(*(_at(part, positions) for part in rule.rules))
    if isinstance(rule, rules.Either):
        return rules.either(*(_at(part, positions) for part in rule.rules))
    if isinstance(rule, rules.Padding) and rule.side == "left":
        raise ValueError(
            "StaticCache: padding on the left counts from the last slot, not from the last key; "
            "pass a bool tensor (B, 1, 1, N) as the rule"
        )
    return rules.at(rule, positions)


def _free(k: Tensor, length: Tensor) -> Tensor:
    """−inf in the slots behind the first `length` (B, 1, 1, N), else 0."""
    B, _, N, _ = k.shape
    slots = torch.arange(N, device=k.device)
    return torch.where(slots < length, 0.0, -torch.inf).to(k.dtype).repeat(B, 1, 1, 1)


def _with_room(x: Tensor, size: int) -> Tensor:
    B, H, K, D = x.shape
    slots = x.new_zeros(B, H, size, D)
    slots[:, :, :K] = x.detach()
    return slots


def _refuse_strangers(where: str, k: Tensor, v: Tensor, more_k: Tensor, more_v: Tensor) -> None:
    B, H, _, D = k.shape
    check.shape(where, "k", more_k, B=B, H=H, K=None, D=D)
    check.shape(where, "v", more_v, B=B, H=H, K=more_k.shape[2], Dv=v.shape[3])


def _refuse_length(where: str, length: int, most: int) -> None:
    if not 0 <= length <= most:
        raise ValueError(f"{where}: expected to crop to a length from 0 to {most}, got {length}")


def _refuse_rows(where: str, index: Tensor, batch: int) -> None:
    check.integers(where, "index", index)
    if check.readable(index) and bool(((index < 0) | (index >= batch)).any()):
        raise ValueError(
            f"{where}: expected index from 0 to B - 1 = {batch - 1}, got {index.tolist()}"
        )
