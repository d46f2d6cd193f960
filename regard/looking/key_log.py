"""The keys of one sequence over all calls of an attention: each is kept once, at its position.

A decoder with a cache hands all its keys in at every step, and only the last few are new. Where
keys begin with what the ones before ended with, bit for bit, they go on from them: so a cache that
grows, one that lets its oldest keys go, and one that is written in place are all told by content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

CHANGED_TENSOR_ERROR = (
    "look: a tensor that was looked at has been changed in place since; read the weights before "
    "that, or keep copies with look(model, copy=True)"
)
INTEGER_DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, eq=False)
class RowMove:
    """Rows of a batch that were moved, as beams are: row b goes on from row `parents[b]` (B,).

    Args:
        follow: whether the rows of a look go with them, or stay those of the batch.
    """

    parents: Tensor
    follow: bool = True


class KeySpan(NamedTuple):
    """The keys of a log that belong to one call.

    Args:
        log: of all calls of its sequence.
        start: the position of its first key.
        stop: that of the first key it did not see, or that was not written yet.
        width: how many keys were handed in; those from `stop` on were hidden from every query.
        heads: of how many heads they were.
        moves: how often the rows of the log had been moved until then.
        is_continuation: whether its keys go on from those of the call before.
        is_later: whether it is not the first call of the log.
        cuts: how often keys of the log had been taken back until then.
        rollback_count: how many keys of the call before were taken back for this one.
    """

    log: "KeyLog"
    start: int
    stop: int
    width: int
    heads: int
    moves: int
    is_continuation: bool = False
    is_later: bool = False
    cuts: int = 0
    rollback_count: int = 0

    def read_keys(self) -> Tensor:
        """The keys (B, H, K, D)."""
        return self.log.read_keys(self)

    def parent_rows(self) -> Tensor | None:
        """For each row of the log's last call, the row (B,) that it continues; None is its own."""
        return self.log.parent_rows(self.moves)


