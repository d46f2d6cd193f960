"""Where in a model a call is made: the modules that are running, by name."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import nn

from regard.looking.watching import watched

Given = ParamSpec("Given")
Found = TypeVar("Found")
Module = TypeVar("Module", bound=nn.Module)


class Path:
    """The way from a model to the module that is running.

    Args:
        model: whose modules have names: their paths, and the root that of its class. None has none.
        begin: called whenever the root is entered.
    """

    def __init__(self, model: nn.Module | None, begin: Callable[[], None] | None = None):
        parts = () if model is None else model.named_modules()
        self._modules = {path or type(model).__name__: module for path, module in parts}
        self._root = model
        self._begin = begin
        self._running: list[str] = []
        self.entered = False
        self.ran: dict[str, None] = {}

    @property
    def name(self) -> str | None:
        """The innermost module that is running."""
        return self._running[-1] if self._running else None

    @property
    def module(self) -> nn.Module | None:
        """That module."""
        return self._modules[self._running[-1]] if self._running else None

    @contextmanager
    def standing(self, name: str | None) -> Iterator[None]:
        """Inside, the module of this name is the innermost; without one, all is as it was."""
        if name is None:
            yield
            return
        self._running.append(name)
        try:
            yield
        finally:
            self._running.pop()

    @property
    def names(self) -> list[str]:
        """All modules of the model, the root first."""
        return list(self._modules)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Inside, the model is followed; afterwards nothing is left on it."""
        hooks: list[Any] = []
        for name, module in self._modules.items():
            enter = _Enter(self, name, root=module is self._root)
            hooks.append(module.register_forward_pre_hook(enter, prepend=True))
            hooks.append(module.register_forward_hook(_Leave(self), always_call=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def enter(self, name: str, *, root: bool) -> None:
        """A module begins to run."""
        self._running.append(name)
        self.entered = True
        self.ran[name] = None
        if root and self._begin is not None:
            self._begin()

    def leave(self) -> None:
        """The innermost module has run."""
        self._running.pop()


def named(
    method: Callable[Concatenate[Module, Given], Found],
) -> Callable[Concatenate[Module, Given], Found]:
    """A method beside `forward` whose attentions have the name of its module too.

    A model's own is taken for a new beginning, as its `forward` is: queries count from 0.
    """

    @wraps(method)
    def run(self: Module, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        if not watched():
            return method(self, *args, **kwargs)
        # a copy that shares its hooks with a module, as `layers.ready` makes one, has its name
        ours = [hook for hook in self._forward_pre_hooks.values() if isinstance(hook, _Enter)]
        for hook in ours:
            hook(self, args)
        try:
            return method(self, *args, **kwargs)
        finally:
            for hook in ours:
                hook.path.leave()

    return run


def refuse_compiled(model: nn.Module, where: str, done: str) -> None:
    """Refuse a model that would not be seen to run."""
    for module in model.modules():
        if hasattr(module, "_orig_mod") or module._compiled_call_impl:
            raise ValueError(f"{where}: a compiled model cannot be {done}; {where} the eager one")


def warn_of_fast_path(model: nn.Module, where: str, done: str) -> None:
    """Warn where PyTorch's fast path is left for as long as a model is followed."""
    native = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
    hidden = [m for m in model.modules() if isinstance(m, native) and not m.training]
    if hidden and torch.backends.mha.get_fastpath_enabled():
        warnings.warn(
            f"{where}: {type(hidden[0]).__name__} runs without PyTorch's native fast path while it "
            f"is {done}; the last bits of its output may differ",
            stacklevel=4,
        )


class _Enter:
    """Notes that a module begins to run."""

    def __init__(self, path: Path, name: str, *, root: bool):
        self.path, self._name, self._root = path, name, root

    def __call__(self, module: nn.Module, args: Any) -> None:
        self.path.enter(self._name, root=self._root)


class _Leave:
    """Notes that a module has run."""

    def __init__(self, path: Path):
        self._path = path

    def __call__(self, module: nn.Module, args: Any, out: Any) -> None:
        self._path.leave()
