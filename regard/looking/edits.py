"""What is changed on its way through the door: `edit` hands an attention's calls to a change.

Our own attention is changed before a backend is chosen; PyTorch's `scaled_dot_product_attention`,
in anyone's model, runs as a call of ours where a change is meant for it.
"""

import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard import check
from regard.functional.call import Call, recalled
from regard.functional.edits import Change, farthest
from regard.looking import watcher
from regard.looking.key_store import KeyStore, has_keys
from regard.looking.paths import Path, refuse_compiled
from regard.looking.record import Source, written_key_count


class Editing:
    """The changes of one edit, and what its model's attentions were asked while it is open."""

    def __init__(self, model: nn.Module, changes: Mapping[str, Change]):
        self.path = Path(model, self._begin)
        self._changes = dict(changes)
        self._modules = {_module_of(name, self.path.names) for name in self._changes}
        self._store = KeyStore()
        self._asked: dict[str, _CallCounts] = {}
        self._goes_on, self._taken_back = False, 0
        for name, change in self._changes.items():
            if _module_of(name, self.path.names) is None:
                raise ValueError(f"edit: {_unknown(name, model, self.path.names)}")
            if isinstance(change, type) or not callable(change):
                raise ValueError(
                    f"edit: expected a change of {name!r} as a callable from Call to Call, "
                    f"got {check.kind(change)}"
                )

    def means(self) -> bool:
        """Whether the attention that is running is to be changed."""
        return self.path.name in self._modules

    def meet(self, source: Source | None = None) -> None:
        """Note that the module that is running attends, and to what, if that is known."""
        name = self.path.name
        if name is None:
            self.path.note_outside_call()
        if name is None or watcher.going_back():
            return
        if source is None or not has_keys(source.tensors, source.keys):
            self._asked.setdefault(name, _CallCounts())
            return
        q, k = source.tensors[0], source.tensors[source.keys or 0]
        self._note_call(q, k, source.count_written if len(source.tensors) > 2 else None)

    def note_row_move(self, parents: Tensor, *, followed: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""
        self._store.note_row_move(parents, followed=followed)

    def edited(self, call: Call) -> Call:
        """The call as it is to be run; the very same if nothing is changed."""
        name = self.path.name
        if name is None:
            self.path.note_outside_call()
            return call
        begun, first_key = 0, 0
        if not watcher.going_back():
            name, begun, first_key = self._note_call(
                call.q, call.k, lambda: written_key_count(call)
            )
        if name not in self._changes:
            return call
        given = replace(call, begun=begun, first_key=first_key)
        made = self._changes[name](given)
        return call if made is given else recalled(made, call, where=f"edit of {name!r}")

    def refuse_idle(self) -> None:
        """Refuse changes that changed nothing, since what they name was never there."""
        self.path.refuse_unfollowed(filter(None, self._modules))
        if not self.path.entered:
            return
        for name, change in self._changes.items():
            if name not in self._asked:
                there = ", ".join(self._asked) or (
                    "none; regard.look(model) says what it saw and what it could not see"
                )
                raise ValueError(f"edit: {name!r} ran no attention; of this model did {there}")
            query, key = farthest(change)
            asked = self._asked[name]
            if query >= asked.most_queries:
                raise ValueError(
                    f"edit: {name!r} never had more than {asked.most_queries} queries, so there "
                    f"is no query {query}"
                )
            if key >= asked.most_keys:
                raise ValueError(
                    f"edit: {name!r} never had more than {asked.most_keys} keys, so there is no "
                    f"key {key}"
                )

    def _note_call(
        self, q: Tensor, k: Tensor, written: Callable[[], int] | None
    ) -> tuple[str, int, int]:
        """Count a call, and give the name of its use, the queries before it and its first key."""
        name = self.path.name
        assert name is not None
        span = None
        if has_keys([q, k], 1):
            with watcher.aside():
                entry = self.path.entry
                placement = self._store.place_keys(name, entry, k.detach(), q.shape[2], written)
            span = placement.span
            name = name if placement.use == 1 else f"{name}#{placement.use}"
        asked = self._asked.setdefault(name, _CallCounts())
        if not asked.is_current:
            # keys that go on from those of the forward before are a cache: all count on
            if span is not None:
                self._goes_on |= span.is_grown
                self._taken_back = max(self._taken_back, span.taken_back)
            asked.queries = max(asked.queries - self._taken_back, 0) if self._goes_on else 0
            asked.is_current = True
        begun = asked.queries
        asked.queries += q.shape[2]
        asked.most_queries = max(asked.queries, asked.most_queries)
        # a key that is handed in is there, hidden or not: the room of a static cache counts as well
        handed = k.shape[2] if span is None else span.start + span.width
        asked.most_keys = max(handed, asked.most_keys)
        return name, begun, 0 if span is None else span.start

    def _begin(self) -> None:
        self._goes_on, self._taken_back = False, 0
        for asked in self._asked.values():
            asked.is_current = False


@dataclass
class _CallCounts:
    """Counts of the queries and keys of one attention.

    Args:
        queries: how many since they were last counted from 0.
        is_current: whether it attended since the model was last entered.
        most_queries: the most queries that were counted.
        most_keys: the most keys it had.
    """

    queries: int = 0
    is_current: bool = True
    most_queries: int = 0
    most_keys: int = 0


@contextmanager
def edit(model: nn.Module, changes: Mapping[str, Change]) -> Iterator[None]:
    """Inside, attentions of `model` are changed: `{"decoder.blocks.0.cross": edits.ablate(2)}`.

    Every call of an attention that is named goes through its change, from `regard.edits` or any
    callable that takes a `Call` and returns one. A look sees the call that is run. Edits inside of
    one another are applied in the order in which they were opened.

    Queries are counted for each attention from 0, anew whenever the model's `forward` or, of the
    models here, its `start` is entered, unless it goes on from a cache, as when Hugging Face
    generates. So a decoder that goes step by step counts its steps. Keys are counted from the first
    that the cache had, also where it has let that go; one that is still to come is waited for.

    An edit belongs to the thread that opened it: calls of other threads are not changed.

    Args:
        model: its attention may be ours, PyTorch's `scaled_dot_product_attention` or a Hugging Face
            model's that uses it.
        changes: by the names that `look` gives them; of a layer that is shared, the plain name is
            its first use, `name#2` the second.

    Raises:
        ValueError: there is no such module, or it ran no attention by the end, or a query or key
            that is named never came.
    """
    refuse_compiled(model, "edit", "edited")
    editing = Editing(model, changes)
    with editing.path.followed(), watcher.changed_by(editing):
        yield
    editing.refuse_idle()
    warning = editing.path.thread_warning("edit")
    if warning is not None:
        warnings.warn(warning, stacklevel=3)


def _module_of(name: str, names: list[str]) -> str | None:
    """The module that a name means, also the name of a later use; None if there is none."""
    if name in names:
        return name
    module, mark, use = name.rpartition("#")
    there = mark and module in names and use.isdecimal() and int(use) > 1
    return module if there else None


def _unknown(name: str, model: nn.Module, there: list[str]) -> str:
    near = difflib.get_close_matches(name, there, n=3, cutoff=0.5)
    nearest = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(there[:20])}"
    return f"{type(model).__name__} has no module {name!r}; {nearest}"
