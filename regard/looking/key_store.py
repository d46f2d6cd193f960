"""Where the keys of each call stand among those its attention saw before, and in which use of it.

One module may run several times in a forward. If its keys go on from those of its last call, or are
the same, it is a decoder that goes step by step, and its calls are one after the other. If it is
entered again with as many new keys as queries, more than one, it is a layer that is shared, as in
ALBERT, and each use has a name of its own: `layer.attention`, `layer.attention#2`, ….
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.looking.key_log import KeyLog, KeySpan, Order
from regard.looking.key_origins import Origin

# Sequences that may alternate in one attention, as with and without a prompt under guidance.
MOST_LOGS = 4


class Entry(NamedTuple):
    """Which time a module runs.

    Args:
        run: which of the outermost modules that ran it is inside of.
        time: how often the module has been entered in that run, this time among them.
    """

    run: int
    time: int


class Placed(NamedTuple):
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
    """All keys that the attentions of a model saw, each kept once.

    Args:
        copy: copy keys at once, also where nobody is seen to write into them.
    """

    def __init__(self, *, copy: bool = False):
        self._copy = copy
        self._orders: list[Order] = []
        self._heard = 0  # how many of them were there when a call was last placed
        self._logs: dict[str, list[KeyLog]] = {}
        self._run = -1
        self._uses: dict[str, int] = {}  # the last use of each module in this run
        self._shared: set[int] = set()  # entries that are uses of their own in this run
        self._has_moved = False  # whether rows were moved before this run

    def clear(self) -> None:
        """Let go of all keys."""
        self._orders.clear()
        self._logs.clear()
        self._heard = 0

    def move(self, parents: Tensor, *, followed: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""
        here = torch.arange(len(parents), device=parents.device)
        # a cache moves the rows of every layer
        known = (here, *(order.parents for order in self._orders[self._heard :]))
        if not any(torch.equal(parents, x) for x in known if x.device == parents.device):
            self._orders.append(Order(parents.clone(), followed))

    def place(
        self,
        name: str,
        entry: Entry,
        k: Tensor,
        new: int,
        written: Callable[[], int] | None,
        *,
        followed: bool = True,
        origin: Origin | None = None,
    ) -> Placed:
        """Where the keys of a call of the module `name` stand.

        Args:
            entry: which time the module runs.
            k: the keys (B, H, K, D).
            new: how many queries there are.
            written: how many of the keys any query may see, asked only where it may matter; None
                is all of them.
            followed: whether the rows of a look go with rows that are found to be moved.
            origin: which keys these are and begin with, if that is known.
        """
        if entry.run != self._run:
            self._run = entry.run
            self._uses.clear()
            self._shared.clear()
            self._has_moved = False
        self._heard = len(self._orders)
        # what nobody counts, or somebody wrote in place, may be written again
        logs = self._logs.setdefault(name, [])
        copies = self._copy or k.is_inference() or k._version > 0 or _has_room(logs, k)
        used = written() if copies and written else k.shape[2]
        origin = None if copies else origin
        placed = self._continued(name, entry, k, new, used, followed, origin)
        if (
            placed is None
            and written
            and new < used == k.shape[2]
            and (used := written()) < k.shape[2]
        ):
            # the room of a cache that is not full yet, behind a copy for more heads
            copies, placed = True, self._continued(name, entry, k, new, used, followed)
        if placed is None:
            use = self._use(name, entry, is_whole=1 < new == used)
            last = next((log for log in logs if log.use == use), None)
            log = KeyLog(k, used if copies else None, use)
            is_lost = last is not None and self._is_lost(last, k, new, used)
            logs.insert(0, log)
            placed = Placed(use, log.last, is_lost)
        else:
            # the one that was used last comes first
            logs.remove(placed.span.log)
            logs.insert(0, placed.span.log)
        del logs[MOST_LOGS * max(log.use for log in logs) :]
        placed.span.log.heard = len(self._orders)
        placed.span.log.own = None if origin is None else origin.own
        self._uses[name] = placed.use
        if placed.use > 1:
            self._shared.add(entry.time)
        return placed

    def _continued(
        self,
        name: str,
        entry: Entry,
        k: Tensor,
        new: int,
        used: int,
        followed: bool,
        origin: Origin | None = None,
    ) -> Placed | None:
        """A call whose keys are known, or go on from those that are."""
        # uses of a shared layer may have the same memory
        logs = sorted(self._logs[name], key=lambda log: log.use != entry.time)
        if entry.time in self._shared:
            logs = [log for log in logs if log.use == entry.time]
        elif new == used and entry.time == 1:
            # such keys go on from no others, so they are not compared
            logs = [log for log in logs if log.is_given(k)]
        for log in logs:
            before, first = len(log.moves), not log.last.is_later
            first_keys = None if origin is None else origin.first
            if span := log.place(k, new, used, self._since(log, k), first_keys):
                self._has_moved |= len(log.moves) > before
                return Placed(log.use, span, is_second=first)
        for log in logs:
            parents = log.search(k, new, used) if new < used else None
            if parents is not None:
                self._orders.append(Order(parents, followed))
                self._has_moved, first = True, not log.last.is_later
                span = log.place(k, new, used, self._orders[-1:])
                return None if span is None else Placed(log.use, span, is_second=first)
        return None

    def _use(self, name: str, entry: Entry, *, is_whole: bool) -> int:
        """Which use of its module a call is whose keys are new."""
        is_another = entry.time in self._shared or (is_whole and entry.time > 1)
        return entry.time if is_another else self._uses.get(name, 1)

    def _is_lost(self, log: KeyLog, k: Tensor, new: int, used: int) -> bool:
        """Whether a call goes on from rows of the log, but not in any known way."""
        goes_on = self._has_moved or used - new == log.length
        return new < used and goes_on and bool(self._since(log, k))

    def _since(self, log: KeyLog, k: Tensor) -> list[Order]:
        """How rows may have been moved since the last call of a log."""
        return [order for order in self._orders[log.heard :] if len(order.parents) == len(k)]


def _has_room(logs: list[KeyLog], k: Tensor) -> bool:
    """Whether as many keys were handed in before, of which the last were not written."""
    spans = [log.last for log in logs]
    return any(span.stop - span.start < span.width == k.shape[2] for span in spans)


def has_keys(tensors: list[Tensor], keys: int | None) -> bool:
    """Whether the tensors of a call are queries and keys that can be compared and kept apart."""
    if (
        keys is None
        or any(x.is_nested for x in tensors)
        or tensors[0].dim() != 4
        or tensors[keys].dim() != 4
    ):
        return False
    k = tensors[keys]
    plain = type(k) is Tensor and k.layout == torch.strided and k.device.type != "meta"
    followed = torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack()
    if not plain or followed or not k.is_floating_point() or len(k) != len(tensors[0]):
        return False
    return not (k.is_cuda and torch.cuda.is_current_stream_capturing())
