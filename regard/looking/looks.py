"""What is seen through the door: `look` keeps references, and computes weights when asked.

Opening a look changes neither the output of a call nor the kernel that runs it. Calls of PyTorch's
own `scaled_dot_product_attention` and `nn.MultiheadAttention`, in anyone's model, are seen as well.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn, overrides
from torch.overrides import TorchFunctionMode

from regard.functional.call import Call, Why, changed, tensors_of, unread
from regard.looking import foreign
from regard.looking.sight import Kept, Sight, kept

# Looks belong to the process; one watcher reports to all that are open.
_looks: list["Seen"] = []
_inside = False


class Seen:
    """What a look has seen so far, by name: `seen.names()`, `seen["decoder.0.cross"].weights()`."""

    def __init__(self, model: nn.Module | None, copy: bool):
        self._model = model
        self._copy = copy
        self._kept: dict[str, list[Kept]] = {}
        self._path: list[str] = []

    def names(self) -> list[str]:
        """The modules that attended, in the order of their first call; bare calls are numbered."""
        return list(self._kept)

    def __getitem__(self, name: str) -> Sight:
        if name not in self._kept:
            there = ", ".join(self._kept) or "none"
            raise KeyError(f"look: no attention named {name!r} was seen; there is {there}")
        return Sight(name, tuple(self._kept[name]))

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget all that was seen, and let go of its memory."""
        self._kept.clear()

    def keep(self, make: Callable[[], Call], tensors: list[Tensor], why: Callable[[], Why]) -> None:
        """Keep one call; `tensors` are what `make` will need unchanged."""
        if self._model is not None and not self._path:
            return  # a call outside the model
        name = self._path[-1] if self._path else f"attend.{len(self._kept)}"
        self._kept.setdefault(name, []).append(kept(make, tensors, why, copy=self._copy))


@contextmanager
def look(model: nn.Module | None = None, *, copy: bool = False) -> Iterator[Seen]:
    """See every attention inside `model`, or every call at all if none is given.

    Args:
        model: whose modules to name; its attention may be ours, PyTorch's or Hugging Face's.
        copy: keep copies, for a model that writes into its cache in place; a reference costs
            nothing, but is only good until somebody writes into it.
    """
    if model is not None:
        _refuse_compiled(model)
        _warn_of_fast_path(model)
    seen = Seen(model, copy)
    hooks = _follow(model, seen) if model is not None else []
    _open(seen)
    try:
        yield seen
    finally:
        _close(seen)
        for hook in hooks:
            hook.remove()


def watched() -> bool:
    """Whether a look is open."""
    return bool(_looks)


def aside() -> AbstractContextManager[None]:
    """Inside, the watcher looks away: what a call of ours does there is its own business."""
    return _looking_away() if _looks else nullcontext()


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


def show(call: Call, why: Callable[[], Why]) -> None:
    """Show a call of ours to every open look."""
    if not _looks:
        return
    if torch.compiler.is_compiling():
        raise RuntimeError("look: a compiled model cannot be looked into; look at the eager one")
    if any(x.requires_grad for x in tensors_of(call)):
        # a look must not keep a whole graph alive; what is detached still counts its versions
        call = changed(call, Tensor.detach)
    bare = unread(call)
    _keep(lambda: bare, tensors_of(bare), why)


def _keep(make: Callable[[], Call], tensors: list[Tensor], why: Callable[[], Why]) -> None:
    if torch._C._current_graph_task_id() != -1:
        return  # a backward pass computes it again, as checkpoints do: it was seen before
    for seen in _looks:
        seen.keep(make, tensors, why)


class _Watcher(TorchFunctionMode):
    """Sees PyTorch's own attention go by, whoever calls it, and lets it pass untouched."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in foreign.SEEN and not _inside:
            with _looking_away():
                make, tensors = foreign.SEEN[func](*args, **kwargs)
                _keep(make, tensors, lambda: foreign.WHY)
        return out


def _follow(model: nn.Module, seen: Seen) -> list[Any]:
    hooks = []
    for path, module in model.named_modules():
        name = path or type(model).__name__

        def enter(module: nn.Module, args: Any, name: str = name) -> None:
            seen._path.append(name)

        def leave(module: nn.Module, args: Any, out: Any) -> None:
            seen._path.pop()

        hooks.append(module.register_forward_pre_hook(enter, prepend=True))
        hooks.append(module.register_forward_hook(leave, always_call=True))
    return hooks


def _refuse_compiled(model: nn.Module) -> None:
    for module in model.modules():
        if hasattr(module, "_orig_mod") or module._compiled_call_impl:
            raise ValueError("look: a compiled model cannot be looked into; look at the eager one")


def _warn_of_fast_path(model: nn.Module) -> None:
    native = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
    hidden = [m for m in model.modules() if isinstance(m, native) and not m.training]
    if hidden and torch.backends.mha.get_fastpath_enabled():
        warnings.warn(
            f"look: {type(hidden[0]).__name__} runs without PyTorch's native fast path while it is "
            "looked at; the last bits of its output may differ",
            stacklevel=4,
        )


def _open(seen: Seen) -> None:
    """The first look to open puts the watcher up, and takes down the fast path.

    PyTorch's encoder layers hide their attention in one native call; without it they show it.
    """
    global _fast_path
    if not _looks:
        _fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        _watcher.__enter__()
    _looks.append(seen)


def _close(seen: Seen) -> None:
    """The last look to close leaves everything as it was."""
    _looks.remove(seen)
    if not _looks:
        _watcher.__exit__(None, None, None)
        torch.backends.mha.set_fastpath_enabled(_fast_path)


_watcher = _Watcher()
_fast_path = True
