"""The positions of each call's keys among those of earlier calls of its attention, use by use.

One module may run several times in a forward. If its keys go on from those of its last call, or are
the same, it is a decoder that goes step by step, and its calls are one after the other. If it is
entered again with as many new keys as queries, more than one, it is a layer that is shared, as in
ALBERT, and each use has a name of its own: `layer.attention`, `layer.attention#2`, ….
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.looking.key_log import KeyLog, KeySpan, RowMove
from regard.looking.key_origins import Origin

# Sequences that may alternate in one attention, as with and without a prompt under guidance.
MAX_LOGS_PER_USE = 4


class Entry(NamedTuple):
    """A run of a model, and a time within it that a module is entered.

    Args:
        run: which of the outermost modules that ran it is inside of.
        time: how often the module has been entered in that run, this time among them.
    """

    run: int
    time: int


class Placement(NamedTuple):
    """One call among those of its attention.

    Args:
        use: which use of its module in the forward it belongs to, from 1.
        span: where its keys stand.
        is_lost: whether rows were moved before it, and it is not known which.
        is_second: whether it is the second call of its sequence.
    """

    use: int
    span: KeySpan
    is_lost: bool = False
    is_second: bool = False


class KeyStore:
    """The keys of all attention calls of a model, each kept once.

    Args:
        copy: copy keys at once, also where nobody is seen to write into them.
    """

    def __init__(self, *, copy: bool = False):
        self._copy = copy
        self._row_moves: list[RowMove] = []
        self._move_count_at_last_call = 0  # how many of them were there when a call was last placed
        self._logs: dict[str, list[KeyLog]] = {}
        self._run = -1
        self._uses: dict[str, int] = {}  # the last use of each module in this run
        self._shared_entries: set[int] = set()  # entries that are uses of their own in this run
        self._has_moved = False  # whether rows were moved before this run

    def clear(self) -> None:
        """Let go of all keys."""
        self._row_moves.clear()
        self._logs.clear()
        self._move_count_at_last_call = 0

    def note_row_move(self, parents: Tensor, *, follow: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""
        here = torch.arange(len(parents), device=parents.device)
        # a cache moves the rows of every layer
        known = (
            here,
            *(move.parents for move in self._row_moves[self._move_count_at_last_call :]),
        )
        if not any(torch.equal(parents, x) for x in known if x.device == parents.device):
            self._row_moves.append(RowMove(parents.clone(), follow))

    def place_keys(
        self,
        name: str,
        entry: Entry,
        k: Tensor,
        new: int,
        count_written: Callable[[], int] | None,
        *,
        follow: bool = True,
        origin: Origin | None = None,
    ) -> Placement:
        """The placement of a call's keys among those of the module `name`.

        Args:
            entry: which time the module runs.
            k: the keys (B, H, K, D).
            new: how many queries there are.
            count_written: how many of the keys any query may see, asked only where it may matter;
                None is all of them.
            follow: whether the rows of a look go with rows that are found to be moved.
            origin: which keys these are and begin with, if that is known.
        """
        if entry.run != self._run:
            self._run = entry.run
            self._uses.clear()
            self._shared_entries.clear()
            self._has_moved = False
        self._move_count_at_last_call = len(self._row_moves)
        # what nobody counts, or somebody wrote in place, may be written again
        logs = self._logs.setdefault(name, [])
        copies = self._copy or k.is_inference() or k._version > 0 or _has_spare_room(logs, k)
        used = count_written() if copies and count_written else k.shape[2]
        origin = None if copies else origin
        placement = self._match_log(name, entry, k, new, used, follow, origin)
        if (
            placement is None
            and count_written
            and new < used == k.shape[2]
            and (used := count_written()) < k.shape[2]
        ):
            # the room of a cache that is not full yet, behind a copy for more heads
            copies, placement = True, self._match_log(name, entry, k, new, used, follow)
        if placement is None:
            use = self._new_use(name, entry, is_whole=1 < new == used)
            last = next((log for log in logs if log.use == use), None)
            log = KeyLog(k, used if copies else None, use)
            is_lost = last is not None and self._is_lost(last, k, new, used)
            logs.insert(0, log)
            placement = Placement(use, log.last, is_lost)
        else:
            # the one that was used last comes first
            logs.remove(placement.span.log)
            logs.insert(0, placement.span.log)
        del logs[MAX_LOGS_PER_USE * max(log.use for log in logs) :]
        placement.span.log.move_count_at_last_call = len(self._row_moves)
        placement.span.log.last_keys_id = None if origin is None else origin.keys_id
        self._uses[name] = placement.use
        if placement.use > 1:
            self._shared_entries.add(entry.time)
        return placement

    def _match_log(
        self,
        name: str,
        entry: Entry,
        k: Tensor,
        new: int,
        written_count: int,
        follow: bool,
        origin: Origin | None = None,
    ) -> Placement | None:
        """The placement of a call whose keys equal or continue those of a log; else None."""
        # uses of a shared layer may have the same memory
        logs = self._logs[name]
        if len(logs) > 1:
            logs = sorted(logs, key=lambda log: log.use != entry.time)
        if entry.time in self._shared_entries:
            logs = [log for log in logs if log.use == entry.time]
        elif new == written_count and entry.time == 1:
            # such keys go on from no others, so they are not compared
            logs = [log for log in logs if log.is_reference(k)]
        for log in logs:
            before, first = len(log.moves), not log.last.is_later
            prefix_id = None if origin is None else origin.prefix_id
            if span := log.place_keys(
                k, new, written_count, self._moves_since_last_call(log, k), prefix_id
            ):
                self._has_moved |= len(log.moves) > before
                return Placement(log.use, span, is_second=first)
        for log in logs if new < written_count else ():
            first = not log.last.is_later
            if span := log.roll_back_keys(k, new, written_count):
                return Placement(log.use, span, is_second=first)
        for log in logs:
            parents = log.matching_rows(k, new, written_count) if new < written_count else None
            if parents is not None:
                self._row_moves.append(RowMove(parents, follow))
                self._has_moved, first = True, not log.last.is_later
                span = log.place_keys(k, new, written_count, self._row_moves[-1:])
                return None if span is None else Placement(log.use, span, is_second=first)
        return None

    def _new_use(self, name: str, entry: Entry, *, is_whole: bool) -> int:
        """The use of its module, from 1, that a call with new keys belongs to."""
        is_another = entry.time in self._shared_entries or (is_whole and entry.time > 1)
        return entry.time if is_another else self._uses.get(name, 1)

    def _is_lost(self, log: KeyLog, k: Tensor, new: int, written_count: int) -> bool:
        """True if a call continues rows of the log, but in no known way."""
        goes_on = self._has_moved or written_count - new == log.length
        return new < written_count and goes_on and bool(self._moves_since_last_call(log, k))

    def _moves_since_last_call(self, log: KeyLog, k: Tensor) -> list[RowMove]:
        """The row moves of this batch size since the last call of a log."""
        moves = self._row_moves[log.move_count_at_last_call :]
        return [move for move in moves if len(move.parents) == len(k)]


def _has_spare_room(logs: list[KeyLog], k: Tensor) -> bool:
    """True if as many keys were handed in before, of which the last were not written."""
    spans = [log.last for log in logs]
    return any(span.stop - span.start < span.width == k.shape[2] for span in spans)


def has_keys(tensors: list[Tensor], keys: int | None) -> bool:
    """True if the tensors of a call are queries and keys that can be compared and kept apart."""
    if keys is None:
        return False
    for x in tensors:
        if x.is_nested:
            return False
    q, k = tensors[0], tensors[keys]
    if q.dim() != 4 or k.dim() != 4 or q.shape[0] != k.shape[0]:
        return False
    if type(k) is not Tensor or k.layout != torch.strided or k.is_meta or not k.is_floating_point():
        return False
    if torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack():
        return False
    return not (k.is_cuda and torch.cuda.is_current_stream_capturing())
