"""Compiled code that runs while a look or an edit is open: nothing in it is seen, so it is noted.

`torch.compile` calls no function of Python's that a mode or a wrapped module would see. It asks one
function of the compiler, each time that compiled code is entered, which backend there is.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

import torch
from torch import nn

from regard.looking import patches, threads, unseen_modules
from regard.looking.patches import Patch

_COMPILER = "torch._dynamo.eval_frame"
_CALL_NAMES = ("__call__", "_wrapped_call_impl", "_call_impl", "forward")
_ATTENTION_FUNCTIONS = ("scaled_dot_product_attention", "softmax")


class CompiledRuns:
    """The modules of a model that ran compiled, and those in which other compiled code ran.

    Args:
        modules: of the model, by name, the root first.
    """

    def __init__(self, modules: Mapping[str, nn.Module]):
        self._modules = modules
        self._names = {id(module): name for name, module in modules.items()}
        # modules that ran compiled; those in which something did; those with a method that attends
        self._whole: dict[str, None] = {}
        self._inside: dict[str | None, None] = {}
        self._by_method: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._whole or self._inside)

    def note(self, function: Any, args: tuple[Any, ...], running: str | None) -> None:
        """Note that this function runs compiled, inside of the module of the name `running`."""
        owner = _owner(function)
        name = self._names.get(id(owner))
        if name is not None and getattr(function, "__name__", _CALL_NAMES[0]) in _CALL_NAMES:
            self._whole[name] = None
            return
        running = running or name or (self._names.get(id(args[0])) if args else None)
        self._inside[running] = None
        if running is not None and _has_attention(function):
            self._by_method[running] = None

    def can_have_run_compiled(self, name: str, executed_names: Iterable[str]) -> bool:
        """True if a module ran compiled, or may have, since it did not run eagerly."""
        root = next(iter(self._modules), None)

        def is_within(containers: Iterable[str | None]) -> bool:
            return any(x in (name, root) or name.startswith(f"{x}.") for x in containers if x)

        if is_within(self._whole) or name in self._by_method:
            return True
        executed_names = set(executed_names)
        # what runs compiled outside of a model may be all of it, unless some of it ran eagerly
        return name not in executed_names and (
            is_within(self._inside) or (None in self._inside and not executed_names)
        )

    def unseen_names(self, executed_names: Iterable[str]) -> tuple[str, ...]:
        """The innermost modules that look like attention and may have run compiled.

        If none looks like it, the root, if that may have.
        """
        if not self:
            return ()
        executed_names = tuple(executed_names)
        found = [
            name
            for name, module in self._modules.items()
            if (name in self._by_method or _is_attention(name, module))
            and self.can_have_run_compiled(name, executed_names)
        ]
        root = next(iter(self._modules), None)
        if not found and root is not None and self.can_have_run_compiled(root, executed_names):
            return (root,)
        return unseen_modules.innermost_names(found, root)

    def warning_text(self, names: tuple[str, ...]) -> str | None:
        """The sentence at the end of a look for modules that may have run compiled."""
        if not names:
            return None
        return (
            "look: compiled code ran, of which nothing can be seen: calls of "
            f"{unseen_modules.name_list(names)} may be missing; run it eagerly, without "
            "torch.compile"
        )

    def check_ran_eagerly(self, names: Iterable[str], executed_names: Iterable[str]) -> None:
        """Raise if modules of these names, which were to be edited, may have run compiled."""
        executed_names = tuple(executed_names)
        for name in names if self else ():
            if self.can_have_run_compiled(name, executed_names):
                raise ValueError(
                    f"edit: compiled code ran, which cannot be edited, and {name!r} did not "
                    "always run eagerly; run the model without torch.compile"
                )


def compiler_patches() -> list[Patch]:
    """The patch that notes compiled code; that of `torch.compile`, which loads the compiler."""
    eval_frame = sys.modules.get(_COMPILER)
    if eval_frame is None:
        return [_compile_patch()]
    return [_entry_patch(eval_frame)] if hasattr(eval_frame, "_callback_from_stance") else []


def _compile_patch() -> Patch:
    def compile(*args: Any, **kwargs: Any) -> Any:
        # the compiler keeps a table of torch's functions, so it is loaded with none replaced
        patch.remove()
        found = patch.original(*args, **kwargs)
        eval_frame = sys.modules.get(_COMPILER)
        if eval_frame is not None and hasattr(eval_frame, "_callback_from_stance"):
            patches.install_late(_entry_patch(eval_frame))
        return found

    patch = Patch(torch, "compile", compile)
    return patch


def _entry_patch(eval_frame: Any) -> Patch:
    def callback_from_stance(callback: Any) -> Any:
        found = patch.original(callback)
        # without a callback all runs eagerly
        if found is not None and callback is not None:
            _note_frame(sys._getframe(1))
        return found

    patch = Patch(eval_frame, "_callback_from_stance", callback_from_stance)
    return patch


def _note_frame(frame: FrameType) -> None:
    """Note for each open path of this thread the function that is about to run compiled."""
    # what runs in a call of ours, or of flex attention, is seen by its arguments
    if threads.thread_state.paused_observers is not None:
        return
    local = frame.f_locals
    function, args = local.get("fn"), local.get("args", ())
    if function is None or getattr(local.get("self"), "export", False):
        return
    found = threads.current_observers()
    if found is not None:
        for path in found.paths:
            path.note_compiled(function, args)
        return
    owner = _owner(function)
    for path in tuple(threads.all_paths) if isinstance(owner, nn.Module) else ():
        path.note_elsewhere(owner)


def _owner(function: Any) -> Any:
    """The object whose method a function is; what it wraps, if it is a compiler's wrapper."""
    return getattr(function, "__self__", None) or inspect.unwrap(function)


def _is_attention(name: str, module: nn.Module) -> bool:
    """True if a module looks like attention, by its parts or, if it has none, by its code."""
    if unseen_modules.is_attention_like(name, module):
        return True
    if type(module).__module__.startswith("torch.nn") or any(True for _ in module.parameters()):
        return False
    return _has_attention(module.forward)


def _has_attention(function: Callable[..., Any]) -> bool:
    """True if a function's own code calls attention, or a softmax."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and any(name in _ATTENTION_FUNCTIONS for name in code.co_names)
