"""Attention that a model computes by itself: a product, a softmax of it, and a product with that.

Every function of PyTorch that such a model calls goes by the watcher. A product of two activations
is followed through whatever is done to its cells (scales, masks, biases, caps, casts, new shapes,
columns of sinks) to a softmax over its last axis, and on to the product that reads values with it.
What is looked at is the softmax's own output; what is edited is put in its place.
"""

import weakref
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.functional.call import Call
from regard.looking import eager_calls, function_kinds, products
from regard.looking.cell_axes import ALL_MOVE_NAMES, CellAxes
from regard.looking.function_kinds import (
    KIND_OTHER,
    KIND_PASS,
    KIND_PRODUCT,
    KIND_PROJECTION,
    KIND_SOFTMAX,
    PROJECTION_FUNCTIONS,
    SUM_NAMES,
)
from regard.looking.head_merges import MERGE_NAMES, HeadMerges
from regard.looking.key_columns import key_columns
from regard.looking.other_modes import run_visible
from regard.looking.record import Source, unreadable_source
from regard.looking.score_traces import ProductOrigin, ScoreTrace, replace_tensors, tensors_in
from regard.looking.sdpa_heads import HeadHints

OVERWRITTEN_ERROR = (
    "look: the weights were written into before they were read; expected a model that keeps the "
    "output of its softmax"
)


@runtime_checkable
class Host(Protocol):
    """The receiver of the calls that are followed: all open looks and edits."""

    def places(self) -> list[Any]:
        """Where each look and edit stands in its model."""

    def at_places(self, places: list[Any]) -> AbstractContextManager[None]:
        """Inside, the innermost module of each look and edit is the one of these places."""

    def without_recorders(self) -> AbstractContextManager[Any]:
        """Inside, no tracer records what a look does."""

    def module(self) -> Any:
        """The innermost module that is running in a model of a look or an edit, else None."""

    def has_edit(self) -> bool:
        """True if an edit applies to the module that is running."""

    def apply_edits(self, call: Call) -> Call:
        """The call as every open edit leaves it."""

    def note_attention(self) -> None:
        """Note for each edit that the running module attends."""

    def keep(self, source: Source, *, was_edited: bool) -> None:
        """Show a call to every open look."""


