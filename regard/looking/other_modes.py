"""Modes and tracers of others: they see what a model calls, and not what a look does beside it."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch
from torch.utils._device import DeviceContext

from regard.looking.threads import Observers


class _State(threading.local):
    """What is hidden from one thread: its stack of function modes, and its tracer's state."""

    def __init__(self) -> None:
        self.hidden: tuple[list[TorchFunctionMode], Any] | None = None


_state = _State()


@contextmanager
def without_recorders() -> Iterator[None]:
    """Inside, no mode of anybody else's, and no tracer, records what a look does."""
    with ExitStack() as stack:
        if has_recorders():
            stack.enter_context(hide_recorders())
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(_python_dispatch._disable_current_modes())
        yield


def has_recorders() -> bool:
    """True if a tracer, or a function mode that is neither ours nor a device's, sees calls."""
    if torch._C._get_tracing_state() is not None:
        return True
    # nearly always there is no mode, or ours alone
    return bool(torch._C._len_torch_function_stack()) and not all(
        map(_is_harmless, overrides._get_current_function_mode_stack())
    )


@contextmanager
def hide_recorders(*, keeps_tracer: bool = False) -> Iterator[None]:
    """Inside, `torch.jit.trace` and others' function modes see only calls by `run_visible`.

    Modes are taken off the stack; to switch off `__torch_function__` as a whole would also change
    what subclasses of tensors answer.

    Args:
        keeps_tracer: whether the tracer still records, as it must what an edit computes.
    """
    before, stack = _state.hidden, overrides._get_current_function_mode_stack()
    tracer = torch._C._get_tracing_state()
    _state.hidden = (stack, tracer) if before is None else before
    _replace_stack(filter(_is_harmless, stack))
    if not keeps_tracer:
        _set_tracer(None)
    try:
        yield
    finally:
        _set_tracer(tracer)
        _replace_stack(stack)
        _state.hidden = before


def run_visible(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The output of a function that the model itself calls, which is hidden from nobody."""
    hidden = _state.hidden
    if hidden is None:
        return func(*args, **kwargs)
    stack, tracer = overrides._get_current_function_mode_stack(), torch._C._get_tracing_state()
    _state.hidden = None
    _replace_stack(hidden[0])
    _set_tracer(hidden[1])
    try:
        return func(*args, **kwargs)
    finally:
        _set_tracer(tracer)
        _replace_stack(stack)
        _state.hidden = hidden


def _is_harmless(mode: TorchFunctionMode) -> bool:
    return isinstance(mode, Observers | DeviceContext)


def _replace_stack(modes: Iterable[TorchFunctionMode]) -> None:
    """Put these modes on the thread's stack, in place of all that are there."""
    for _ in range(torch._C._len_torch_function_stack()):
        overrides._pop_mode()
    for mode in modes:
        overrides._push_mode(mode)


def _set_tracer(state: Any) -> None:
    if torch._C._get_tracing_state() is not state:
        torch._C._set_tracing_state(state)  # type: ignore[attr-defined]
