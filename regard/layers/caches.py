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
from regard.functional.scores import POSITIONAL_SCORES, Score
from regard.layers import scores

# The fewest keys that a growing cache makes room for, and how many more one that is moved about.
MIN_CAPACITY_KEYS, REORDER_SPARE_KEYS = 32, 4


class QKVProjection(NamedTuple):
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
        query_offset: where the first query stands, a number or a tensor of no axes; None puts the
            last query on the last key.
        qkv_projection: what projects the tokens that come next, if whoever began the cache prepared
            it.
    """

    k: Tensor
    v: Tensor
    query_offset: int | Tensor | None = None
    qkv_projection: QKVProjection | None = None
    _buffer: "_KeyBuffer | None" = field(default=None, init=False, repr=False)

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
        _check_new_keys("Cache", self.k, self.v, k, v)
        k, v = k.to(self.k.dtype), v.to(self.v.dtype)
        learns = any(x.requires_grad for x in (self.k, self.v, k, v))
        if learns or torch.compiler.is_compiling():
            return Cache(
                torch.cat([self.k, k], 2),
                torch.cat([self.v, v], 2),
                qkv_projection=self.qkv_projection,
            )
        room = self._buffer
        if room is None or not room.can_append(len(self), k.shape[2]):
            room = _KeyBuffer(self.k, self.v, max(MIN_CAPACITY_KEYS, 2 * (len(self) + k.shape[2])))
            room.append(self.k, self.v)
        room.append(k, v)
        return room.to_cache(self.qkv_projection)

    def crop(self, length: int) -> "Cache":
        """The first `length` keys."""
        _check_length("Cache", length, len(self))
        return Cache(
            self.k[:, :, :length], self.v[:, :, :length], qkv_projection=self.qkv_projection
        )

    def reorder(self, index: Tensor) -> "Cache":
        """The batch rows of `index`, as many as it has: what beam search keeps."""
        _check_row_index("Cache", index, self.k.shape[0])
        return replace(self, k=self.k.index_select(0, index), v=self.v.index_select(0, index))

    def reorder_and_reserve(self, index: Tensor) -> "Cache":
        """As `reorder`, with room for what comes next: beam search does it at every step."""
        if self.query_offset is not None or self.k.requires_grad or torch.compiler.is_compiling():
            return self.reorder(index)
        room = _KeyBuffer(self.k, self.v, len(self) + REORDER_SPARE_KEYS, rows=len(index))
        room.copy_rows(self.k, self.v, index)
        return room.to_cache(self.qkv_projection)

    def with_query_offset(self, offset: int | Tensor) -> "Cache":
        """These keys for queries of another sequence, the first of which stands at `offset` there.

        Turns and scores of distances go by this; rules and biases still count from the last key.
        """
        return replace(self, query_offset=offset)

    def contiguous(self) -> "Cache":
        """These keys and values with each head in one stretch of memory, to be read often."""
        return replace(self, k=self.k.contiguous(), v=self.v.contiguous())

    def to_static(self, size: int, *, finite: bool = False) -> "StaticCache":
        """These keys at the beginning of a cache of `size` slots; `finite` as in `StaticCache`."""
        k, v, fused = self.to_slots(size)
        # filled on the device: a number that is copied there cannot be part of a CUDA graph
        length = torch.full((), len(self), device=k.device)
        free = _free_slot_bias(k, length) if finite else None
        return StaticCache(k, v, length, free, fused)

    def to_slots(self, size: int) -> "Slots":
        """These keys at the beginning of `size` slots, for somebody else to count."""
        if len(self) > size:
            raise ValueError(f"StaticCache: {len(self)} keys, but the cache holds {size}")
        return Slots(_pad_slots(self.k, size), _pad_slots(self.v, size), self.qkv_projection)

    def query_positions(self, n: int) -> Tensor:
        """Where `n` queries stand (n,): on the last keys, unless they are asked from elsewhere."""
        if self.query_offset is None:
            return torch.arange(len(self) - n, len(self), device=self.k.device)
        return self.query_offset + torch.arange(n, device=self.k.device)

    def next_positions(self, n: int) -> Tensor:
        """The positions that the next `n` keys will have (n,)."""
        return torch.arange(len(self), len(self) + n, device=self.k.device)

    def rule(self, rule: Rule | Tensor | None, n: int) -> Rule | Tensor | None:
        """The rule for `n` queries that stand on the last keys."""
        return rule

    def bias(self, bias: Bias | Tensor | None, n: int) -> Bias | Tensor | None:
        """The bias for `n` queries that stand on the last keys."""
        return bias

    def score(self, score: Score, n: int) -> Score:
        """The score for `n` queries that stand on the last keys, or where they ask from."""
        asks = self.query_offset is not None and isinstance(score, POSITIONAL_SCORES)
        return scores.with_positions(score, self.query_positions(n)) if asks else score


class _KeyBuffer:
    """Memory for keys and values, and for some that are still to come; each slot is written once.

    Caches of all lengths share it: what lies behind the keys of one is nothing to it.
    """

    def __init__(self, k: Tensor, v: Tensor, size: int, *, rows: int | None = None):
        B, H, _, D = k.shape
        B = B if rows is None else rows
        self.k, self.v = k.new_empty(B, H, size, D), v.new_empty(B, H, size, v.shape[3])
        self.used = 0

    def can_append(self, length: int, n: int) -> bool:
        """Whether the slots behind the first `length` are free for `n` more."""
        return self.used == length and length + n <= self.k.shape[2]

    def append(self, k: Tensor, v: Tensor) -> None:
        """Fill the next slots."""
        begin, self.used = self.used, self.used + k.shape[2]
        # by another name: who holds the keys before these, such as a look, is not told of a change
        self.k.data[:, :, begin : self.used] = k
        self.v.data[:, :, begin : self.used] = v

    def copy_rows(self, k: Tensor, v: Tensor, index: Tensor) -> None:
        """Fill the first slots with the rows of `index`."""
        self.used = k.shape[2]
        torch.index_select(k, 0, index, out=self.k.data[:, :, : self.used])
        torch.index_select(v, 0, index, out=self.v.data[:, :, : self.used])

    def to_cache(self, qkv_projection: QKVProjection | None) -> Cache:
        """All that was written."""
        cache = Cache(
            self.k[:, :, : self.used], self.v[:, :, : self.used], qkv_projection=qkv_projection
        )
        object.__setattr__(cache, "_buffer", self)
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
        free_slot_bias: if nothing that is not finite was ever written here, the bias that hides the
            free slots (B, 1, 1, N), written in place like them; None if each step is to clear them.
        qkv_projection: as in `Cache`.
    """

    k: Tensor
    v: Tensor
    length: Tensor
    free_slot_bias: Tensor | None = None
    qkv_projection: QKVProjection | None = None

    def __len__(self) -> int:
        return int(self.length)  # waits for the device; nothing here calls it

    def append(self, k: Tensor, v: Tensor) -> "StaticCache":
        """The cache with these keys written behind those that are here."""
        _check_new_keys("StaticCache", self.k, self.v, k, v)
        size, n = self.k.shape[2], k.shape[2]
        if k.requires_grad or v.requires_grad:
            raise ValueError(
                "StaticCache: no gradient flows through keys written in place; "
                "decode under torch.no_grad(), or train without a cache"
            )
        if n > size or (check.can_read_values(self.length) and len(self) + n > size):
            raise ValueError(
                f"StaticCache: no room for {n} more keys, the cache holds {size}"
                + (f" and has {len(self)}" if check.can_read_values(self.length) else "")
            )
        places = self.next_positions(n)
        self.k.index_copy_(2, places, k.to(self.k.dtype))
        self.v.index_copy_(2, places, v.to(self.v.dtype))
        if self.free_slot_bias is not None:
            self.free_slot_bias.index_fill_(3, places, 0.0)
        return replace(self, length=self.length + n)

    def crop(self, length: int) -> "StaticCache":
        """The first `length` keys; the slots behind them are free again."""
        _check_length(
            "StaticCache",
            length,
            len(self) if check.can_read_values(self.length) else self.k.shape[2],
        )
        cut = torch.full_like(self.length, length)
        return replace(
            self,
            length=cut,
            free_slot_bias=self.free_slot_bias
            if self.free_slot_bias is None
            else _free_slot_bias(self.k, cut),
        )

    def reorder(self, index: Tensor) -> "StaticCache":
        """The batch rows of `index` (B,), written in place."""
        _check_row_index("StaticCache", index, self.k.shape[0])
        check.shape("StaticCache", "index", index, B=self.k.shape[0])
        self.k.copy_(self.k.index_select(0, index))
        self.v.copy_(self.v.index_select(0, index))
        return self

    def query_positions(self, n: int) -> Tensor:
        """The positions of the last `n` keys (n,), on which `n` queries stand."""
        return self.next_positions(n) - n

    def next_positions(self, n: int) -> Tensor:
        """The positions that the next `n` keys will have (n,)."""
        return self.length[None] if n == 1 else self.length + torch.arange(n, device=self.k.device)

    def rule(self, rule: Rule | Tensor | None, n: int) -> Rule | Tensor | None:
        """The rule for `n` queries that stand on the last keys: no free slot is seen."""
        if self.free_slot_bias is not None:
            return None if rule is None else _rule_at(rule, self.query_positions(n))
        filled = rules.padding(self.length.expand(self.k.shape[0]))
        return (
            filled if rule is None else rules.both(_rule_at(rule, self.query_positions(n)), filled)
        )

    def bias(self, bias: Bias | Tensor | None, n: int) -> Bias | Tensor | None:
        """The bias for `n` queries that stand on the last keys."""
        if self.free_slot_bias is None:
            # a tensor goes by the index of its query, a function by the position, as a rule does
            return bias if bias is None else _rule_at(bias, self.query_positions(n))
        if bias is None or isinstance(bias, Tensor):
            return self.free_slot_bias if bias is None else bias + self.free_slot_bias
        raise ValueError(
            "StaticCache: finite slots are hidden by a bias, to which only a tensor can be added, "
            f"got {check.describe_kind(bias)}; leave finite out"
        )

    def score(self, score: Score, n: int) -> Score:
        """The score for `n` queries that stand on the last keys."""
        return (
            scores.with_positions(score, self.query_positions(n))
            if isinstance(score, POSITIONAL_SCORES)
            else score
        )

    def to_slots(self) -> "Slots":
        """The slots, for somebody else to count."""
        return Slots(self.k, self.v, self.qkv_projection)


