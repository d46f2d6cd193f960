"""The keys of one sequence as an attention's calls saw them: each is kept once, at its position.

A decoder with a cache hands all its keys in at every step, and only the last few are new. Where
keys begin with what the ones before ended with, bit for bit, they go on from them: so a cache that
grows, one that lets its oldest keys go, and one that is written in place are all told by content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

CHANGED = (
    "look: a tensor that was looked at has been changed in place since; read the weights before "
    "that, or keep copies with look(model, copy=True)"
)
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, eq=False)
class Order:
    """Rows of a batch that were moved, as beams are: row b goes on from row `parents[b]` (B,).

    Args:
        followed: whether the rows of a look go with them, or stay those of the batch.
    """

    parents: Tensor
    followed: bool = True


@dataclass(frozen=True, eq=False)
class KeySpan:
    """Which keys of a log one call saw.

    Args:
        log: of all calls of its sequence.
        start: the position of its first key.
        stop: that of the first key it did not see, or that was not written yet.
        width: how many keys were handed in; those from `stop` on were hidden from every query.
        heads: of how many heads they were.
        moves: how often the rows of the log had been moved until then.
        grown: whether its keys go on from those of the call before.
        is_later: whether it is not the first call of the log.
    """

    log: "KeyLog"
    start: int
    stop: int
    width: int
    heads: int
    moves: int
    grown: bool = False
    is_later: bool = False

    def read(self) -> Tensor:
        """The keys (B, H, K, D)."""
        return self.log.read(self)

    def rows(self) -> Tensor | None:
        """The row that each row of the log's last call goes on from (B,); None is its own."""
        return self.log.rows(self.moves)


