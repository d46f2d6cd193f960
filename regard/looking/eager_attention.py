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
from regard.looking.eager_calls import CellLayout
from regard.looking.record import Source

# What a product goes through without being anything else, by the name of the function.
PASS_NAMES = """
    T add addcmul as_strided cat chunk clamp clamp_max clamp_min clip clone concat concatenate
    contiguous copy detach div divide double dropout alpha_dropout expand expand_as flatten flip
    float bfloat16 half gather getitem iadd imul index_select isub itruediv lerp linear conv2d mT
    masked_fill masked_scatter max maximum min minimum movedim mul multiply nan_to_num narrow neg
    pad permute radd relu repeat repeat_interleave reshape rmul roll rsub select setitem split
    squeeze stack sub subtract swapaxes tanh to transpose tril triu true_divide truediv type type_as
    unbind unflatten unsqueeze view view_as where
"""
PRODUCT_FUNCTIONS = frozenset(
    ["matmul", "rmatmul", "bmm", "mm", "baddbmm", "addmm", "einsum", "cdist"]
)
PASS_FUNCTIONS = frozenset(PASS_NAMES.split())
PROJECTION_FUNCTIONS = frozenset(["linear", "conv1d", "conv2d"])

# The kinds of functions.
KIND_OTHER = 0
KIND_PASS = 1
KIND_PROJECTION = 2
KIND_PRODUCT = 3
KIND_SOFTMAX = 4


@runtime_checkable
class Host(Protocol):
    """The receiver of the calls that are followed: all open looks and edits."""

    def places(self) -> list[Any]:
        """Where each look and edit stands in its model."""

    def at_places(self, places: list[Any]) -> AbstractContextManager[None]:
        """Inside, the innermost module of each look and edit is the one of these places."""

    def unrecorded(self) -> AbstractContextManager[Any]:
        """Inside, no tracer records what a look does."""

    def module(self) -> Any:
        """The innermost module that is running in a model of a look or an edit, else None."""

    def has_edit(self) -> bool:
        """True if an edit applies to the module that is running."""

    def apply_edits(self, call: Call) -> Call:
        """The call as every open edit leaves it."""

    def note_attention(self) -> None:
        """Note for each edit that the running module attends."""

    def keep(self, source: Source, *, edited: bool) -> None:
        """Show a call to every open look."""


@dataclass
class ProductOrigin:
    """The product that scores come from, and the module that it ran in."""

    places: list[Any]
    heads: int | None
    batches: tuple[int, ...]
    has_edit: bool
    rows: eager_calls.OperandRows | None


@dataclass
class ScoreTrace:
    """A tensor that a product became on its way through a softmax.

    Args:
        model_bias: what the tensor would be of a product of zeros, where an edit means it.
        columns: which of its last axis are keys; None is all of them.
        has_softmax: whether it went through a softmax.
        weights: the output of that; None in the trace of that very tensor.
    """

    origin: ProductOrigin
    model_bias: Tensor | None = None
    columns: tuple[int, int] | None = None
    has_softmax: bool = False
    weights: Tensor | None = None
    is_edited: bool = False