class Slots(NamedTuple):
    """A static cache without its count: layers that step together count once, and one for all."""

    k: Tensor
    v: Tensor
    qkv_projection: QKVProjection | None

    def to_cache(self, length: Tensor, free_slot_bias: Tensor) -> StaticCache:
        """The cache of which `length` slots are filled; `free` as there."""
        return StaticCache(self.k, self.v, length, free_slot_bias, self.qkv_projection)


AnyCache = Cache | StaticCache
CacheT = TypeVar("CacheT", Cache, StaticCache)


def _rule_at(rule: Rule | Tensor, positions: Tensor) -> Rule | Tensor:
    """The rule for queries at `positions`; what goes by the query's index stays as it is."""
    if isinstance(rule, Tensor | rules.DenseMask | rules.Around | rules.At):
        return rule
    if isinstance(rule, rules.Both):
        return rules.both(*(_rule_at(part, positions) for part in rule.rules))
    if isinstance(rule, rules.Either):
        return rules.either(*(_rule_at(part, positions) for part in rule.rules))
    if isinstance(rule, rules.Padding) and rule.side == "left":
        raise ValueError(
            "StaticCache: padding on the left counts from the last slot, not from the last key; "
            "pass a bool tensor (B, 1, 1, N) as the rule"
        )
    return rules.at(rule, positions)


