"""Looks and edits that are open, by the thread that opened them."""

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import nn, overrides
from torch.overrides import TorchFunctionMode

Result = TypeVar("Result")


@runtime_checkable
class ModuleStack(Protocol):
    """The modules of a model that are running, the innermost last."""

    def enter(self, module: nn.Module) -> bool:
        """Note that a module begins to run; whether it is one of the model's."""

    def enter_child(self, name: str) -> bool:
        """The same for a child, of this name, of the innermost module that runs."""

    def leave(self) -> None:
        """Note that the innermost module has run."""

    def note_elsewhere(self, module: nn.Module) -> None:
        """Note that a module runs in a thread that has nothing open."""

    def note_compiled(self, function: Any, args: tuple[Any, ...]) -> None:
        """Note that a function runs compiled, with these arguments."""


class Observers(TorchFunctionMode):
    """The looks, edits and paths open in one thread: a mode through which PyTorch's calls pass.

    Modes belong to a thread, and autograd hands them on to the threads of a backward pass: so what
    a checkpoint computes again there belongs to whoever called `backward`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[Any] = []
        self.edits: list[Any] = []
        self.paths: list[ModuleStack] = []

    def is_open(self) -> bool:
        """True if a look, an edit or a path is open."""
        return bool(self.looks or self.edits or self.paths)

    def clear(self) -> None:
        """Forget all tensors and keys of a model."""


class _ThreadState(threading.local):
    """The state of one thread: its observers, and those that are set aside for now.

    With `keeps_batch_rows`, rows of a look stay those of the batch where beams are moved.
    """

    def __init__(self) -> None:
        self.observers: Observers | None = None
        self.paused_observers: Observers | None = None
        self.keeps_batch_rows = False


thread_state = _ThreadState()
# A plain variable, the same for all threads: torch.compile guards on it, and one test of it is all
# that a call costs while nothing is open.
any_open = False
# The paths that are open in any thread.
all_paths: list[ModuleStack] = []
_open_threads = 0
# Modes that another thread closed, which could not take them off the stack of their own thread.
stale_modes: dict[int, weakref.ref[Observers]] = {}
lock = threading.RLock()


def current_observers() -> Observers | None:
    """The observers of this thread, or those of the thread whose backward pass runs in it."""
    # every module asks this, so nothing is called on the way
    own = thread_state.paused_observers
    if own is not None and (own.paths or own.looks or own.edits):
        return own
    own = thread_state.observers
    if own is not None and (own.paths or own.looks or own.edits):
        return own
    for mode in overrides._get_current_function_mode_stack():
        if isinstance(mode, Observers) and mode.is_open():
            return mode
    return None


def is_observed() -> bool:
    """True if a look or an edit is open in this thread."""
    found = current_observers()
    return found is not None and bool(found.looks or found.edits)


def is_edited() -> bool:
    """True if an edit is open in this thread."""
    found = current_observers()
    return found is not None and bool(found.edits)


# A compiler takes what these say as it is: where it matters, the mode on the stack, on which it
# guards, tells the threads apart. This is `torch.compiler.assume_constant_result`, which would
# import the whole compiler.
for _function in (is_observed, is_edited):
    setattr(_function, "_dynamo_marked_constant", True)  # noqa: B010


def enter_paths(module: nn.Module) -> list[ModuleStack]:
    """Push a module on the open paths of this thread, and give those it is a module of."""
    found = current_observers()
    if found is not None:
        return [path for path in found.paths if path.enter(module)]
    for path in tuple(all_paths):
        path.note_elsewhere(module)
    return []


def run_on_paths(
    module: nn.Module, run: Callable[..., Result], *args: Any, **kwargs: Any
) -> Result:
    """The output of `run`, with the module pushed on the open paths of this thread meanwhile."""
    entered = enter_paths(module)
    try:
        return run(*args, **kwargs)
    finally:
        for path in entered:
            path.leave()


@contextmanager
def child_scope(name: str) -> Iterator[None]:
    """Inside, the innermost module that runs is this child of it."""
    found = current_observers()
    entered = [] if found is None else [path for path in found.paths if path.enter_child(name)]
    try:
        yield
    finally:
        for path in entered:
            path.leave()


def add_open_threads(change: int) -> int:
    """Change the number of threads with something open, and give it; call with `lock` held."""
    global any_open, _open_threads
    _open_threads += change
    any_open = _open_threads > 0
    return _open_threads


def push_mode(mode: TorchFunctionMode) -> None:
    """Push a mode on this thread's stack, if it is not there."""
    if not _is_on_stack(mode):
        overrides._push_mode(mode)


def remove_mode(mode: TorchFunctionMode) -> None:
    """Remove a mode from this thread's stack, wherever it is: others may be on top of it."""
    if not _is_on_stack(mode):
        return
    above = []
    while (top := overrides._pop_mode()) is not mode:
        above.append(top)
    for other in reversed(above):
        overrides._push_mode(other)


@contextmanager
def mode_on_stack(mode: TorchFunctionMode) -> Iterator[None]:
    """Inside, a mode is on this thread's stack."""
    if _is_on_stack(mode):
        yield
        return
    overrides._push_mode(mode)
    try:
        yield
    finally:
        remove_mode(mode)


def note_stale_mode(mode: Observers, remove: Callable[[], None]) -> None:
    """Note that a mode is left on the stack of another thread; call with `lock` held.

    Args:
        remove: is called if the mode ends with its thread.
    """
    key = id(mode)

    def end(_: object) -> None:
        with lock:
            stale_modes.pop(key, None)
            remove()

    stale_modes[key] = weakref.ref(mode, end)


def remove_stale_mode() -> bool:
    """Take this thread's mode off its stack if another thread closed it; whether it did."""
    mode = thread_state.observers
    if mode is None or id(mode) not in stale_modes or not _is_on_stack(mode):
        return False
    remove_mode(mode)
    mode.clear()
    with lock:
        stale_modes.pop(id(mode), None)
    return True


def _is_on_stack(mode: TorchFunctionMode) -> bool:
    return any(one is mode for one in overrides._get_current_function_mode_stack())