@dataclass
class EagerAttention:
    """Follows products to their softmax and on; one for each watcher."""

    host: Host
    _kinds: dict[Any, tuple[int, str]] = field(default_factory=dict)
    _traces: dict[int, tuple[weakref.ref[Tensor], ScoreTrace]] = field(default_factory=dict)
    _last_projection: products.Projection | None = None

    def forget(self) -> None:
        """Forget all tensors that are followed."""
        self._traces.clear()
        self._last_projection = None

    @property
    def is_following(self) -> bool:
        """True if any tensor is followed."""
        return bool(self._traces)

    def can_pass(self, func: Any) -> bool | None:
        """True if a function always passes, False if only while nothing is followed, else None."""
        kind, _ = self._kinds.get(func) or self._kind_of(func)
        return None if kind in (KIND_PRODUCT, KIND_PROJECTION) else kind == KIND_OTHER

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the function; that of a softmax may be edited."""
        kind, name = self._kinds.get(func) or self._kind_of(func)
        if kind == KIND_PRODUCT:
            if not self._traces and not kwargs and _has_weight(args):
                return func(*args, **kwargs)
            return self._run_product(func, name, args, kwargs)
        if self._traces:
            if kind == KIND_SOFTMAX:
                return self._run_softmax(func, args, kwargs)
            if kind in (KIND_PASS, KIND_PROJECTION):
                return self._run_and_follow(func, name, args, kwargs)
        out = func(*args, **kwargs)
        if kind == KIND_PROJECTION:
            self._last_projection = products.Projection(out.shape, -1 if name == "linear" else 1)
        return out

    def _kind_of(self, func: Any) -> tuple[int, str]:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        name = name.strip("_")
        kind = KIND_OTHER
        if name == "softmax":
            kind = KIND_SOFTMAX
        elif name in PRODUCT_FUNCTIONS:
            kind = KIND_PRODUCT
        elif name in PROJECTION_FUNCTIONS:
            kind = KIND_PROJECTION
        elif name in PASS_FUNCTIONS:
            kind = KIND_PASS
        self._kinds[func] = kind, name
        return kind, name

    def _trace_of(self, value: Any) -> ScoreTrace | None:
        found = self._traces.get(id(value))
        return found[1] if found is not None and found[0]() is value else None

    def _follow(self, tensor: Tensor, trace: ScoreTrace) -> None:
        key, traces = id(tensor), self._traces
        traces[key] = weakref.ref(tensor, lambda _: traces.pop(key, None)), trace

    def _drop_traces(self, origin: ProductOrigin) -> None:
        for key in [key for key, (_, trace) in self._traces.items() if trace.origin is origin]:
            del self._traces[key]

    def _run_product(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._traces:
            for value in _tensors_in((args, kwargs)):
                trace = self._trace_of(value)
                if trace is not None and trace.has_softmax:
                    with suppress(Exception):
                        product = products.product_of(name, args, kwargs)
                        if product is None or product.is_sum_over_keys(value):
                            self._show_weights(value, trace)
                    self._drop_traces(trace.origin)
                    return func(*args, **kwargs)
        out = func(*args, **kwargs)
        # what cannot be followed is not: nothing is raised in anyone's model
        with suppress(Exception):
            self._follow_product(out, name, args, kwargs)
        return out

    def _follow_product(
        self, out: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Follow the output of a product, if it may be scores of attention."""
        product = products.product_of(name, args, kwargs)
        if product is None or not isinstance(out, Tensor) or out.dim() < 2:
            return
        if products.is_channel_product(product, self._last_projection):
            return
        host = self.host
        has_edit = host.has_edit()
        origin = ProductOrigin(
            host.places(),
            eager_calls.head_count(host.module()),
            # tokens or batches may come first
            tuple(self._last_projection.shape[:2]) if self._last_projection is not None else (),
            has_edit,
            product.rows,
        )
        added = None
        if has_edit:
            # baddbmm and addmm add something to their product
            added = torch.zeros_like(out)
            if name in ("baddbmm", "addmm"):
                first = args[0] if args else kwargs["input"]
                added = added + kwargs.get("beta", 1) * first
        self._follow(out, ScoreTrace(origin, added))

    def _run_and_follow(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        found = [
            (x, t) for x in _tensors_in((args, kwargs)) if (t := self._trace_of(x)) is not None
        ]
        if not found:
            out = func(*args, **kwargs)
            if name in PROJECTION_FUNCTIONS:
                self._last_projection = products.Projection(
                    out.shape, -1 if name == "linear" else 1
                )
            return out
        source, trace = found[0]
        if name in PROJECTION_FUNCTIONS and not _mixes_heads(source, args):
            return func(*args, **kwargs)
        if name in ("max", "min") and len(_tensors_in((args, kwargs))) < 2:
            return func(*args, **kwargs)  # of a row, not of two tensors
        added = None
        if trace.model_bias is not None and not trace.has_softmax:
            alone = [source] if name not in ("cat", "setitem") else [x for x, _ in found]
            with suppress(Exception):
                added = self._model_bias(func, name, args, kwargs, alone)
        out = func(*args, **kwargs)
        with suppress(Exception):
            self._follow_outputs(source, trace, out, added, name, args, kwargs)
        return out

    def _follow_outputs(
        self,
        source: Tensor,
        trace: ScoreTrace,
        out: Any,
        added: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Follow the outputs of a function of a tensor that is followed."""
        outs = [args[0]] if name == "setitem" else _tensors_in(out)
        parts = _tensors_in(added) if added is not None else []
        columns = _key_columns(name, args, kwargs, self._trace_of) or trace.columns
        for i, tensor in enumerate(outs):
            if tensor.is_floating_point() and not (trace.has_softmax and tensor is source):
                after = replace(trace, columns=columns, model_bias=parts[i] if parts else None)
                if trace.has_softmax and trace.weights is None:
                    after.weights = source
                self._follow(tensor, after)

    def _model_bias(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sources: Sequence[Tensor],
    ) -> Any:
        """The output of the function for a product of zeros: the part that the model adds."""
        if name in ("dropout", "alpha_dropout"):
            return self._trace_of(sources[0]).model_bias  # type: ignore[union-attr]
        shadows = {id(x): t.model_bias for x in sources if (t := self._trace_of(x)) is not None}
        if name == "setitem":
            shadows.setdefault(id(args[0]), args[0].clone())
            func(*_replace_tensors(args, shadows))
            return shadows[id(args[0])]
        return func(*_replace_tensors(args, shadows), **_replace_tensors(kwargs, shadows))

    def _run_softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = args[0] if args else kwargs.get("input")
        trace = self._trace_of(x)
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if trace is None or trace.has_softmax or x is None or dim not in (-1, x.dim() - 1):
            return func(*args, **kwargs)
        out = None
        if trace.origin.has_edit:
            out = self._edit_softmax(x, trace, func, args, kwargs)
        is_edited = out is not None
        if out is None:
            out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            self._follow(
                out,
                ScoreTrace(
                    trace.origin, None, trace.columns, has_softmax=True, is_edited=is_edited
                ),
            )
        return out

    def _edit_softmax(
        self, x: Tensor, trace: ScoreTrace, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor | None:
        """The softmax's output with its weights edited; None if nothing is changed."""
        origin = trace.origin
        layout = CellLayout.of(x.shape, origin.heads, origin.batches)
        call = eager_calls.editable_call(layout, x, trace.model_bias, trace.columns, origin.rows)
        with self.host.at_places(origin.places):
            new = self.host.apply_edits(call)
        if new is call:
            return None
        out = eager_calls.edited_weights(call, new)
        if trace.columns is not None:
            out = eager_calls.with_sink_columns(out, trace.columns, x.shape[-1])
        # autocast, and arguments, say what the model's own would have been
        tiny = x.detach().new_zeros((1,) * x.dim())
        like = func(
            *_replace_tensors(args, {id(x): tiny}), **_replace_tensors(kwargs, {id(x): tiny})
        )
        return layout.from_bhqk(out).to(like.dtype)

    def _show_weights(self, value: Tensor, trace: ScoreTrace) -> None:
        """Show the weights to the looks: they are about to read values."""
        weights = value if trace.weights is None else trace.weights
        origin = trace.origin
        layout = CellLayout.of(weights.shape, origin.heads, origin.batches)
        with self.host.at_places(origin.places), self.host.unrecorded():
            source = eager_calls.weights_source(weights, layout, trace.columns, origin.rows)
            if not origin.has_edit:
                self.host.note_attention()
            self.host.keep(source, edited=trace.is_edited)


def _has_weight(args: tuple[Any, ...]) -> bool:
    """True if the last of a product's operands is a parameter: it is a layer then, no scores."""
    return bool(args) and type(args[-1]) is torch.nn.Parameter


def _tensors_in(given: Any) -> list[Tensor]:
    """The tensors among the arguments, in order, also those in lists."""
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, dict):
        given = given.values()
    elif not isinstance(given, list | tuple):
        return []
    return [x for part in given for x in _tensors_in(part)]


def _replace_tensors(given: Any, shadows: dict[int, Any]) -> Any:
    """The arguments with some of their tensors replaced, by id."""
    if isinstance(given, Tensor):
        return shadows.get(id(given), given)
    if isinstance(given, dict):
        return {name: _replace_tensors(x, shadows) for name, x in given.items()}
    if isinstance(given, list | tuple) and type(given) in (list, tuple):
        return type(given)(_replace_tensors(x, shadows) for x in given)
    return given


def _key_columns(
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    trace: Callable[[Any], ScoreTrace | None],
) -> tuple[int, int] | None:
    """First and last column of the keys, if other columns, such as sinks, are put beside them."""
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
    """True if a layer on followed scores mixes heads (talking heads), and leaves keys alone."""
    if not args or args[0] is not source or source.dim() != 4:
        return False
    if len(args) > 1 and isinstance(args[1], Tensor) and args[1].dim() == 4:
        return args[1].shape[2:] == (1, 1)  # a convolution over heads in axis 1
    return source.stride(-1) > source.stride(-2)