def _free_slot_bias(k: Tensor, length: Tensor) -> Tensor:
    """−inf in the slots behind the first `length` (B, 1, 1, N), else 0."""
    B, _, N, _ = k.shape
    slots = torch.arange(N, device=k.device)
    return torch.where(slots < length, 0.0, -torch.inf).to(k.dtype).repeat(B, 1, 1, 1)


def _pad_slots(x: Tensor, size: int) -> Tensor:
    B, H, K, D = x.shape
    slots = x.new_zeros(B, H, size, D)
    slots[:, :, :K] = x.detach()
    return slots


def _check_new_keys(where: str, k: Tensor, v: Tensor, more_k: Tensor, more_v: Tensor) -> None:
    B, H, _, D = k.shape
    check.shape(where, "k", more_k, B=B, H=H, K=None, D=D)
    check.shape(where, "v", more_v, B=B, H=H, K=more_k.shape[2], Dv=v.shape[3])


def _check_length(where: str, length: int, max_length: int) -> None:
    if not 0 <= length <= max_length:
        raise ValueError(
            f"{where}: expected to crop to a length from 0 to {max_length}, got {length}"
        )


def _check_row_index(where: str, index: Tensor, batch: int) -> None:
    check.integers(where, "index", index)
    if check.can_read_values(index) and bool(((index < 0) | (index >= batch)).any()):
        raise ValueError(
            f"{where}: expected index from 0 to B - 1 = {batch - 1}, got {index.tolist()}"
        )
