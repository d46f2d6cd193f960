"""Looks and edits that are open, by the thread that opened them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import nn, overrides
from torch.overrides import TorchFunctionMode

Result = TypeVar("Result")


@runtime_checkable
class Followed(Protocol):
    """Where a model is while it runs."""

    def enter(self, module: nn.Module) -> bool:
        """Note that a module begins to run; whether it is one of the model's."""

    def enter_child(self, name: str) -> bool:
        """The same for a child, of this name, of the innermost module that runs."""

    def leave(self) -> None:
        """Note that the innermost module has run."""


class Observers(TorchFunctionMode):
    """What one thread has open, and the mode on its stack that is handed PyTorch's own calls.

    Modes belong to a thread, and autograd hands them on to the threads of a backward pass: so what
    a checkpoint computes again there belongs to whoever called `backward`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[Any] = []
        self.edits: list[Any] = []
        self.paths: list[Followed] = []

    def is_open(self) -> bool:
        """True if a look, an edit or a path is open."""
        return bool(self.looks or self.edits or self.paths)


class _Local(threading.local):
    """What belongs to a thread: its observers, those that are set aside for now, and how it looks.

    While it keeps rows, those of a look stay rows of the batch where beams are moved.
    """

    def __init__(self) -> None:
        self.observers: Observers | None = None
        self.aside: Observers | None = None
        self.keeps_rows = False


local = _Local()
# A plain variable, the same for all threads: torch.compile guards on it, and one test of it is all
# that a call costs while nothing is open.
any_open = False
_open_threads = 0
lock = threading.RLock()


def here() -> Observers | None:
    """The observers of this thread, or those of the thread whose backward pass runs in it."""
    # every module asks this, so nothing is called on the way
    own = local.aside
    if own is not None and (own.paths or own.looks or own.edits):
        return own
    own = local.observers
    if own is not None and (own.paths or own.looks or own.edits):
        return own
    for mode in overrides._get_current_function_mode_stack():
        if isinstance(mode, Observers) and mode.is_open():
            return mode
    return None


def is_observed() -> bool:
    """True if a look or an edit is open in this thread."""
    found = here()
    return found is not None and bool(found.looks or found.edits)


def is_edited() -> bool:
    """True if an edit is open in this thread."""
    found = here()
    return found is not None and bool(found.edits)


# A compiler takes what these say as it is: where it matters, the mode on the stack, on which it
# guards, tells the threads apart. This is `torch.compiler.assume_constant_result`, which would
# import the whole compiler.
for _function in (is_observed, is_edited):
    setattr(_function, "_dynamo_marked_constant", True)  # noqa: B010


def run_followed(
    module: nn.Module, run: Callable[..., Result], *args: Any, **kwargs: Any
) -> Result:
    """What `run` gives, with the module noted as running wherever this thread follows it."""
    found = here()
    if found is None:
        return run(*args, **kwargs)
    paths = found.paths
    if len(paths) == 1:
        path = paths[0]
        if not path.enter(module):
            return run(*args, **kwargs)
        try:
            return run(*args, **kwargs)
        finally:
            path.leave()
    entered = [path for path in paths if path.enter(module)]
    try:
        return run(*args, **kwargs)
    finally:
        for path in entered:
            path.leave()


@contextmanager
def in_child(name: str) -> Iterator[None]:
    """Inside, the innermost module that runs is this child of it."""
    found = here()
    entered = [] if found is None else [path for path in found.paths if path.enter_child(name)]
    try:
        yield
    finally:
        for path in entered:
            path.leave()


def count(change: int) -> int:
    """How many threads have something open, after this many more have; call with `lock` held."""
    global any_open, _open_threads
    _open_threads += change
    any_open = _open_threads > 0
    return _open_threads


def put_up(mode: TorchFunctionMode) -> None:
    """Put a mode on this thread's stack, if it is not there."""
    if not _is_up(mode):
        overrides._push_mode(mode)


def take_down(mode: TorchFunctionMode) -> None:
    """Take a mode off this thread's stack, wherever it is: others may have come on top of it."""
    if not _is_up(mode):
        return
    above = []
    while (top := overrides._pop_mode()) is not mode:
        above.append(top)
    for other in reversed(above):
        overrides._push_mode(other)


@contextmanager
def on_stack(mode: TorchFunctionMode) -> Iterator[None]:
    """Inside, a mode is on this thread's stack."""
    if _is_up(mode):
        yield
        return
    overrides._push_mode(mode)
    try:
        yield
    finally:
        take_down(mode)


def _is_up(mode: TorchFunctionMode) -> bool:
    return any(one is mode for one in overrides._get_current_function_mode_stack())
