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
from regard.functional.call import Call, check_edited_call
from regard.functional.edits import Change, largest_indices
from regard.looking import observers
from regard.looking.key_store import KeyStore, has_keys
from regard.looking.module_paths import ModulePath, check_not_compiled
from regard.looking.record import Source, written_key_count


class EditSession:
    """The changes of one edit, and what its model's attentions were asked while it is open."""

    def __init__(self, model: nn.Module, changes: Mapping[str, Change]):
        self.path = ModulePath(model, self._reset_counts)
        self._changes = dict(changes)
        self._modules = {_module_of(name, self.path.names) for name in self._changes}
        self._store = KeyStore()
        self._counts: dict[str, _CallCounts] = {}
        self._continues_cache, self._rollback_count = False, 0
        for name, change in self._changes.items():
            if _module_of(name, self.path.names) is None:
                raise ValueError(f"edit: {_unknown_name_text(name, model, self.path.names)}")
            if isinstance(change, type) or not callable(change):
                raise ValueError(
                    f"edit: expected a change of {name!r} as a callable from Call to Call, "
                    f"got {check.describe_kind(change)}"
                )

    def is_target_running(self) -> bool:
        """Whether the attention that is running is to be changed."""
        return self.path.name in self._modules

    def note_attention(self, source: Source | None = None) -> None:
        """Note that the module that is running attends, and to what, if that is known."""
        name = self.path.name
        if name is None:
            self.path.note_outside_call()
        if name is None or observers.is_in_backward():
            return
        if source is None or not has_keys(source.tensors, source.keys):
            self._counts.setdefault(name, _CallCounts())
            return
        q, k = source.tensors[0], source.tensors[source.keys or 0]
        self._note_call(q, k, source.count_written if len(source.tensors) > 2 else None)

    def note_row_move(self, parents: Tensor, *, follow: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""
        self._store.note_row_move(parents, follow=follow)

    def edit_call(self, call: Call) -> Call:
        """The call as it is to be run; the very same if nothing is changed."""
        name = self.path.name
        if name is None:
            self.path.note_outside_call()
            return call
        begun, first_key = 0, 0
        if not observers.is_in_backward():
            name, begun, first_key = self._note_call(
                call.q, call.k, lambda: written_key_count(call)
            )
        if name not in self._changes:
            return call
        given = replace(call, first_query=begun, first_key=first_key)
        made = self._changes[name](given)
        return call if made is given else check_edited_call(made, call, where=f"edit of {name!r}")

    def check_all_applied(self) -> None:
        """Refuse changes that changed nothing, since what they name was never there."""
        self.path.check_editable(filter(None, self._modules))
        if not self.path.has_run:
            return
        for name, change in self._changes.items():
            if name not in self._counts:
                there = ", ".join(self._counts) or (
                    "none; regard.look(model) says what it saw and what it could not see"
                )
                raise ValueError(f"edit: {name!r} ran no attention; of this model did {there}")
            query, key = largest_indices(change)
            asked = self._counts[name]
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
        self, q: Tensor, k: Tensor, count_written: Callable[[], int] | None
    ) -> tuple[str, int, int]:
        """Count a call, and give the name of its use, the queries before it and its first key."""
        name = self.path.name
        assert name is not None
        span = None
        if has_keys([q, k], 1):
            with observers.pause_observers():
                entry = self.path.entry
                placement = self._store.place_keys(
                    name, entry, k.detach(), q.shape[2], count_written
                )
            span = placement.span
            name = name if placement.use == 1 else f"{name}#{placement.use}"
        asked = self._counts.setdefault(name, _CallCounts())
        if not asked.is_current:
            # keys that go on from those of the forward before are a cache: all count on
            if span is not None:
                self._continues_cache |= span.is_continuation
                self._rollback_count = max(self._rollback_count, span.rollback_count)
            asked.queries = (
                max(asked.queries - self._rollback_count, 0) if self._continues_cache else 0
            )
            asked.is_current = True
        begun = asked.queries
        asked.queries += q.shape[2]
        asked.most_queries = max(asked.queries, asked.most_queries)
        # a key that is handed in is there, hidden or not: the room of a static cache counts as well
        handed = k.shape[2] if span is None else span.start + span.width
        asked.most_keys = max(handed, asked.most_keys)
        return name, begun, 0 if span is None else span.start

    def _reset_counts(self) -> None:
        self._continues_cache, self._rollback_count = False, 0
        for asked in self._counts.values():
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
    check_not_compiled(model, "edit", "edited")
    editing = EditSession(model, changes)
    with editing.path.follow_model(), observers.open_edit(editing):
        yield
    editing.check_all_applied()
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


def _unknown_name_text(name: str, model: nn.Module, there: list[str]) -> str:
    near = difflib.get_close_matches(name, there, n=3, cutoff=0.5)
    nearest = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(there[:20])}"
    return f"{type(model).__name__} has no module {name!r}; {nearest}"
