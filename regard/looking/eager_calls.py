"""Weights and logits that a model computed by itself, as calls of ours."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.functional import attention as plain
from regard.functional.call import Call, build_call, repeat_kv_heads, zero_ablated_heads
from regard.functional.precision import to_float32
from regard.functional.rules import both
from regard.functional.selects import HIDDEN, softmax
from regard.looking.number_masks import visible_cells
from regard.looking.record import Source

# A function that gives the operands of a product: queries (…, Q, D) and keys (…, K, D).
OperandRows = Callable[[], tuple[Tensor, Tensor]]

# Attributes that hold a module's number of heads.
HEAD_COUNT_NAMES = (
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "heads",
    "nhead",
    "num_q_heads",
)


@dataclass(frozen=True, eq=False)
class Weights:
    """A score that is the model's own weights (B, H, Q, K); goes with `identity_select`."""

    tensor: Tensor

    def __call__(self, q: Tensor, k: Tensor) -> Float[Tensor, "B H Q K"]:
        return self.tensor


@dataclass(frozen=True, eq=False)
class Logits:
    """A score that is the model's own logits (B, H, Q, K), −inf where it masked them.

    Args:
        tensor: the logits.
        model_bias: what the model added to its product; stays if the score is replaced. None if it
            is unknown.
        model_mask: where they may be seen; blind rows are open.
        visible: the same, where blind rows see nothing.
    """

    tensor: Tensor
    model_bias: Tensor | None
    model_mask: Tensor
    visible: Tensor

    def __call__(self, q: Tensor, k: Tensor) -> Float[Tensor, "B H Q K"]:
        return self.tensor


@dataclass(frozen=True, eq=False)
class SoftmaxWithSinks:
    """A softmax that has further logits in its denominator (B, H, Q, n), of which none is a key."""

    sinks: Tensor

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        scores = to_float32(scores)
        return softmax(torch.cat([scores, self.sinks.to(scores.dtype)], -1))[
            ..., : scores.shape[-1]
        ]


def identity_select(scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
    """The scores unchanged: they are weights already."""
    return scores


class CellLayout(NamedTuple):
    """The conversion of a tensor of cells to (B, H, Q, K), and back.

    Args:
        shape: that of the cells, of which the last axis is the keys.
        query_axis: the axis of the queries.
        outer: the sizes of all other axes, with heads apart from batches.
        head_axis: which of these is the heads; the others are a batch.
    """

    shape: torch.Size
    query_axis: int
    outer: tuple[int, ...]
    head_axis: int

    @classmethod
    def from_shape(
        cls,
        shape: torch.Size,
        heads: int | None,
        batches: Collection[int],
        query_axis: int | None = None,
        *,
        is_heads_first: bool = False,
        rows: OperandRows | None = None,
    ) -> "CellLayout":
        """The layout of cells of this shape, in a module with so many heads and batches.

        Three axes are one head for each of the first, or all heads of a batch if it fits; of more,
        one is the heads.

        Args:
            query_axis: which axis is the queries, if that is known.
            is_heads_first: whether an axis of heads and batches has the heads outside.
            rows: the operands of their product, if these are known.
        """
        n = len(shape)
        if query_axis is None:
            is_transposed = n == 4 and heads is not None and shape[1] != heads == shape[2]
            query_axis = 1 if is_transposed else n - 2
        outer = _without_axis(shape[:-1], query_axis)
        if n == 2:
            return cls(shape, query_axis, (1, 1), 1)
        if n == 3 and query_axis != 1:
            return cls(shape, query_axis, (*outer, 1), 1)
        is_merged = heads is not None and heads > 0 and (n == 3 or heads not in outer)
        if is_merged and outer[0] in [batch * (heads or 0) for batch in batches]:
            batch, axis = outer[0] // (heads or 1), 0 if is_heads_first else 1
            apart = (heads or 1, batch) if is_heads_first else (batch, heads or 1)
            return cls(shape, query_axis, (*apart, *outer[1:]), axis)
        if n == 3:
            return cls(shape, query_axis, (*outer, 1), 1)
        return cls(shape, query_axis, outer, find_head_axis(outer, heads, rows))

    def to_bhqk(self, x: Tensor) -> Tensor:
        """(B, H, Q, K), of any K."""
        return self.split_heads(x.movedim(self.query_axis, -2))

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, H, L, D) of a tensor (…, L, D) whose other axes are those of the cells."""
        x = x.reshape(*self.outer, *x.shape[-2:])
        return x.movedim(self.head_axis, -3).flatten(0, -4)

    def from_bhqk(self, x: Tensor) -> Tensor:
        """The cells in their own form."""
        x = x.reshape(*_without_axis(self.outer, self.head_axis), *x.shape[1:])
        sizes = _without_axis(self.shape[:-1], self.query_axis)
        x = x.movedim(-3, self.head_axis).reshape(*sizes, *x.shape[-2:])
        return x.movedim(-2, self.query_axis)


def find_head_axis(outer: tuple[int, ...], heads: int | None, rows: OperandRows | None) -> int:
    """Which of several axes is the heads: the one of that size, or the last.

    Args:
        outer: their sizes.
        heads: how many heads there are, if that is known.
        rows: the operands of the product, which have these axes.
    """
    last = len(outer) - 1
    found = [axis for axis, size in enumerate(outer) if size == heads]
    if not found or found == [last]:
        return last
    for x in rows() if rows is not None else ():
        if x.shape[:-2] == outer and all(x.stride(axis) for axis in found):
            # heads are split from features, so that they lie closer than batches and tokens
            nearest = min(reversed(found), key=x.stride)
            is_outside = x.shape[-2] > 1 and x.stride(nearest) > x.stride(-2)
            return last if is_outside and not x.is_contiguous() else nearest
    return found[-1]


def _without_axis(sizes: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*sizes[:axis], *sizes[axis + 1 :])


def head_count(module: Any) -> int | None:
    """The number of heads in a module's attributes; None if it has none of these."""
    for name in HEAD_COUNT_NAMES:
        found = None
        # a property of the model's own may raise anything
        with suppress(Exception):
            found = getattr(module, name, None)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def weights_source(
    weights: Tensor,
    layout: CellLayout,
    columns: tuple[int, int] | None,
    rows: OperandRows | None = None,
) -> Source:
    """A call with exactly these weights, and its keys where they are known.

    Its q has no width, since nothing is left to compute; its keys tell where its columns stand
    among those of other calls.
    """
    cells = layout.to_bhqk(weights.detach())
    if columns is not None:
        cells = cells[..., slice(*columns)]
    known = None if rows is None else _queries_and_keys(rows, layout, *cells.shape)
    keys = [] if known is None else [known[1].detach()]

    def make(cells: Tensor, k: Tensor | None = None) -> Call:
        B, H, Q, K = cells.shape
        k = cells.new_empty(B, H, K, 0) if k is None else k
        return Call(
            cells.new_empty(B, H, Q, 0), k, k, Weights(cells), identity_select, None, None, 0.0
        )

    return Source(make, [cells, *keys], keys=1 if keys else None)


