"""Attention that a model computes by itself: a product, a softmax of it, and a product with that.

Every function of PyTorch that such a model calls goes by the watcher. A product of two activations
is followed through whatever is done to its cells (scales, masks, biases, caps, casts, new shapes,
columns of sinks) to a softmax over its last axis, and on to the product that reads values with it.
What is looked at is the softmax's own output; what is edited is put in its place.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.functional.call import Call
from regard.looking import eager_calls, products
from regard.looking.eager_calls import Layout
from regard.looking.record import Source

# What a product goes through without being anything else, by the name of the function.
PASSES = """
    T add addcmul as_strided cat chunk clamp clamp_max clamp_min clip clone concat concatenate
    contiguous copy detach div divide double dropout alpha_dropout expand expand_as flatten flip
    float bfloat16 half gather getitem iadd imul index_select isub itruediv lerp linear conv2d mT
    masked_fill masked_scatter movedim mul multiply nan_to_num narrow neg pad permute radd relu
    repeat repeat_interleave reshape rmul roll rsub select setitem split squeeze stack sub subtract
    swapaxes tanh to transpose tril triu true_divide truediv type type_as unbind unflatten unsqueeze
    view view_as where
"""
PRODUCTS = frozenset(["matmul", "rmatmul", "bmm", "mm", "baddbmm", "addmm", "einsum", "cdist"])
PROJECTIONS = frozenset(["linear", "conv1d", "conv2d"])
_passes = frozenset(PASSES.split())

OTHER, PASS, PROJECTION, PRODUCT, SOFTMAX = range(5)


@runtime_checkable
class Host(Protocol):
    """What the followed calls are reported to."""

    def places(self) -> list[Any]:
        """Where each look and edit stands in its model."""

    def standing(self, places: list[Any]) -> AbstractContextManager[None]:
        """Inside, looks and edits stand there again."""

    def module(self) -> Any:
        """The innermost module that is running, if any look or edit knows it."""

    def means(self) -> bool:
        """Whether an edit means the module that is running."""

    def edited(self, call: Call) -> Call:
        """The call as every open edit leaves it."""

    def meet(self) -> None:
        """Tell the edits that the module attends."""

    def keep(self, source: Source, *, edited: bool) -> None:
        """Show a call to every open look."""


@dataclass
class Origin:
    """Where the scores come from."""

    places: list[Any]
    heads: int | None
    batches: tuple[int, ...]
    meant: bool
    rows: eager_calls.Rows | None


@dataclass
class Trace:
    """What is known of a tensor that a product became.

    Args:
        added: what the tensor would be of a product of zeros, where an edit means it.
        columns: which of its last axis are keys; None is all of them.
        read: whether it went through a softmax.
        weights: the output of that; None in the trace of that very tensor.
    """

    origin: Origin
    added: Tensor | None = None
    columns: tuple[int, int] | None = None
    read: bool = False
    weights: Tensor | None = None
    edited: bool = False


@dataclass
class EagerAttention:
    """Follows products to their softmax and on; one for each watcher."""

    host: Host
    _kinds: dict[Any, tuple[int, str]] = field(default_factory=dict)
    _traces: dict[int, tuple[weakref.ref[Tensor], Trace]] = field(default_factory=dict)
    _last: products.Projection | None = None

    def forget(self) -> None:
        """Let go of everything that is followed."""
        self._traces.clear()
        self._last = None

    @property
    def is_following(self) -> bool:
        """True if any tensor is followed."""
        return bool(self._traces)

    def passes(self, func: Any) -> bool | None:
        """Whether a function passes as it is: always, or while nothing is followed; None: no."""
        kind, _ = self._kinds.get(func) or self._kind_of(func)
        return None if kind in (PRODUCT, PROJECTION) else kind == OTHER

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the function gives; only an edited softmax gives anything else."""
        kind, name = self._kinds.get(func) or self._kind_of(func)
        if kind == PRODUCT:
            if not self._traces and not kwargs and _has_weight(args):
                return func(*args, **kwargs)
            return self._multiply(func, name, args, kwargs)
        if self._traces:
            if kind == SOFTMAX:
                return self._softmax(func, args, kwargs)
            if kind in (PASS, PROJECTION):
                return self._pass_on(func, name, args, kwargs)
        out = func(*args, **kwargs)
        if kind == PROJECTION:
            self._last = products.Projection(out.shape, -1 if name == "linear" else 1)
        return out

    def _kind_of(self, func: Any) -> tuple[int, str]:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        name = name.strip("_")
        kind = OTHER
        if name == "softmax":
            kind = SOFTMAX
        elif name in PRODUCTS:
            kind = PRODUCT
        elif name in PROJECTIONS:
            kind = PROJECTION
        elif name in _passes:
            kind = PASS
        self._kinds[func] = kind, name
        return kind, name

    def _trace(self, value: Any) -> Trace | None:
        found = self._traces.get(id(value))
        return found[1] if found is not None and found[0]() is value else None

    def _follow(self, tensor: Tensor, trace: Trace) -> None:
        key, traces = id(tensor), self._traces
        traces[key] = weakref.ref(tensor, lambda _: traces.pop(key, None)), trace

    def _drop(self, origin: Origin) -> None:
        for key in [key for key, (_, trace) in self._traces.items() if trace.origin is origin]:
            del self._traces[key]

    def _multiply(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._traces:
            for value in _tensors((args, kwargs)):
                trace = self._trace(value)
                if trace is not None and trace.read:
                    with suppress(Exception):
                        product = products.of(name, args, kwargs)
                        if product is None or product.sums_rows_of(value):
                            self._keep(value, trace)
                    self._drop(trace.origin)
                    return func(*args, **kwargs)
        out = func(*args, **kwargs)
        # what cannot be followed is not: nothing is raised in anyone's model
        with suppress(Exception):
            self._begin(out, name, args, kwargs)
        return out

    def _begin(self, out: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Follow what a product gave, if it may be scores of attention."""
        product = products.of(name, args, kwargs)
        if product is None or not isinstance(out, Tensor) or out.dim() < 2:
            return
        if products.mixes_channels(product, self._last):
            return
        host = self.host
        meant = host.means()
        origin = Origin(
            host.places(),
            eager_calls.heads_of(host.module()),
            # tokens or batches may come first
            tuple(self._last.shape[:2]) if self._last is not None else (),
            meant,
            product.rows,
        )
        added = None
        if meant:
            # baddbmm and addmm add something to their product
            added = torch.zeros_like(out)
            if name in ("baddbmm", "addmm"):
                first = args[0] if args else kwargs["input"]
                added = added + kwargs.get("beta", 1) * first
        self._follow(out, Trace(origin, added))

    def _pass_on(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = [(x, t) for x in _tensors((args, kwargs)) if (t := self._trace(x)) is not None]
        if not found:
            out = func(*args, **kwargs)
            if name in PROJECTIONS:
                self._last = products.Projection(out.shape, -1 if name == "linear" else 1)
            return out
        source, trace = found[0]
        if name in PROJECTIONS and not _mixes_heads(source, args):
            return func(*args, **kwargs)
        added = None
        if trace.added is not None and not trace.read:
            alone = [source] if name not in ("cat", "setitem") else [x for x, _ in found]
            with suppress(Exception):
                added = self._added(func, name, args, kwargs, alone)
        out = func(*args, **kwargs)
        with suppress(Exception):
            self._hand_on(source, trace, out, added, name, args, kwargs)
        return out

    def _hand_on(
        self,
        source: Tensor,
        trace: Trace,
        out: Any,
        added: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Follow what a tensor that is followed became."""
        outs = [args[0]] if name == "setitem" else _tensors(out)
        parts = _tensors(added) if added is not None else []
        columns = _columns(name, args, kwargs, self._trace) or trace.columns
        for i, tensor in enumerate(outs):
            if tensor.is_floating_point() and not (trace.read and tensor is source):
                after = replace(trace, columns=columns, added=parts[i] if parts else None)
                if trace.read and trace.weights is None:
                    after.weights = source
                self._follow(tensor, after)

    def _added(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sources: Sequence[Tensor],
    ) -> Any:
        """What the function gives where the product was zeros: what it adds."""
        if name in ("dropout", "alpha_dropout"):
            return self._trace(sources[0]).added  # type: ignore[union-attr]
        shadows = {id(x): t.added for x in sources if (t := self._trace(x)) is not None}
        if name == "setitem":
            shadows.setdefault(id(args[0]), args[0].clone())
            func(*_swapped(args, shadows))
            return shadows[id(args[0])]
        return func(*_swapped(args, shadows), **_swapped(kwargs, shadows))

    def _softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = args[0] if args else kwargs.get("input")
        trace = self._trace(x)
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if trace is None or trace.read or x is None or dim not in (-1, x.dim() - 1):
            return func(*args, **kwargs)
        out = None
        if trace.origin.meant:
            out = self._edited(x, trace, func, args, kwargs)
        edited = out is not None
        if out is None:
            out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            self._follow(out, Trace(trace.origin, None, trace.columns, read=True, edited=edited))
        return out

    def _edited(
        self, x: Tensor, trace: Trace, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor | None:
        """The softmax's output with its weights edited; None if nothing is changed."""
        origin = trace.origin
        layout = Layout.of(x.shape, origin.heads, origin.batches)
        call = eager_calls.to_edit(layout, x, trace.added, trace.columns, origin.rows)
        with self.host.standing(origin.places):
            new = self.host.edited(call)
        if new is call:
            return None
        out = eager_calls.weights_after(call, new)
        if trace.columns is not None:
            out = eager_calls.with_sinks(out, trace.columns, x.shape[-1])
        # autocast, and arguments, say what the model's own would have been
        tiny = x.detach().new_zeros((1,) * x.dim())
        like = func(*_swapped(args, {id(x): tiny}), **_swapped(kwargs, {id(x): tiny}))
        return layout.back(out).to(like.dtype)

    def _keep(self, value: Tensor, trace: Trace) -> None:
        """Show the weights to the looks: they are about to read values."""
        weights = value if trace.weights is None else trace.weights
        origin = trace.origin
        layout = Layout.of(weights.shape, origin.heads, origin.batches)
        source = eager_calls.ran(weights, layout, trace.columns, origin.rows)
        with self.host.standing(origin.places):
            if not origin.meant:
                self.host.meet()
            self.host.keep(source, edited=trace.edited)


def _has_weight(args: tuple[Any, ...]) -> bool:
    """Whether the last of a product's operands is a parameter: it is a layer then, no scores."""
    return bool(args) and type(args[-1]) is torch.nn.Parameter


def _tensors(given: Any) -> list[Tensor]:
    """The tensors among what was given, in order, also those in lists."""
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, dict):
        given = given.values()
    elif not isinstance(given, list | tuple):
        return []
    return [x for part in given for x in _tensors(part)]


def _swapped(given: Any, shadows: dict[int, Any]) -> Any:
    """What was given, with some tensors in it replaced."""
    if isinstance(given, Tensor):
        return shadows.get(id(given), given)
    if isinstance(given, dict):
        return {name: _swapped(x, shadows) for name, x in given.items()}
    if isinstance(given, list | tuple) and type(given) in (list, tuple):
        return type(given)(_swapped(x, shadows) for x in given)
    return given


def _columns(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], trace: Callable[[Any], Trace | None]
) -> tuple[int, int] | None:
    """Where the keys are once other columns, such as sinks, are put beside them."""
    if name not in ("cat", "concat", "concatenate"):
        return None
    parts = args[0] if args else kwargs["tensors"]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    if dim not in (-1, parts[0].dim() - 1):
        return None
    mine = [trace(part) is not None for part in parts]
    widths = [part.shape[-1] for part in parts]
    start = sum(widths[: mine.index(True)])
    stop = sum(widths[: len(mine) - mine[::-1].index(True)])
    return None if (start, stop) == (0, sum(widths)) else (start, stop)


def _mixes_heads(source: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether a layer on followed scores mixes heads (talking heads), and leaves keys alone."""
    if not args or args[0] is not source or source.dim() != 4:
        return False
    if len(args) > 1 and isinstance(args[1], Tensor) and args[1].dim() == 4:
        return args[1].shape[2:] == (1, 1)  # a convolution over heads in axis 1
    return source.stride(-1) > source.stride(-2)