@dataclass
class EagerAttention:
    """Follows products to their softmax and on; one for each watcher."""

    host: Host
    _kinds: dict[Any, tuple[int, str]] = field(default_factory=dict)
    _traces: dict[int, tuple[weakref.ref[Tensor], ScoreTrace]] = field(default_factory=dict)
    _last_projection: products.Projection | None = None
    _merges: HeadMerges = field(default_factory=HeadMerges)

    def clear(self) -> None:
        """Forget all tensors that are followed."""
        self._traces.clear()
        self._merges.clear()
        self._last_projection = None

    def head_hints(self) -> HeadHints:
        """What is known of the heads of the attention that is running."""
        last = self._last_projection
        batches = () if last is None else last.batch_counts
        return HeadHints(eager_calls.head_count(self.host.module()), batches, self._merges)

    def obstacles(self, func: Any) -> Collection[Any]:
        """A collection that is empty where `func` needs no `run_function`; it may change."""
        kind, name = self._kinds.get(func) or self._kind_of(func)
        if kind in (KIND_PRODUCT, KIND_PROJECTION) or name in MERGE_NAMES:
            return (name,)
        return () if kind == KIND_OTHER else self._traces

    def run_function(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the function; that of a softmax may be edited."""
        kind, name = self._kinds.get(func) or self._kind_of(func)
        if kind == KIND_PRODUCT:
            if not self._traces and not kwargs and _has_weight(args):
                return run_visible(func, args, kwargs)
            return self._run_product(func, name, args, kwargs)
        if self._traces:
            if kind == KIND_SOFTMAX:
                return self._run_softmax(func, args, kwargs)
            if kind in (KIND_PASS, KIND_PROJECTION):
                return self._run_and_follow(func, name, args, kwargs)
        return self._run_and_note(func, name, args, kwargs)

    def _run_and_note(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The output of a function of nothing that is followed; shapes and merges are noted."""
        out = run_visible(func, args, kwargs)
        # an output may be no tensor, and a nested one has no shape
        with suppress(Exception):
            if name in MERGE_NAMES:
                self._merges.note(name, args, out)
            elif name in PROJECTION_FUNCTIONS and isinstance(out, Tensor):
                features = -1 if name == "linear" else 1
                self._last_projection = products.Projection(out.shape, features)
        return out

    def _kind_of(self, func: Any) -> tuple[int, str]:
        found = self._kinds[func] = function_kinds.kind_of(func)
        return found

    def _trace_of(self, value: Any) -> ScoreTrace | None:
        found = self._traces.get(id(value))
        tensor = None if found is None else found[0]()
        if found is None or tensor is None or tensor is not value:
            return None
        found[1].drop_stale_bias(tensor)
        return found[1]

    def _follow(self, tensor: Tensor, trace: ScoreTrace) -> None:
        key, traces = id(tensor), self._traces
        trace.bias_lag = trace.lag_of(tensor)
        traces[key] = weakref.ref(tensor, lambda _: traces.pop(key, None)), trace

    def _drop_traces(self, origin: ProductOrigin) -> None:
        for key in [key for key, (_, trace) in self._traces.items() if trace.origin is origin]:
            del self._traces[key]

    def _run_product(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._traces:
            for value in tensors_in((args, kwargs)):
                trace = self._trace_of(value)
                if trace is not None and trace.has_softmax:
                    is_read = False
                    with suppress(Exception):
                        product = products.product_of(name, args, kwargs)
                        is_read = product is None or product.is_sum_over_keys(value)
                        if is_read:
                            self._show_weights(value, trace)
                    if is_read:
                        self._drop_traces(trace.origin)
                    return run_visible(func, args, kwargs)
        # some of them write into what they add to
        added = None
        with suppress(Exception):
            added = self._product_addend(name, args, kwargs)
        out = run_visible(func, args, kwargs)
        # what cannot be followed is not: nothing is raised in anyone's model
        with suppress(Exception):
            self._follow_product(out, name, args, kwargs, added)
        return out

    def _product_addend(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor | None:
        """What baddbmm and addmm add to their product, if an edit applies; else None."""
        if name not in ("baddbmm", "addmm") or not self.host.has_edit():
            return None
        first, beta = args[0] if args else kwargs["input"], kwargs.get("beta", 1)
        # times 0 whatever is in there counts for nothing, NaN too
        return None if beta == 0 else torch.mul(first, beta)

    def _follow_product(
        self,
        out: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        addend: Tensor | None,
    ) -> None:
        """Follow the output of a product, if it may be scores of attention."""
        product = products.product_of(name, args, kwargs)
        if product is None or not isinstance(out, Tensor) or out.dim() < 2:
            return
        hints = self.head_hints()
        if products.is_channel_product(product, self._last_projection, hints.head_count):
            return
        host = self.host
        has_edit = host.has_edit()
        sides = product.left.tensor, product.right.tensor
        origin = ProductOrigin(
            host.places(),
            hints.head_count,
            hints.batches,
            has_edit,
            product.rows,
            out.dim() == 3 and self._merges.is_heads_first(sides, hints.head_count),
        )
        bias = None
        if has_edit:
            bias = torch.zeros_like(out)
            bias = bias if addend is None else bias + addend
        self._follow(out, ScoreTrace(origin, bias, axes=product.axes(out)))

    def _run_and_follow(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        found = [(x, t) for x in tensors_in((args, kwargs)) if (t := self._trace_of(x)) is not None]
        if not found:
            return self._run_and_note(func, name, args, kwargs)
        source, trace = found[0]
        if name in SUM_NAMES and not trace.axes.has_rows:
            # of a sum of two products, the one whose rows are known
            source, trace = next((one for one in found if one[1].axes.has_rows), found[0])
        if trace.has_softmax and function_kinds.is_in_place(func, name, args, kwargs):
            with suppress(Exception):
                self._copy_weights(source, trace)
        if name in PROJECTION_FUNCTIONS and not _mixes_heads(source, args):
            return run_visible(func, args, kwargs)
        if name in ("max", "min") and len(tensors_in((args, kwargs))) < 2:
            return run_visible(func, args, kwargs)  # of a row, not of two tensors
        added = None
        if trace.model_bias is not None and not trace.has_softmax:
            alone = [source] if name not in ("cat", "setitem") else [x for x, _ in found]
            with suppress(Exception):
                added = self._model_bias(func, name, args, kwargs, alone)
        out = run_visible(func, args, kwargs)
        with suppress(Exception):
            self._follow_outputs(func, source, trace, out, added, name, args, kwargs)
        return out

    def _copy_weights(self, source: Tensor, trace: ScoreTrace) -> None:
        """Keep a copy of a softmax's output, which is about to be written into."""
        if trace.weights is None or trace.weights.data_ptr() == source.data_ptr():
            trace.weights = (source if trace.weights is None else trace.weights).detach().clone()
            trace.version = None

    def _follow_outputs(
        self,
        func: Any,
        source: Tensor,
        trace: ScoreTrace,
        out: Any,
        model_bias: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Follow the outputs of a function of a tensor that is followed."""
        outs = [args[0]] if name == "setitem" else tensors_in(out)
        parts = tensors_in(model_bias) if model_bias is not None else []
        for i, tensor in enumerate(outs):
            if not tensor.is_floating_point() or (trace.has_softmax and tensor is source):
                continue
            after = replace(trace, model_bias=parts[i] if parts else None)
            if not trace.has_softmax:
                self._place_cells(after, func, source, tensor, name, args, kwargs)
                is_unknown = after.axes.left is None and tensor.dim() != source.dim()
                if is_unknown and trace.axes.has_other_last(source.dim()):
                    continue  # its last axis may be of heads
            elif trace.weights is None:
                after.weights = source
            self._follow(tensor, after)

    def _place_cells(
        self,
        trace: ScoreTrace,
        func: Any,
        source: Tensor,
        out: Tensor,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Set where the cells of a tensor that is followed are, from where those of `source` were.

        Args:
            trace: that of `out`; still with the axes and columns of `source`.
        """
        if name not in ALL_MOVE_NAMES and out.shape == source.shape:
            return
        if name == "setitem" and source is args[0]:
            return  # others are written among them

        def apply_to(other: Tensor) -> Any:
            return func(*replace_tensors(args, {id(source): other}), **kwargs)

        columns = key_columns(name, args, kwargs, self._trace_of)
        trace.axes = trace.axes.output_axes(name, args, source, out, apply_to)
        if name == "setitem" and columns is not None:
            trace.axes = CellAxes(columns=out.dim() - 1)
        if trace.axes.columns is None:
            trace.columns = None
        elif columns is not None:
            trace.columns = columns

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
        # what the model is about to write into is its own
        for written in function_kinds.written_tensors(func, name, args, kwargs):
            shadows.setdefault(id(written), written.clone())
        if name == "setitem":
            func(*replace_tensors(args, shadows))
            return shadows[id(args[0])]
        return func(*replace_tensors(args, shadows), **replace_tensors(kwargs, shadows))

    def _run_softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = args[0] if args else kwargs.get("input")
        trace = self._trace_of(x)
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if trace is None or trace.has_softmax or x is None or dim not in (-1, x.dim() - 1):
            return run_visible(func, args, kwargs)
        if trace.axes.has_other_last(x.dim()):
            return run_visible(func, args, kwargs)  # over heads
        out = None
        if trace.origin.has_edit:
            out = self._edit_softmax(x, trace, func, args, kwargs)
        is_edited = out is not None
        if out is None:
            out = run_visible(func, args, kwargs)
        if isinstance(out, Tensor):
            after = ScoreTrace(
                trace.origin, None, trace.columns_at_softmax(x.dim()), has_softmax=True,
                is_edited=is_edited, axes=trace.axes,
                version=None if out.is_inference() else out._version,
            )  # fmt: skip
            self._follow(out, after)
        return out

    def _edit_softmax(
        self, x: Tensor, trace: ScoreTrace, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor | None:
        """The softmax's output with its weights edited; None if nothing is changed."""
        origin, columns, rows = trace.origin, trace.columns_at_softmax(x.dim()), trace.rows(x.dim())
        layout = trace.layout(x.shape)
        call = eager_calls.editable_call(layout, x, trace.model_bias, columns, rows)
        with self.host.at_places(origin.places):
            new = self.host.apply_edits(call)
        if new is call:
            return None
        out = eager_calls.edited_weights(call, new)
        if columns is not None:
            out = eager_calls.with_sink_columns(out, columns, x.shape[-1])
        # autocast, and arguments, say what the model's own would have been
        tiny = x.detach().new_zeros((1,) * x.dim())
        like = func(*replace_tensors(args, {id(x): tiny}), **replace_tensors(kwargs, {id(x): tiny}))
        return layout.from_bhqk(out).to(like.dtype)

    def _show_weights(self, value: Tensor, trace: ScoreTrace) -> None:
        """Show the weights to the looks: they are about to read values."""
        weights = value if trace.weights is None else trace.weights
        origin = trace.origin
        with self.host.at_places(origin.places), self.host.without_recorders():
            source = eager_calls.weights_source(
                weights, trace.layout(weights.shape), trace.columns, trace.rows(weights.dim())
            )
            if trace.version not in (None, None if weights.is_inference() else weights._version):
                source = unreadable_source(OVERWRITTEN_ERROR)
            if not origin.has_edit:
                self.host.note_attention()
            self.host.keep(source, was_edited=trace.is_edited)


def _has_weight(args: tuple[Any, ...]) -> bool:
    """True if the last of a product's operands is a parameter: it is a layer then, no scores."""
    return bool(args) and type(args[-1]) is torch.nn.Parameter


def _mixes_heads(source: Tensor, args: tuple[Any, ...]) -> bool:
    """True if a layer on followed scores mixes heads (talking heads), and leaves keys alone."""
    if not args or args[0] is not source or source.dim() != 4:
        return False
    if len(args) > 1 and isinstance(args[1], Tensor) and args[1].dim() == 4:
        return args[1].shape[2:] == (1, 1)  # a convolution over heads in axis 1
    return source.stride(-1) > source.stride(-2)