def editable_call(
    layout: CellLayout,
    logits: Tensor,
    model_bias: Tensor | None,
    columns: tuple[int, int] | None,
    rows: OperandRows | None,
) -> Call:
    """A call to edit, of the logits that go into a softmax, with q and k where they are known."""
    cells = to_float32(layout.to_bhqk(logits))
    select: Any = softmax
    if columns is not None:
        sinks = torch.cat([cells[..., : columns[0]], cells[..., columns[1] :]], -1)
        select, cells = SoftmaxWithSinks(sinks), cells[..., slice(*columns)]
    B, H, Q, K = cells.shape
    hidden = cells <= torch.finfo(logits.dtype).min / 2
    visible = ~hidden
    # a row of which all is masked stays as the model has it
    hidden = hidden & ~hidden.all(-1, keepdim=True)
    known = None if rows is None else _queries_and_keys(rows, layout, B, H, Q, K)
    if model_bias is not None and model_bias.shape == logits.shape:
        model_bias = to_float32(layout.to_bhqk(model_bias))
        model_bias = model_bias if columns is None else model_bias[..., slice(*columns)]
        model_bias = model_bias.masked_fill(hidden, 0)
    else:
        model_bias = None
    # a mask of numbers stays in the logits; what is told apart is which cells may be forced
    added = cells if model_bias is None else model_bias
    mask = visible_cells(added, cells)
    model_bias = None if known is None else model_bias
    score = Logits(cells.masked_fill(hidden, HIDDEN), model_bias, ~hidden, visible)
    q, k = known or (cells.new_zeros(B, H, n, 1) for n in (Q, K))
    return Call(q, k, k, score, select, None, None, 0.0, model_mask=mask)


def edited_weights(call: Call, new: Call) -> Tensor:
    """The weights (B, H, Q, K) of an edited call."""
    score = call.score
    assert isinstance(score, Logits)
    if new.v is not call.v or new.dropout:
        raise ValueError(
            "edit: expected a change of score, select, rule, bias or heads, got one of values or "
            "dropout; where a model attends by itself, only its weights are edited"
        )
    if new.score is score:
        if new.q is not call.q or new.k is not call.k:
            raise ValueError(
                "edit: expected another score with other queries or keys, got the model's own "
                "logits, which are formed already; change the score too, as by edits.score(dot)"
            )
    elif score.model_bias is None:
        raise ValueError(
            "edit: expected a model whose queries and keys can be told from its product, got "
            f"another score for logits {tuple(score.tensor.shape)}; of these, edit the rest"
        )
    else:
        new = _with_model_bias_and_mask(new, score.model_bias, score.model_mask)
    k = repeat_kv_heads(new.k, new.q.shape[1])
    found = plain.weights(
        new.q, k, score=new.score, select=new.select, rule=new.rule, bias=new.bias
    )
    return zero_ablated_heads(new, found)


def with_sink_columns(weights: Tensor, columns: tuple[int, int], width: int) -> Tensor:
    """The weights with columns beside them that hold what is left of each row."""
    before, after = columns[0], width - columns[1]
    rest = (1 - weights.sum(-1, keepdim=True)).clamp_min(0) / (before + after)
    sides = [rest.expand(*rest.shape[:-1], n) for n in (before, after)]
    return torch.cat([sides[0], weights, sides[1]], -1)


def _with_model_bias_and_mask(new: Call, model_bias: Tensor, model_mask: Tensor) -> Call:
    """The call with the bias and the mask that the model applied to its own score."""
    if new.bias is not None:
        model_bias = model_bias + plain.dense_bias(new.q, new.k, new.bias)
    model = build_call(new.q, new.k, None, rule=model_mask, bias=model_bias)
    assert model.rule is not None
    rule = model.rule if new.rule is None else both(new.rule, model.rule)
    return replace(new, rule=rule, bias=model.bias)


def _queries_and_keys(
    rows: OperandRows, layout: CellLayout, B: int, H: int, Q: int, K: int
) -> tuple[Tensor, Tensor] | None:
    """Queries (B, H, Q, D) and keys (B, H, K, D), if the product's rows are those of its cells."""
    q, k = rows()
    lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    if lead.numel() != B * H or q.shape[-2] != Q or k.shape[-2] != K:
        return None
    q, k = (layout.split_heads(x.expand(*lead, *x.shape[-2:])) for x in (q, k))
    return q, k
