"""Functions of PyTorch that are wrapped while a look or an edit is open in any thread.

No hook is put on a model: PyTorch's encoder layers leave their native kernels where they find one,
and a copy of the model would carry it along. In a thread that has nothing open, and inside of a
compiler, what is wrapped runs as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import autograd, nn, overrides
from torch.jit import _builtins

from regard.looking import threads


class Patch:
    """A function of PyTorch's, and its wrapper for a while.

    Args:
        owner: the class or module that has it.
        name: what it is called there.
        wrapper: what stands in its place, and calls `original`.
    """

    def __init__(self, owner: Any, name: str, wrapper: Callable[..., Any]):
        self.owner, self.name, self.wrapper = owner, name, wrapper
        self.original = getattr(owner, name)
        self._is_left_behind = False

    def install(self) -> None:
        """Replace the function by the wrapper, unless that is in place."""
        there = getattr(self.owner, self.name)
        # whoever has wrapped it since it was put there leads on to it: not twice
        if there is self.wrapper or (self._is_left_behind and there is not self.original):
            return
        self.original = there
        setattr(self.owner, self.name, self.wrapper)

    def remove(self) -> None:
        """Restore the function, unless somebody has wrapped it since."""
        self._is_left_behind = getattr(self.owner, self.name) is not self.wrapper
        if not self._is_left_behind:
            setattr(self.owner, self.name, self.original)


def install_all(extra_patches: Sequence[Patch] = ()) -> None:
    """Install all patches of PyTorch, and others beside them."""
    for patch in _extra_patches:
        patch.remove()
    _extra_patches[:] = extra_patches
    for patch in (*_PATCHES, *_extra_patches):
        patch.install()


def install_late(patch: Patch) -> None:
    """Install one more patch beside the others, if these are installed."""
    with threads.lock:
        if threads.any_open:
            _extra_patches.append(patch)
            patch.install()


def remove_unused() -> None:
    """Remove all patches if nothing is open, and no mode is left; call with the lock held."""
    if not threads.any_open and not threads.stale_modes:
        remove_all()


def remove_all() -> None:
    """Remove all patches, in the order of their installation."""
    for patch in (*_PATCHES, *_extra_patches):
        patch.remove()
    _extra_patches.clear()


def _call_impl(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """A module's call, with the module noted as running."""
    if torch.compiler.is_compiling():
        return _MODULE_CALL.original(self, *args, **kwargs)
    if threads.stale_modes:
        _remove_stale_mode()
    entered = threads.enter_paths(self)
    try:
        return _MODULE_CALL.original(self, *args, **kwargs)
    finally:
        for path in entered:
            path.leave()


def has_torch_function(args: Any) -> bool:
    """True if an argument, or a mode other than ours, overrides torch's functions.

    PyTorch's encoder layers ask this of their tensors before they take their native kernels. Ours
    lets these pass as they are, so it is no reason against them. Operators that are handed
    functions, as flex_attention is, ask it too: these it must see.
    """
    if threads.stale_modes and not torch.compiler.is_compiling():
        _remove_stale_mode()
    mode = None if torch.compiler.is_compiling() else overrides._get_current_function_mode()
    if not isinstance(mode, threads.Observers) or not all(map(_is_plain, args)):
        return bool(_OVERRIDES.original(args))
    with overrides._pop_mode_temporarily():
        return bool(_OVERRIDES.original(args))


def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
    """A backward pass, with our mode on the stack, which autograd hands on to its threads.

    The mode is off it here, since it is the one that was asked about `backward`.
    """
    found = None if torch.compiler.is_compiling() else threads.current_observers()
    if found is None:
        return _BACKWARD.original(*args, **kwargs)
    with threads.mode_on_stack(found):
        return _BACKWARD.original(*args, **kwargs)


def _remove_stale_mode() -> None:
    """Take the mode of this thread off its stack, and the patches with the last one."""
    if threads.remove_stale_mode():
        with threads.lock:
            remove_unused()


def _is_plain(x: object) -> bool:
    return x is None or isinstance(x, torch.Tensor)


_MODULE_CALL = Patch(nn.Module, "_call_impl", _call_impl)
_OVERRIDES = Patch(overrides, "has_torch_function", has_torch_function)
_BACKWARD = Patch(autograd, "_engine_run_backward", _engine_run_backward)
_PATCHES = (_MODULE_CALL, _OVERRIDES, _BACKWARD)
_extra_patches: list[Patch] = []
# a module may be scripted while it is wrapped
_builtins._register_builtin(has_torch_function, "aten::has_torch_function")