class KeyLog:
    """The keys of one sequence, which calls add to.

    Args:
        k: the keys of the first call (B, H, K, D).
        written_count: how many of them are written, and copied now; None keeps a reference until
            more come.
        use: which use of its module in a forward it belongs to.
    """

    def __init__(self, k: Tensor, written_count: int | None, use: int = 1):
        self.use = use
        self.length = k.shape[2] if written_count is None else written_count
        self._key_format = _key_format(k)
        self._dtype = k.dtype
        self._reference: tuple[Tensor, int] | None = None
        self._buffer: Tensor | None = None  # keys, of whichever rows were there then, and some room
        self.moves: list[tuple[int, RowMove]] = []  # how many keys there were, and how rows moved
        self._cuts: list[tuple[int, Tensor]] = []  # how many keys stayed, and those taken back
        self._last_row_table: tuple[int, Tensor | None] = (0, None)  # of so many moves
        self._parent_rows: list[Tensor | None] = []  # of the last call, before each of the moves
        self.move_count_at_last_call = 0  # row moves in the store at its last call; set there
        self.last_keys_id: int | None = None  # of the keys of its last call; set there
        if written_count is None:
            self._reference = k, k._version
        else:
            self._copy_first(_to_bits(k)[:, :, :written_count])
        self.last = KeySpan(self, 0, self.length, k.shape[2], k.shape[1], 0)

    def place_keys(
        self,
        k: Tensor,
        new: int,
        written_count: int,
        row_moves: Sequence[RowMove],
        prefix_id: int | None = None,
    ) -> KeySpan | None:
        """The span of a call's keys if they equal or continue these, new ones appended; else None.

        Args:
            k: the keys of a call (B, H, K, D).
            new: how many queries it has, hence new keys if any are.
            written_count: how many of the keys are written.
            row_moves: how rows may have been moved since the last call.
            prefix_id: the number of the keys that they begin with, if it is known.
        """
        if not self._can_continue(k):
            return None
        if not row_moves and prefix_id is not None and self._is_continuation(k, new, prefix_id):
            return self._add_call(_to_bits(k), self.last.start, self.last.stop + new, True)
        given = _to_bits(k)
        written = given[:, :, :written_count]
        for move in row_moves:
            if found := self._find_continuation(written, new, move.parents):
                self.moves.append((self.length, move))
                return self._add_call(given, *found)
        if self._is_reference(k):
            return self._add_call(given, self.last.start, self.last.stop, False)
        if found := self._find_continuation(written, new, None):
            return self._add_call(given, *found)
        return None

    def roll_back_keys(self, k: Tensor, new: int, written_count: int) -> KeySpan | None:
        """The span of keys that begin as the last call's and go on otherwise; None if they do not.

        So a decoder continues whose last tokens were guesses that are taken back. Behind a sliding
        window its keys may begin later than the last call's.
        """
        stays, last = written_count - new, self.last
        if self.moves or stays <= 0 or last.stop != self.length or not self._can_continue(k):
            return None
        written = _to_bits(k)[:, :, :stays]
        found = self._find_earlier(written, last.start + stays, last.stop - 1)
        if found is None:
            return None
        if self._reference is not None:
            self._copy_first(_to_bits(self._reference[0]))
        self._cuts.append((found, self._all_keys()[:, :, found:].clone()))
        taken_back, self.length = self.length - found, found
        start = found - stays
        call = self._add_call(_to_bits(k), start, start + written_count, True)
        self.last = call._replace(rollback_count=taken_back)
        return self.last

    def matching_rows(self, k: Tensor, new: int, written_count: int) -> Tensor | None:
        """For each row, the row (B,) that its keys continue, by comparing all pairs; else None."""
        if k.shape[0] == 1 or not self._can_continue(k):
            return None
        written = _to_bits(k)[:, :, :written_count]
        for start, stop in self._candidate_spans(written_count, new):
            # keys of one position first: where rows differ, they mostly differ there
            for a in (stop - 1, start):
                ours = _repeat_heads(self._keys_between(a, stop), k.shape[1])
                parents = _matching_parents(written[:, :, a - start : stop - start], ours)
                if parents is None:
                    break
            else:
                return parents
        return None

    def is_reference(self, k: Tensor) -> bool:
        """True if these keys are the very tensor that is kept, unchanged."""
        return not self._is_changed() and self._is_reference(k)

    def read_keys(self, span: KeySpan) -> Tensor:
        """The keys of one call (B, H, K, D)."""
        if self._is_changed():
            raise RuntimeError(CHANGED_TENSOR_ERROR)
        stop, parts = span.stop, list[Tensor]()
        for stays, taken_back in self._cuts[span.cuts :]:
            if stays < stop:
                first = max(stays, span.start)
                parts.insert(0, taken_back[:, :, first - stays : stop - stays])
                stop = first
        parts.insert(0, self._keys_between(span.start, stop, span.moves))
        parts = [_repeat_heads(part.view(self._dtype), span.heads) for part in parts]
        k = torch.cat(parts, 2) if len(parts) > 1 else parts[0]
        missing = span.width - k.shape[2]
        return torch.cat([k, k.new_zeros(*k.shape[:2], missing, k.shape[3])], 2) if missing else k

    def parent_rows(self, moves: int) -> Tensor | None:
        """For each of the last rows, the row (B,) that it continues before all but `moves`."""
        if len(self._parent_rows) != len(self.moves) + 1:
            found: list[Tensor | None] = [None]
            for _, move in reversed(self.moves):
                last, parents = found[-1], move.parents
                earlier = parents if last is None else parents[last]
                found.append(earlier if move.follow else last)
            self._parent_rows = found[::-1]
        return self._parent_rows[moves]

    def tensors(self) -> list[Tensor]:
        """The tensors that the log keeps."""
        kept = self._all_keys() if self._reference is None else self._reference[0]
        return [kept, *(taken_back for _, taken_back in self._cuts)]

    def _can_continue(self, k: Tensor) -> bool:
        """True if keys may continue these: unchanged, and as many heads or multiples of them."""
        if _key_format(k) != self._key_format or self._is_changed():
            return False
        if self._reference is not None and self._reference[0].shape[1] != k.shape[1]:
            self._copy_first(_to_bits(self._reference[0]))
        return self._buffer is None or k.shape[1] % self._buffer.shape[1] == 0

    def release_spare_memory(self) -> None:
        """Free the buffer's room for more keys: none are expected."""
        if self._buffer is not None and self._buffer.shape[2] > self.length:
            self._buffer = self._all_keys().clone(memory_format=torch.contiguous_format)

    def _is_continuation(self, k: Tensor, new: int, prefix_id: int) -> bool:
        """True if keys are those of the last call, all of them, and as many new ones."""
        last, K = self.last, k.shape[2]
        return (
            prefix_id == self.last_keys_id
            and last.heads == k.shape[1]
            and last.stop == self.length
            and last.stop - last.start == last.width == K - new
        )

    def _is_changed(self) -> bool:
        return self._reference is not None and self._reference[0]._version != self._reference[1]

    def _is_reference(self, k: Tensor) -> bool:
        return self._reference is not None and _is_same_tensor(k, self._reference[0])

    def _candidate_spans(self, written_count: int, new: int) -> Iterable[tuple[int, int]]:
        """Spans that might be the first of so many keys: all of the last call's, or all but new."""
        if written_count == self.last.stop - self.last.start:
            yield self.last.start, self.last.stop
        if 0 < written_count - new <= self.length:
            yield self.length - (written_count - new), self.length

    def _find_continuation(
        self, keys: Tensor, new: int, parents: Tensor | None
    ) -> tuple[int, int, bool] | None:
        """Start, stop and whether some are new, of keys (B, H, K, D) that continue; else None."""
        used = keys.shape[2]
        for start, stop in self._candidate_spans(used, new):
            if self._are_equal(keys[:, :, : stop - start], start, stop, parents):
                return start, start + used, stop - start < used
        return None

    def _find_earlier(self, keys: Tensor, first: int, last: int) -> int | None:
        """The latest position from `first` to `last` before which these keys stand; else None."""
        n = keys.shape[2]
        for stop in range(last, first - 1, -1):
            # one key first: where keys differ, mostly each of them does
            ends_alike = self._are_equal(keys[:, :, -1:], stop - 1, stop, None)
            if ends_alike and self._are_equal(keys, stop - n, stop, None):
                return stop
        return None

    def _are_equal(self, part: Tensor, start: int, stop: int, parents: Tensor | None) -> bool:
        """True if these are the keys of the log, bit for bit."""
        ours = self._keys_between(start, stop, None, parents)
        return torch.equal(part, _repeat_heads(ours, part.shape[1]))

    def _add_call(self, keys: Tensor, start: int, stop: int, is_continuation: bool) -> KeySpan:
        """The span of a call, with its new keys appended if there are any."""
        if is_continuation:
            if self._reference is not None:
                self._copy_first(_to_bits(self._reference[0]))
            self._append(keys[:, :, self.length - start : stop - start])
            self.length = stop
        return self._add_span(start, stop, keys, is_continuation)

    def _add_span(self, start: int, stop: int, k: Tensor, is_continuation: bool) -> KeySpan:
        moves, cuts, (_, H, K, _) = len(self.moves), len(self._cuts), k.shape
        self.last = KeySpan(self, start, stop, K, H, moves, is_continuation, True, cuts)
        return self.last

    def _copy_first(self, k: Tensor) -> None:
        """Keep a copy of the first keys, of no more heads than differ."""
        once = k[:, :: _head_repeats(k)]
        self._reference, self._buffer = None, once.clone(memory_format=torch.contiguous_format)

    def _append(self, k: Tensor) -> None:
        """Add a copy of new keys; room is made for a sixteenth more at a time."""
        kept, n = self._all_keys(), k.shape[2]
        repeats = k.shape[1] // kept.shape[1]
        once = k if repeats == 1 else k[:, ::repeats]
        if once is not k and not torch.equal(k, _repeat_heads(once, k.shape[1])):
            # heads that were alike so far are so no more
            kept, once = _repeat_heads(kept, k.shape[1]), k
        B, H, K, D = kept.shape
        room = self._buffer
        # what inference mode made cannot be written outside of it
        usable = room is not None and room.is_inference() == torch.is_inference_mode_enabled()
        if room is None or not usable or room.shape[1] != H or room.shape[2] < K + n:
            self._buffer = room = kept.new_empty(B, H, K + n + (K + n) // 16, D)
            room[:, :, :K] = kept
        room[:, :, K : K + n] = once

    def _all_keys(self) -> Tensor:
        """All keys that are kept (B, H, n, D), as bits."""
        if self._reference is not None:
            return _to_bits(self._reference[0])
        assert self._buffer is not None
        return self._buffer[:, :, : self.length]

    def _keys_between(
        self, start: int, stop: int, moves: int | None = None, parents: Tensor | None = None
    ) -> Tensor:
        """Keys of some positions (B, H, n, D), of the rows that there were after so many moves."""
        k = self._all_keys()[:, :, start:stop]
        rows = self._row_table(len(self.moves) if moves is None else moves, stop)
        if rows is not None:
            places = torch.arange(stop - start, device=k.device)
            k = k.transpose(1, 2)[rows[:, start:stop], places].transpose(1, 2)
        return k if parents is None else k.index_select(0, parents)

    def _row_table(self, moves: int, length: int) -> Tensor | None:
        """The row that each key is stored in (B, n), for each row after so many moves."""
        if not moves:
            return None
        done, table = self._last_row_table if self._last_row_table[0] <= moves else (0, None)
        for length_then, move in self.moves[done:moves]:
            table = self._with_own_rows(table, length_then, move.parents)[move.parents]
        self._last_row_table = moves, table
        return self._with_own_rows(table, max(length, self.length), self.moves[0][1].parents)

    def _with_own_rows(self, table: Tensor | None, length: int, like: Tensor) -> Tensor:
        """The table extended to `length` keys, each stored in its own row."""
        own = torch.arange(self._key_format[0], device=like.device)[:, None]
        if table is None:
            return own.expand(-1, length)
        return torch.cat([table, own.expand(-1, length - table.shape[1])], 1)


def _key_format(k: Tensor) -> tuple[int, int, torch.dtype, torch.device]:
    """Batch, width, dtype and device of keys: these agree wherever keys continue others."""
    return k.shape[0], k.shape[3], k.dtype, k.device


def _to_bits(k: Tensor) -> Tensor:
    """The numbers as integers, so that equal means every bit, NaN among them."""
    return k.view(INTEGER_DTYPES[k.element_size()])


def _is_same_tensor(a: Tensor, b: Tensor) -> bool:
    """True if two tensors are views of the same memory, of one shape, stride and version."""
    place = a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
    return place and a._version == b._version


def _repeat_heads(k: Tensor, heads: int) -> Tensor:
    """Keys repeated to more heads, or every n-th head of them."""
    B, H, K, D = k.shape
    if heads <= H:
        return k[:, :: H // heads]
    return k[:, :, None].expand(B, H, heads // H, K, D).reshape(B, heads, K, D)


def _head_repeats(k: Tensor) -> int:
    """The number of consecutive heads that share keys, if it is the same throughout; else 1."""
    heads = k.shape[1]
    if heads == 1 or not torch.equal(k[:, 0, :1], k[:, 1, :1]):
        return 1
    starts = (k[:, 1:] != k[:, :-1]).any(dim=0).flatten(1).any(1).nonzero().flatten() + 1
    return gcd(heads, *starts.tolist())


def _matching_parents(part: Tensor, ours: Tensor) -> Tensor | None:
    """For each row of `part` one of `ours` that equals it (B,), its own before others."""
    equal = (part[:, None] == ours).flatten(2).all(2)  # (B, B)
    if not bool(equal.any(1).all()):
        return None
    own = torch.arange(len(equal), device=equal.device)
    return torch.where(equal.diagonal(), own, equal.long().argmax(1))