class KeyLog:
    """The keys of one sequence, which calls add to.

    Args:
        k: the keys of the first call (B, H, K, D).
        used: how many of them are written, and copied now; None keeps a reference until more come.
        use: which use of its module in a forward it belongs to.
    """

    def __init__(self, k: Tensor, used: int | None, use: int = 1):
        self.use = use
        self.length = k.shape[2] if used is None else used
        self._form = _form(k)
        self._dtype = k.dtype
        self._given: tuple[Tensor, int] | None = None
        self._room: Tensor | None = None  # keys, of whichever rows were there then, and some room
        self.moves: list[tuple[int, Order]] = []  # how many keys there were, and how rows moved
        self._tables: tuple[int, Tensor | None] = (0, None)  # of so many moves
        self._rows: list[Tensor | None] = []  # of the last call, before each of the moves
        self.heard = 0  # how many orders there were at its last call; its store's business
        self.own: int | None = None  # the number of the keys of its last call; the same
        if used is None:
            self._given = k, k._version
        else:
            self._own(_bits(k)[:, :, :used])
        self.last = KeySpan(self, 0, self.length, k.shape[2], k.shape[1], 0)

    def place(
        self, k: Tensor, new: int, used: int, orders: Sequence[Order], first: int | None = None
    ) -> KeySpan | None:
        """Where keys stand that go on from these, or are these; None if they do neither.

        Args:
            k: the keys of a call (B, H, K, D).
            new: how many queries it has, hence new keys if any are.
            used: how many of the keys are written.
            orders: how rows may have been moved since the last call.
            first: the number of the keys that they begin with, if it is known.
        """
        if not self._fits(k):
            return None
        given = _bits(k)
        if not orders and first is not None and self._is_grown(k, new, first):
            return self._added(given, self.last.start, self.last.stop + new, True)
        written = given[:, :, :used]
        for order in orders:
            if found := self._continued(written, new, order.parents):
                self.moves.append((self.length, order))
                return self._added(given, *found)
        if self._is_given(k):
            return self._added(given, self.last.start, self.last.stop, False)
        if found := self._continued(written, new, None):
            return self._added(given, *found)
        return None

    def search(self, k: Tensor, new: int, used: int) -> Tensor | None:
        """The rows (B,) that keys go on from, by comparing all with all; None if there are none."""
        if k.shape[0] == 1 or not self._fits(k):
            return None
        written = _bits(k)[:, :, :used]
        for start, stop in self._places(used, new):
            # keys of one position first: where rows differ, they mostly differ there
            for a in (stop - 1, start):
                ours = _spread(self._columns(a, stop), k.shape[1])
                parents = _parents(written[:, :, a - start : stop - start], ours)
                if parents is None:
                    break
            else:
                return parents
        return None

    def is_given(self, k: Tensor) -> bool:
        """True if these keys are the very tensor that is kept, unchanged."""
        return not self._is_changed() and self._is_given(k)

    def read(self, span: KeySpan) -> Tensor:
        """The keys of one call (B, H, K, D)."""
        if self._is_changed():
            raise RuntimeError(CHANGED)
        k = self._columns(span.start, span.stop, span.moves)
        k = _spread(k.view(self._dtype), span.heads)
        missing = span.width - k.shape[2]
        return torch.cat([k, k.new_zeros(*k.shape[:2], missing, k.shape[3])], 2) if missing else k

    def rows(self, moves: int) -> Tensor | None:
        """The row that each of the last rows goes on from, before all but `moves` (B,)."""
        if len(self._rows) != len(self.moves) + 1:
            found: list[Tensor | None] = [None]
            for _, order in reversed(self.moves):
                last, parents = found[-1], order.parents
                earlier = parents if last is None else parents[last]
                found.append(earlier if order.followed else last)
            self._rows = found[::-1]
        return self._rows[moves]

    def tensors(self) -> list[Tensor]:
        """All that is kept."""
        return [self._kept() if self._given is None else self._given[0]]

    def _fits(self, k: Tensor) -> bool:
        """Whether keys may go on from these: unchanged, and as many heads or multiples of them."""
        if _form(k) != self._form or self._is_changed():
            return False
        if self._given is not None and self._given[0].shape[1] != k.shape[1]:
            self._own(_bits(self._given[0]))
        return k.shape[1] % self._kept().shape[1] == 0

    def trim(self) -> None:
        """Keep no room for more keys: none are expected."""
        if self._room is not None and self._room.shape[2] > self.length:
            self._room = self._kept().clone(memory_format=torch.contiguous_format)

    def _is_grown(self, k: Tensor, new: int, first: int) -> bool:
        """Whether keys are those of the last call, all of them, and as many new ones."""
        last, K = self.last, k.shape[2]
        return (
            first == self.own
            and last.heads == k.shape[1]
            and last.stop == self.length
            and last.stop - last.start == last.width == K - new
        )

    def _is_changed(self) -> bool:
        return self._given is not None and self._given[0]._version != self._given[1]

    def _is_given(self, k: Tensor) -> bool:
        return self._given is not None and _is_same(k, self._given[0])

    def _places(self, used: int, new: int) -> Iterable[tuple[int, int]]:
        """Which keys of the log might be the first of so many: all of the last, or all but new."""
        if used == self.last.stop - self.last.start:
            yield self.last.start, self.last.stop
        if 0 < used - new <= self.length:
            yield self.length - (used - new), self.length

    def _continued(
        self, written: Tensor, new: int, parents: Tensor | None
    ) -> tuple[int, int, bool] | None:
        """Where keys (B, H, K, D) stand if rows were moved so, and whether some of them are new."""
        used = written.shape[2]
        for start, stop in self._places(used, new):
            if self._are_equal(written[:, :, : stop - start], start, stop, parents):
                return start, start + used, stop - start < used
        return None

    def _are_equal(self, part: Tensor, start: int, stop: int, parents: Tensor | None) -> bool:
        """Whether these are the keys of the log, bit for bit."""
        ours = self._columns(start, stop, None, parents)
        return torch.equal(part, _spread(ours, part.shape[1]))

    def _added(self, given: Tensor, start: int, stop: int, grown: bool) -> KeySpan:
        if grown:
            if self._given is not None:
                self._own(_bits(self._given[0]))
            self._append(given[:, :, self.length - start : stop - start])
            self.length = stop
        self.last = KeySpan(
            self, start, stop, given.shape[2], given.shape[1], len(self.moves), grown, True
        )
        return self.last

    def _own(self, k: Tensor) -> None:
        """Keep a copy of the first keys, of no more heads than differ."""
        once = k[:, :: _repeats(k)]
        self._given, self._room = None, once.clone(memory_format=torch.contiguous_format)

    def _append(self, k: Tensor) -> None:
        """Add a copy of new keys; room is made for a sixteenth more at a time."""
        kept, n = self._kept(), k.shape[2]
        repeats = k.shape[1] // kept.shape[1]
        once = k if repeats == 1 else k[:, ::repeats]
        if once is not k and not torch.equal(k, _spread(once, k.shape[1])):
            # heads that were alike so far are so no more
            kept, once = _spread(kept, k.shape[1]), k
        B, H, K, D = kept.shape
        room = self._room
        # what inference mode made cannot be written outside of it
        usable = room is not None and room.is_inference() == torch.is_inference_mode_enabled()
        if room is None or not usable or room.shape[1] != H or room.shape[2] < K + n:
            self._room = room = kept.new_empty(B, H, K + n + (K + n) // 16, D)
            room[:, :, :K] = kept
        room[:, :, K : K + n] = once

    def _kept(self) -> Tensor:
        """All keys that are kept (B, H, n, D), as bits."""
        if self._given is not None:
            return _bits(self._given[0])
        assert self._room is not None
        return self._room[:, :, : self.length]

    def _columns(
        self, start: int, stop: int, moves: int | None = None, parents: Tensor | None = None
    ) -> Tensor:
        """Keys of some positions (B, H, n, D), of the rows that there were after so many moves."""
        k = self._kept()[:, :, start:stop]
        rows = self._table(len(self.moves) if moves is None else moves, stop)
        if rows is not None:
            places = torch.arange(stop - start, device=k.device)
            k = k.transpose(1, 2)[rows[:, start:stop], places].transpose(1, 2)
        return k if parents is None else k.index_select(0, parents)

    def _table(self, moves: int, length: int) -> Tensor | None:
        """Which row each key was kept in (B, n), for each row after so many moves."""
        if not moves:
            return None
        done, table = self._tables if self._tables[0] <= moves else (0, None)
        for length_then, order in self.moves[done:moves]:
            table = self._widened(table, length_then, order.parents)[order.parents]
        self._tables = moves, table
        return self._widened(table, max(length, self.length), self.moves[0][1].parents)

    def _widened(self, table: Tensor | None, length: int, like: Tensor) -> Tensor:
        """The table for more keys, each of which is kept in its own row."""
        own = torch.arange(self._form[0], device=like.device)[:, None]
        if table is None:
            return own.expand(-1, length)
        return torch.cat([table, own.expand(-1, length - table.shape[1])], 1)


def _form(k: Tensor) -> tuple[int, int, torch.dtype, torch.device]:
    """What keys share that may go on from one another: all but how many there are, and heads."""
    return k.shape[0], k.shape[3], k.dtype, k.device


def _bits(k: Tensor) -> Tensor:
    """The numbers as integers, so that equal means every bit, NaN among them."""
    return k.view(_BITS[k.element_size()])


def _is_same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are one, in memory that both keep."""
    place = a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
    return place and a._version == b._version


def _spread(k: Tensor, heads: int) -> Tensor:
    """Keys of so many heads, of which several in a row are the same."""
    B, H, K, D = k.shape
    if heads <= H:
        return k[:, :: H // heads]
    return k[:, :, None].expand(B, H, heads // H, K, D).reshape(B, heads, K, D)


def _repeats(k: Tensor) -> int:
    """How many heads in a row have the same keys, where all do so alike; else 1."""
    heads = k.shape[1]
    if heads == 1 or not torch.equal(k[:, 0, :1], k[:, 1, :1]):
        return 1
    starts = (k[:, 1:] != k[:, :-1]).any(dim=0).flatten(1).any(1).nonzero().flatten() + 1
    return gcd(heads, *starts.tolist())


def _parents(part: Tensor, ours: Tensor) -> Tensor | None:
    """For each row of `part` one of `ours` that equals it (B,), its own before others."""
    equal = (part[:, None] == ours).flatten(2).all(2)  # (B, B)
    if not bool(equal.any(1).all()):
        return None
    own = torch.arange(len(equal), device=equal.device)
    return torch.where(equal.diagonal(), own, equal.long().argmax(1))
