"""Who watches: the looks and edits that are open, and what tells them of PyTorch's own calls."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn, overrides
from torch.overrides import TorchFunctionMode

from regard.functional import attention as plain
from regard.functional.call import Call, Why, changed, heard, tensors_of
from regard.looking import foreign
from regard.looking.eager_attention import EagerAttention
from regard.looking.sight import Source, source


@runtime_checkable
class Path(Protocol):
    """Where in its model a look or an edit stands."""

    @property
    def name(self) -> str | None:
        """The innermost module that is running."""

    @property
    def module(self) -> nn.Module | None:
        """That module."""

    def standing(self, name: str | None) -> AbstractContextManager[None]:
        """Inside, the module of this name is the innermost."""


@runtime_checkable
class Look(Protocol):
    """What keeps calls."""

    @property
    def path(self) -> Path:
        """Where it stands in its model."""

    def keep(self, source: Source, why: Callable[[], Why]) -> None:
        """Keep one call, by what it is made from."""


@runtime_checkable
class Edit(Protocol):
    """What changes calls."""

    @property
    def path(self) -> Path:
        """Where it stands in its model."""

    def means(self) -> bool:
        """Whether the attention that is running is to be changed."""

    def meet(self) -> None:
        """Note that the module that is running attends."""

    def edited(self, call: Call) -> Call:
        """The call as it is to be run; the very same if nothing is changed."""


# They belong to the process; one watcher reports to all that are open.
_looks: list[Look] = []
_edits: list[Edit] = []
_inside = False


def watched() -> bool:
    """Whether a look or an edit is open."""
    return bool(_looks or _edits)


def altered() -> bool:
    """Whether an edit is open."""
    return bool(_edits)


def shown_to(look: Look) -> AbstractContextManager[None]:
    """Inside, calls are shown to this look."""
    return _opened(_looks, look)


def changed_by(edit: Edit) -> AbstractContextManager[None]:
    """Inside, calls are handed to this edit, after those that were opened before it."""
    return _opened(_edits, edit)


def edited(call: Call) -> Call:
    """A call of ours as every open edit leaves it."""
    if not _edits:
        return call
    if torch.compiler.is_compiling():
        raise RuntimeError("edit: a compiled model cannot be edited; edit the eager one")
    for edit in _edits:
        call = edit.edited(call)
    return call


def show(call: Call, why: Callable[[], Why]) -> None:
    """Show a call of ours to every open look."""
    if not _looks:
        return
    if torch.compiler.is_compiling():
        raise RuntimeError("look: a compiled model cannot be looked into; look at the eager one")
    if any(x.requires_grad for x in tensors_of(call)):
        # a look must not keep a whole graph alive; what is detached still counts its versions
        call = changed(call, Tensor.detach)
    _keep(source(call), why)


def going_back() -> bool:
    """Whether a backward pass computes a call again, as checkpoints do: it was met before."""
    return bool(torch._C._current_graph_task_id() != -1)


def aside() -> AbstractContextManager[None]:
    """Inside, the watcher looks away: what a call of ours does there is its own business."""
    return _looking_away() if watched() else nullcontext()


@contextmanager
def _looking_away() -> Iterator[None]:
    global _inside
    before, _inside = _inside, True
    # where the watcher is the innermost mode it steps aside altogether: a kernel that is compiled
    # inside would trip over it, and every operation is quicker without it
    ours = isinstance(overrides._get_current_function_mode(), _Watcher)
    try:
        with overrides._pop_mode_temporarily() if ours else nullcontext():
            yield
    finally:
        _inside = before


def _keep(source: Source, why: Callable[[], Why]) -> None:
    if going_back():
        return
    for look in _looks:
        look.keep(source, why)


class _Watcher(TorchFunctionMode):
    """Sees PyTorch's own attention go by, whoever calls it.

    It lets it pass untouched, unless an edit is meant for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.eager = EagerAttention(_Host())

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if _inside:
            return func(*args, **kwargs)
        if func not in foreign.SEEN:
            return self.eager.run(func, args, kwargs)
        if any(edit.means() for edit in _edits):
            with _looking_away():
                out = _run_edited(func, args, kwargs)
            if out is not None:
                return out
        else:
            for edit in _edits:
                edit.meet()
        out = func(*args, **kwargs)
        with _looking_away():
            _keep(foreign.SEEN[func](*args, **kwargs), lambda: foreign.WHY)
        return out


def _paths() -> list[Path]:
    return [*(look.path for look in _looks), *(edit.path for edit in _edits)]


class _Host:
    """What `EagerAttention` reports to: all looks and edits that are open."""

    def places(self) -> list[tuple[Path, str | None]]:
        return [(path, path.name) for path in _paths()]

    @contextmanager
    def standing(self, places: list[tuple[Path, str | None]]) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(_looking_away())
            for path, name in places:
                stack.enter_context(path.standing(name))
            yield

    def module(self) -> nn.Module | None:
        found = (path.module for path in _paths())
        return next((module for module in found if module is not None), None)

    def means(self) -> bool:
        return any(edit.means() for edit in _edits)

    def edited(self, call: Call) -> Call:
        return edited(call)

    def meet(self) -> None:
        for edit in _edits:
            edit.meet()

    def keep(self, source: Source, *, edited: bool) -> None:
        _keep(source, lambda: foreign.WHY_EDITED if edited else foreign.WHY_EAGER)


def _run_edited(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """What PyTorch's call gives when it is edited; None if nothing is changed about it."""
    call, join = foreign.called(func, *args, **kwargs)
    new = edited(call)
    if new is call:
        return None
    new = foreign.settled(new)
    show(new, lambda: foreign.WHY_EDITED)
    return join(heard(new, plain.of(new)))


@contextmanager
def _opened(among: list[Any], one: Any) -> Iterator[None]:
    """The first to open puts the watcher up and takes down the fast path, the last undoes it.

    PyTorch's encoder layers hide their attention in one native call; without it they show it.
    """
    global _fast_path
    if not watched():
        _fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        _watcher.__enter__()
    among.append(one)
    try:
        yield
    finally:
        among.remove(one)
        if not watched():
            _watcher.__exit__(None, None, None)
            _watcher.eager.forget()
            torch.backends.mha.set_fastpath_enabled(_fast_path)


_watcher = _Watcher()
_fast_path = True
