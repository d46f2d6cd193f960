"""The looks and edits that are open in each thread, and the mode that sees PyTorch's own calls."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn, overrides
from torch.compiler import is_dynamo_compiling

from regard.functional import attention as plain
from regard.functional.call import Call, Why, map_tensors, tensors_of, zero_ablated_heads
from regard.looking import (
    compiled_code,
    hugging_face,
    native_layers,
    patches,
    threads,
    torch_attention,
)
from regard.looking.eager_attention import EagerAttention
from regard.looking.key_origins import KeyOrigins
from regard.looking.other_modes import has_recorders, hide_recorders, run_visible, without_recorders
from regard.looking.record import Source, source_of, to_readable_source
from regard.looking.sdpa_heads import HeadHints
from regard.looking.threads import ModuleStack, Observers

Kind = Literal["looks", "edits", "paths"]


@runtime_checkable
class RunningModule(Protocol):
    """The modules of a model that are running, for one look or edit."""

    @property
    def name(self) -> str | None:
        """The innermost module that is running."""

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that is running; None outside of the model."""

    def at_module(self, name: str | None) -> AbstractContextManager[None]:
        """Inside, the module of this name is the innermost."""


@runtime_checkable
class Look(Protocol):
    """What keeps calls."""

    @property
    def path(self) -> RunningModule:
        """Where it stands in its model."""

    def note_row_move(self, parents: Tensor, *, follow: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""

    def keep(self, source: Source, why: Callable[[], Why]) -> None:
        """Keep one call, by what it is made from."""


@runtime_checkable
class Edit(Protocol):
    """What changes calls."""

    @property
    def path(self) -> RunningModule:
        """Where it stands in its model."""

    def is_target_running(self) -> bool:
        """Whether the attention that is running is to be changed."""

    def note_attention(self, source: Source | None = None) -> None:
        """Note that the module that is running attends, and to what, if that is known."""

    def note_row_move(self, parents: Tensor, *, follow: bool) -> None:
        """Note that rows of a batch may have been moved: row b goes on from row `parents[b]`."""

    def edit_call(self, call: Call) -> Call:
        """The call as it is to be run; the very same if nothing is changed."""


def is_observed() -> bool:
    """Whether a look or an edit is open in this thread."""
    return threads.any_open and threads.is_observed()


def is_edited() -> bool:
    """Whether an edit is open in this thread."""
    return threads.any_open and threads.is_edited()


def open_look(look: Look) -> AbstractContextManager[None]:
    """Inside, calls of this thread are shown to this look."""
    return _open_observer("looks", look)


def open_edit(edit: Edit) -> AbstractContextManager[None]:
    """Inside, calls of this thread are handed to this edit, after those that it opened before."""
    return _open_observer("edits", edit)


def open_path(path: ModuleStack) -> AbstractContextManager[None]:
    """Inside, modules that run in this thread are pushed on this path."""
    return _open_observer("paths", path)


def apply_edits(call: Call) -> Call:
    """A call of ours as every open edit leaves it."""
    if not is_edited():
        return call
    if torch.compiler.is_compiling():
        raise RuntimeError("edit: a compiled model cannot be edited; edit the eager one")
    for edit in _observers_of("edits"):
        call = edit.edit_call(call)
    return call


def show_call(call: Call, why: Callable[[], Why]) -> None:
    """Show a call of ours to every open look."""
    if not is_observed():
        return
    if torch.compiler.is_compiling():
        raise RuntimeError("look: a compiled model cannot be looked into; look at the eager one")
    with _pause_observers(), without_recorders():
        if any(x.requires_grad for x in tensors_of(call)):
            # a look must not keep a whole graph alive; what is detached still counts its versions
            call = map_tensors(call, Tensor.detach)
        _keep(source_of(call), why)


def is_in_backward() -> bool:
    """Whether a backward pass computes a call again, as checkpoints do: it was met before."""
    return bool(torch._C._current_graph_task_id() != -1)


def pause_observers() -> AbstractContextManager[None]:
    """Inside, the watcher looks away: what a call of ours does there is its own business."""
    return _pause_observers() if is_observed() else nullcontext()


@contextmanager
def _pause_observers() -> Iterator[None]:
    before, threads.thread_state.paused_observers = (
        threads.thread_state.paused_observers,
        threads.current_observers(),
    )
    # where the watcher is the innermost mode it steps aside altogether: a kernel that is compiled
    # inside would trip over it, and every operation is quicker without it
    ours = isinstance(overrides._get_current_function_mode(), Observers)
    try:
        with overrides._pop_mode_temporarily() if ours else nullcontext():
            yield
    finally:
        threads.thread_state.paused_observers = before


@contextmanager
def keep_batch_rows() -> Iterator[None]:
    """Inside, rows of a look stay those of the batch, whatever moves the rows of a cache."""
    before, threads.thread_state.keeps_batch_rows = threads.thread_state.keeps_batch_rows, True
    try:
        yield
    finally:
        threads.thread_state.keeps_batch_rows = before


def should_follow_rows() -> bool:
    """True if rows of a look follow rows that are moved, False if they stay those of the batch."""
    return not threads.thread_state.keeps_batch_rows


def _observers_of(kind: Kind) -> list[Any]:
    """The looks or the edits that this thread has open, in their order."""
    found = threads.current_observers()
    return [] if found is None else list(getattr(found, kind))


def _keep(source: Source, why: Callable[[], Why]) -> None:
    if is_in_backward():
        return
    source = to_readable_source(source)
    for look in _observers_of("looks"):
        look.keep(source, why)


class _ObserverMode(Observers):
    """Sees PyTorch's own attention go by, whoever calls it.

    It lets it pass untouched, unless an edit is meant for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.eager = EagerAttention(_Host())
        # what is to be empty where a function passes as it is
        self._obstacles: dict[Any, Collection[Any]] = dict.fromkeys(_FUNCTIONS, _ALWAYS)
        self._origins = KeyOrigins()

    def clear(self) -> None:
        """Forget all tensors and keys of a model."""
        self.eager.clear()
        self._origins.clear()

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # a compiler follows the mode into this, and nothing of the watcher's own after it: what is
        # compiled runs as it is
        if is_dynamo_compiling():
            return func(*args, **(kwargs or {}))
        obstacles = self._obstacles.get(func)
        if obstacles is None:
            # a tracer compares the lines that run: the first call takes the way of all others
            obstacles = self._obstacles[func] = self.eager.obstacles(func)
        if not obstacles:
            return func(*args, **kwargs) if kwargs else func(*args)
        kwargs = kwargs or {}
        # a compiler also calls functions, of fake tensors
        if threads.thread_state.paused_observers is not None or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        run = _FUNCTIONS.get(func, _ObserverMode.run_other)
        if has_recorders():
            with hide_recorders(keeps_tracer=bool(self.edits)):
                return run(self, func, args, kwargs)
        return run(self, func, args, kwargs)

    def run_other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of a function that may be part of a model's own attention."""
        return self.eager.run_function(func, args, kwargs)

    def run_cat(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of `torch.cat`, which may be the keys of a cache and new ones."""
        out = self.eager.run_function(func, args, kwargs)
        self._origins.note_cat(out, *args, **kwargs)
        return out

    def run_index_select(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of `index_select`, which moves the rows of a cache in beam search."""
        _note_row_move(*args, **kwargs)
        return self.eager.run_function(func, args, kwargs)

    def run_layer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of a native encoder layer, whose attention is that of its child."""
        with threads.child_scope("self_attn"):
            return self.run_attention(func, args, kwargs)

    def run_attention(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of PyTorch's own attention, which is kept, and may be edited."""
        if self.edits:
            with _pause_observers():
                out = self._run_edits(func, args, kwargs)
            if out is not None:
                return out
        out = run_visible(func, args, kwargs)
        # this mode is off the stack here: what follows is not observed
        if self.looks and not is_in_backward():
            with without_recorders():
                origin = self._origins.origin_of(torch_attention.sdpa_keys(func, args, kwargs))
                hints = self.eager.head_hints()
                source = torch_attention.torch_source(func, args, kwargs, origin, hints)
                for look in self.looks:
                    look.keep(source, torch_attention.why)
        return out

    def _run_edits(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
        """What a call of attention gives when it is edited; None if nothing is changed about it."""
        if any(edit.is_target_running() for edit in self.edits):
            return _run_edited_call(func, args, kwargs, self.eager.head_hints())
        source = torch_attention.torch_source(func, args, kwargs, hints=self.eager.head_hints())
        for edit in self.edits:
            edit.note_attention(source)
        return None


_ALWAYS = ("a function that is observed",)
# The functions that are observed, and how each is run.
_FUNCTIONS: dict[Any, Callable[[_ObserverMode, Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    **dict.fromkeys(torch_attention.OBSERVED_FUNCTIONS, _ObserverMode.run_attention),
    native_layers.LAYER_OPERATOR: _ObserverMode.run_layer,
    torch.cat: _ObserverMode.run_cat,
    torch.index_select: _ObserverMode.run_index_select,
    Tensor.index_select: _ObserverMode.run_index_select,
}


def _note_row_move(x: Any = None, dim: Any = None, index: Any = None, **named: Any) -> None:
    """Note for every open look and edit that rows may have been moved."""
    x = named.get("input", x)
    if not isinstance(x, Tensor) or not isinstance(index, Tensor) or x.dim() != 4 or dim != 0:
        return
    if index.dim() == 1 and len(index) == len(x) > 1 and not is_in_backward():
        # rows that hold no numbers, or those of many calls at once, cannot be compared
        with suppress(Exception), _pause_observers():
            for observer in _observers_of("looks") + _observers_of("edits"):
                observer.note_row_move(index, follow=should_follow_rows())


def _open_paths() -> list[RunningModule]:
    return [observer.path for kind in ("looks", "edits") for observer in _observers_of(kind)]


class _Host:
    """The receiver of `EagerAttention`'s calls: all looks and edits that are open."""

    def places(self) -> list[tuple[RunningModule, str | None]]:
        return [(path, path.name) for path in _open_paths()]

    @contextmanager
    def at_places(self, places: list[tuple[RunningModule, str | None]]) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(_pause_observers())
            for path, name in places:
                stack.enter_context(path.at_module(name))
            yield

    def module(self) -> nn.Module | None:
        found = (path.module for path in _open_paths())
        return next((module for module in found if module is not None), None)

    def pause_observers(self) -> AbstractContextManager[None]:
        return _pause_observers()

    def without_recorders(self) -> AbstractContextManager[Any]:
        return without_recorders()

    def has_edit(self) -> bool:
        return any(edit.is_target_running() for edit in _observers_of("edits"))

    def apply_edits(self, call: Call) -> Call:
        return apply_edits(call)

    def note_attention(self) -> None:
        for edit in _observers_of("edits"):
            edit.note_attention()

    def keep(self, source: Source, *, was_edited: bool) -> None:
        _keep(
            source, lambda: torch_attention.WHY_EDITED if was_edited else torch_attention.WHY_EAGER
        )


def _run_edited_call(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], hints: HeadHints
) -> Tensor | None:
    """What PyTorch's call gives when it is edited; None if nothing is changed about it."""
    args, kwargs, join_heads = torch_attention.with_heads_apart(func, args, kwargs, hints)
    call, join = torch_attention.editable_torch_call(func, *args, **kwargs)
    new = apply_edits(call)
    if new is call:
        return None
    new = torch_attention.call_with_drawn_keys(new)
    show_call(new, lambda: torch_attention.WHY_EDITED)
    out = join(zero_ablated_heads(new, plain.run_call(new)))
    return out if join_heads is None else join_heads(out)


@contextmanager
def _open_observer(kind: Kind, one: Any) -> Iterator[None]:
    """It is this thread's own; PyTorch is wrapped while any thread has something open."""
    watcher = threads.thread_state.observers
    if not isinstance(watcher, _ObserverMode):
        watcher = threads.thread_state.observers = _ObserverMode()
    thread = threading.get_ident()
    with threads.lock:
        if not watcher.is_open() and threads.add_open_threads(+1) == 1:
            patches.install_all(
                [*hugging_face.transformers_patches(_Host()), *compiled_code.compiler_patches()]
            )
        threads.stale_modes.pop(id(watcher), None)
        getattr(watcher, kind).append(one)
        threads.all_paths += [one] if kind == "paths" else []
    threads.push_mode(watcher)
    try:
        yield
    finally:
        with threads.lock:
            getattr(watcher, kind).remove(one)
            threads.all_paths[:] = [path for path in threads.all_paths if path is not one]
            is_own = threading.get_ident() == thread
            if not watcher.is_open():
                if not is_own:
                    # it is out of reach, and taken down there when a module is called next
                    threads.note_stale_mode(watcher, patches.remove_unused)
                threads.add_open_threads(-1)
                patches.remove_unused()
        if not is_own:
            raise RuntimeError(
                "look, edit: expected to be closed by the thread that opened it, got another one; "
                "nothing is watched any more, but close it where it was opened"
            )
        if not watcher.is_open():
            threads.remove_mode(watcher)
            watcher.clear()
