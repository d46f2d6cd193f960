"""What is known of a tensor that a product became, and tensors among the arguments of a call."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.looking import eager_calls
from regard.looking.cell_axes import UNKNOWN_AXES, CellAxes
from regard.looking.eager_calls import CellLayout


@dataclass
class ProductOrigin:
    """The product that scores come from, and the module that it ran in."""

    places: list[Any]
    heads: int | None
    batches: tuple[int, ...]
    has_edit: bool
    rows: eager_calls.OperandRows | None
    is_heads_first: bool = False


@dataclass
class ScoreTrace:
    """A tensor that a product became on its way through a softmax.

    Args:
        model_bias: what the tensor would be of a product of zeros, where an edit means it.
        bias_lag: how many more writes than into that there were into the tensor.
        columns: which of its last axis are keys; None is all of them.
        has_softmax: whether it went through a softmax.
        weights: the output of that, or a copy from before it was written into; None in the trace
            of that very tensor.
        is_edited: whether an edit changed them.
        axes: which of its axes are which; of what went into the softmax, from there on.
        version: that of the softmax's output as it was made.
    """

    origin: ProductOrigin
    model_bias: Tensor | None = None
    columns: tuple[int, int] | None = None
    has_softmax: bool = False
    weights: Tensor | None = None
    is_edited: bool = False
    axes: CellAxes = UNKNOWN_AXES
    version: int | None = None
    bias_lag: int | None = None

    def drop_stale_bias(self, tensor: Tensor) -> None:
        """Forget the model bias if the tensor was written into and the bias was not."""
        if self.model_bias is not None and self.bias_lag != self.lag_of(tensor):
            self.model_bias = None

    def lag_of(self, tensor: Tensor) -> int | None:
        """The writes that PyTorch counts into this tensor, less those into its model bias."""
        if self.model_bias is None or tensor.is_inference():
            return None
        return tensor._version - self.model_bias._version

    def rows(self, dims: int) -> eager_calls.OperandRows | None:
        """The rows of queries and keys, if the last of so many axes is one of them."""
        rows = self.origin.rows
        if rows is None or not self.axes.has_rows or self.axes.query_axis(dims) is None:
            return None
        return rows if self.axes.right == dims - 1 else lambda: rows()[::-1]

    def columns_at_softmax(self, dims: int) -> tuple[int, int] | None:
        """First and last column of the keys among the last of so many axes; None is all of them."""
        return self.columns if self.axes.columns == dims - 1 else None

    def layout(self, shape: torch.Size) -> CellLayout:
        """The layout of cells of this shape, which go into the softmax or come out of it."""
        origin = self.origin
        return CellLayout.from_shape(
            shape,
            origin.heads,
            origin.batches,
            self.axes.query_axis(len(shape)),
            is_heads_first=origin.is_heads_first,
            rows=self.rows(len(shape)),
        )


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors among the arguments, in order, also those in lists."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [x for part in value for x in tensors_in(part)]


def replace_tensors(value: Any, replacements: dict[int, Any]) -> Any:
    """The arguments with some of their tensors replaced, by id."""
    if isinstance(value, Tensor):
        return replacements.get(id(value), value)
    if isinstance(value, dict):
        return {name: replace_tensors(x, replacements) for name, x in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(replace_tensors(x, replacements) for x in value)
    return value
