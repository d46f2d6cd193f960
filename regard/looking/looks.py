"""What is seen through the door: `look` keeps references, and computes weights when asked.

Opening a look changes neither the output of a call nor the kernel that runs it. Calls of PyTorch's
own `scaled_dot_product_attention` and `nn.MultiheadAttention`, in anyone's model, are seen as well,
and so is what a model computes by itself. What ran and could not be seen is said at the end.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from regard.functional.call import Why
from regard.looking import observers, unseen_modules
from regard.looking.attention_record import AttentionRecord
from regard.looking.key_store import KeyStore, Placement, has_keys
from regard.looking.module_paths import ModulePath, check_not_compiled
from regard.looking.other_modes import without_recorders
from regard.looking.record import (
    RecordedCall,
    Recorder,
    Source,
    unreadable_source,
    without_spare_memory,
)


class Seen:
    """What a look has seen so far, by name: `seen.names()`, `seen["decoder.0.cross"].weights()`."""

    def __init__(self, model: nn.Module | None, copy: bool):
        self._model = model
        self._recorder = Recorder(copy=copy)
        self._keys = KeyStore(copy=copy)
        self._calls: dict[str, list[RecordedCall]] = {}
        self._attending_names: dict[str, None] = {}
        self.path = ModulePath(model)

    def names(self) -> list[str]:
        """The modules that attended, in the order of their first call; bare calls are numbered."""
        return list(self._calls)

    def __getitem__(self, name: str) -> AttentionRecord:
        if name not in self._calls:
            there = ", ".join(self._calls) or "none"
            missed = f"; not seen: {unseen_modules.name_list(self.unseen)}" if self.unseen else ""
            raise KeyError(f"look: no attention named {name!r} was seen; there is {there}{missed}")
        return AttentionRecord(name, tuple(self._calls[name]))

    def __contains__(self, name: str) -> bool:
        return name in self._calls

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Modules that ran, or may have run compiled, and look like attention that was not seen."""
        if self.path.has_run_only_elsewhere:
            return tuple(self.path.names[:1])
        path = self.path
        ran = unseen_modules.unseen_names(path.modules, path.executed_names, self._attending_names)
        return tuple(
            dict.fromkeys(
                (*ran, *path.compiled_runs.unseen_names(path.executed_names), *path.direct_methods)
            )
        )

    def warning_text(self) -> str | None:
        """Sentences if modules that look like attention were not seen, or nothing was."""
        path = self.path
        known = (
            path.thread_warning("look"),
            path.compiled_runs.warning_text(path.compiled_runs.unseen_names(path.executed_names)),
            path.direct_warning(),
        )
        found = [sentence for sentence in known if sentence is not None]
        if found and not unseen_modules.unseen_names(
            path.modules, path.executed_names, self._attending_names
        ):
            return ". ".join(found)
        other = unseen_modules.unseen_warning(
            path.modules, path.executed_names, self._attending_names
        )
        return ". ".join([*found, *([] if other is None else [other])]) or None

    def clear(self) -> None:
        """Forget all that was seen, and let go of its memory."""
        self._calls.clear()
        self._recorder.clear()
        self._keys.clear()

    def release_spare_memory(self) -> None:
        """Copy the keys that are shared with a cache, and free what is reserved for more."""
        calls = (kept for calls in self._calls.values() for kept in calls)
        for log in {kept.span.log for kept in calls if kept.span is not None}:
            log.release_spare_memory()

    def memory(self) -> int:
        """The bytes that are kept alive, including tensors that the model keeps as well."""
        tensors: list[Tensor] = []
        for calls in self._calls.values():
            for kept in calls:
                tensors += [tensor for tensor, _ in kept.tensors]
                tensors += [] if kept.span is None else kept.span.log.tensors()
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}
        return sum(storages.values())

    def keep(self, source: Source, why: Callable[[], Why]) -> None:
        """Keep one call, by what it is made from."""
        name = self.path.name
        if name is None:
            if self._model is not None:
                self.path.note_outside_call()
                return
            name = f"attend.{len(self._calls)}"
        self._attending_names[name] = None
        try:
            self._keep_call(name, source, why)
        except Exception as error:
            # what cannot be kept, in the middle of a model, is an error only when it is read
            kept = self._recorder.keep(unreadable_source(str(error)), why, None)
            self._calls.setdefault(name, []).append(kept)

    def note_row_move(self, parents: Tensor, *, follow: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""
        self._keys.note_row_move(parents, follow=follow)

    def _keep_call(self, name: str, source: Source, why: Callable[[], Why]) -> None:
        placement = None
        if self._model is not None and has_keys(source.tensors, source.keys):
            placement = self._place_keys(name, source)
            name = name if placement.use == 1 else f"{name}#{placement.use}"
        kept = self._recorder.keep(source, why, placement)
        calls = self._calls.setdefault(name, [])
        if placement is not None and placement.is_second:
            # a decoder goes step by step: its first call keeps no more alive than the others
            log = placement.span.log
            calls[:] = [without_spare_memory(x) if x.has_keys_in(log) else x for x in calls]
        calls.append(kept)

    def _place_keys(self, name: str, source: Source) -> Placement:
        q, k = source.tensors[0], source.tensors[source.keys or 0]
        # weights that are kept as they ran say what was masked
        masked = len(source.tensors) > 2 or q.shape[3] == k.shape[2]
        return self._keys.place_keys(
            name,
            self.path.entry,
            k,
            q.shape[2],
            source.count_written if masked else None,
            origin=source.origin,
            follow=observers.should_follow_rows(),
        )


@contextmanager
def look(model: nn.Module | None = None, *, copy: bool = False) -> Iterator[Seen]:
    """See every attention inside `model`, or every call at all if none is given.

    Args:
        model: whose modules to name; its attention may be ours, PyTorch's or Hugging Face's.
        copy: keep copies, for a model that writes into its cache in place; a reference costs
            nothing, but is only good until somebody writes into it. A write that PyTorch does not
            count, through `.data` or a NumPy array that shares the memory, goes unnoticed: where
            there are such, keep copies.

    A look belongs to the thread that opened it: it sees no call of another, and is closed there.

    Raises:
        ValueError: the model is compiled, scripted or traced, so that it would run unseen.
    """
    if model is not None:
        check_not_compiled(model, "look", "looked into")
    seen = Seen(model, copy)
    with seen.path.follow_model(), observers.open_look(seen):
        yield seen
    with without_recorders():
        seen.release_spare_memory()
    message = seen.warning_text()
    if message is not None:
        warnings.warn(message, stacklevel=3)
