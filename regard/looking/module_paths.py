"""Where in a model a call is made: the modules that are running, by name."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import nn

from regard.looking import observers, threads
from regard.looking.compiled_code import CompiledRuns
from regard.looking.key_store import Entry
from regard.looking.observers import is_observed

Params = ParamSpec("Params")
Result = TypeVar("Result")
Module = TypeVar("Module", bound=nn.Module)


class ModulePath:
    """The way from a model to the module that is running.

    Args:
        model: whose modules have names: their paths, and the root that of its class. None has none.
        on_root_enter: called whenever the root is entered.
    """

    def __init__(self, model: nn.Module | None, on_root_enter: Callable[[], None] | None = None):
        parts = () if model is None else model.named_modules()
        self._root = type(model).__name__
        self._modules = {path or self._root: module for path, module in parts}
        names = {_shallow_copy_key(module): name for name, module in self._modules.items()}
        self._names = names | {id(module): name for name, module in self._modules.items()}
        self._on_root_enter = on_root_enter
        self._running: list[str] = []
        self._run, self._entry_counts = 0, dict[str, int]()
        self.executed_names: dict[str, None] = {}
        self.compiled_runs = CompiledRuns(self._modules)
        # methods that were called from outside of the model and attended, by their module
        self.direct_methods: dict[str, str] = {}
        self._ran_elsewhere = False

    @property
    def has_run(self) -> bool:
        """True if any module of the model ran."""
        return bool(self.executed_names)

    @property
    def name(self) -> str | None:
        """The innermost module that is running."""
        return self._running[-1] if self._running else None

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that is running; None outside of the model."""
        return self._modules.get(self._running[-1]) if self._running else None

    @contextmanager
    def at_module(self, name: str | None) -> Iterator[None]:
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
    def modules(self) -> dict[str, nn.Module]:
        """All modules of the model by name, the root first."""
        return dict(self._modules)

    @property
    def entry(self) -> Entry:
        """The run of the outermost module, and the time in it that the innermost is entered."""
        return Entry(
            self._run, self._entry_counts.get(self._running[-1], 1) if self._running else 1
        )

    @property
    def names(self) -> list[str]:
        """All modules of the model, the root first."""
        return list(self._modules)

    @contextmanager
    def follow_model(self) -> Iterator[None]:
        """Inside, the model is followed where it runs in this thread."""
        with observers.open_path(self):
            yield

    def enter(self, module: nn.Module) -> bool:
        """Note that a module begins to run; whether it is one of the model's."""
        name = self._names.get(id(module)) or self._names.get(_shallow_copy_key(module))
        if name is None:
            return False
        if not self._running:
            self._run += 1
            self._entry_counts.clear()
        self._running.append(name)
        self._entry_counts[name] = self._entry_counts.get(name, 0) + 1
        self.executed_names[name] = None
        if name == self._root and self._on_root_enter is not None:
            self._on_root_enter()
        return True

    def enter_child(self, name: str) -> bool:
        """The same for a child, of this name, of the innermost module that runs."""
        if not self._running:
            return False
        above = self._running[-1]
        self._running.append(name if above == self._root else f"{above}.{name}")
        return True

    def leave(self) -> None:
        """Note that the innermost module has run."""
        self._running.pop()

    def note_elsewhere(self, module: nn.Module) -> None:
        """Note that a module runs in a thread that has nothing open."""
        if module is self._modules.get(self._root):
            self._ran_elsewhere = True

    def note_compiled(self, function: Any, args: tuple[Any, ...]) -> None:
        """Note that a function runs compiled, with these arguments."""
        self.compiled_runs.note(function, args, self.name)

    def note_outside_call(self) -> None:
        """Note that attention ran while no module of the model did: whose method it ran in."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            module = _method_module(frame)
            if module is not None:
                name = self._names.get(id(module))
                if name is not None:
                    self.direct_methods[name] = frame.f_code.co_name
                return
            frame = frame.f_back

    def check_editable(self, names: Iterable[str]) -> None:
        """Raise if modules of these names, which were to be edited, ran where they cannot be."""
        names = tuple(names)
        self.compiled_runs.check_ran_eagerly(names, self.executed_names)
        for name in names:
            if name in self.direct_methods:
                raise ValueError(f"edit: {self._direct_sentence(name)}")

    def direct_warning(self) -> str | None:
        """A sentence if attention ran in a method that was called without its module's call."""
        for name in self.direct_methods:
            return f"look: {self._direct_sentence(name)}"
        return None

    def _direct_sentence(self, name: str) -> str:
        method = f"{type(self._modules[name]).__name__}.{self.direct_methods[name]}"
        return (
            f"{name!r} attended in its method {method}, which was called directly, so that it "
            "cannot be told that the module runs; call the module itself"
        )

    @property
    def has_run_only_elsewhere(self) -> bool:
        """True if the model ran, and not once in this thread."""
        return self._ran_elsewhere and not self.executed_names

    def thread_warning(self, where: str) -> str | None:
        """A sentence if the model ran, and not once in this thread."""
        if not self.has_run_only_elsewhere:
            return None
        return (
            f"{where}: {self._root} ran in other threads alone, where this {where} does not hold; "
            "open it in the thread that runs the model"
        )


def as_module_call(
    method: Callable[Concatenate[Module, Params], Result],
) -> Callable[Concatenate[Module, Params], Result]:
    """A method beside `forward` whose attentions have the name of its module too.

    A model's own is taken for a new beginning, as its `forward` is: queries count from 0.
    """

    @wraps(method)
    def wrapper(self: Module, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        if not is_observed():
            return method(self, *args, **kwargs)
        return threads.run_on_paths(self, method, self, *args, **kwargs)

    return wrapper


def check_not_compiled(model: nn.Module, where: str, action: str) -> None:
    """Refuse a model that would not be seen to run."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            part = f" (its part {name!r} is)" if name else ""
            raise ValueError(
                f"{where}: a model that torch.jit scripted or traced{part} cannot be {action}; "
                f"{where} the eager one"
            )
        if hasattr(module, "_orig_mod") or module._compiled_call_impl:
            raise ValueError(f"{where}: a compiled model cannot be {action}; {where} the eager one")


def _method_module(frame: FrameType) -> nn.Module | None:
    """The module of which a frame runs a method; None if it runs none."""
    code = frame.f_code
    if not code.co_argcount:
        return None
    owner = frame.f_locals.get(code.co_varnames[0])
    is_method = isinstance(owner, nn.Module) and hasattr(type(owner), code.co_name)
    return owner if is_method else None


def _shallow_copy_key(module: nn.Module) -> int:
    """An id that a module shares with its shallow copies, as `fast_decode.prepare` makes them."""
    return id(module.__dict__.get("_forward_pre_hooks", module))
