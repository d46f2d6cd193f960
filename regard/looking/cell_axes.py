"""The axes of scores on their way from a product to its softmax: which are queries, which are keys.

Scales, masks and biases leave cells where they are. A new shape, another order of axes or columns
of sinks are followed; whatever else moves cells makes their axes unknown.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

PERMUTATION_NAMES = frozenset(
    ["T", "t", "mT", "transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis"]
)
JOIN_NAMES = frozenset(["cat", "concat", "concatenate", "pad"])
# What moves cells, or puts them among others.
REORDER_NAMES = frozenset(["as_strided", "diagonal", "flip", "gather", "index_select"]) | frozenset(
    ["repeat", "roll", "setitem", "stack"]
)
# What may put cells elsewhere though the shape is the same.
ALL_MOVE_NAMES = PERMUTATION_NAMES | JOIN_NAMES | REORDER_NAMES | {"getitem"}


class CellAxes(NamedTuple):
    """The axes of a tensor that a product became; None where they cannot be told.

    Args:
        left: the rows of the product's left operand.
        right: those of its right operand.
        columns: the axis that has columns beside those of the product, such as sinks.
        has_rows: whether its cells are still those of the operands' rows, in their order.
    """

    left: int | None = None
    right: int | None = None
    columns: int | None = None
    has_rows: bool = False

    def query_axis(self, dims: int) -> int | None:
        """The axis of the queries of a tensor whose last axis is the keys."""
        if self.right == dims - 1:
            return self.left
        return self.right if self.left == dims - 1 else None

    def has_other_last(self, dims: int) -> bool:
        """True if the last of so many axes is known to be neither of queries nor of keys."""
        return None not in (self.left, self.right) and dims - 1 not in (self.left, self.right)

    def output_axes(
        self, name: str, args: tuple[Any, ...], source: Tensor, out: Tensor, run: Callable[..., Any]
    ) -> "CellAxes":
        """The axes of the output of a function of a tensor that has these.

        Args:
            run: the same function with another tensor in the place of `source`.
        """
        n, shift = source.dim(), out.dim() - source.dim()
        if name in PERMUTATION_NAMES:
            # sizes that say which axis they are of
            order = run(torch.empty(tuple(range(1, n + 1)), device="meta")).shape
            return self._with_axis_order([size - 1 for size in order])
        if name in JOIN_NAMES:
            is_beside = shift == 0 and out.shape[:-1] == source.shape[:-1]
            return self._replace(columns=n - 1) if is_beside else UNKNOWN_AXES
        if name in REORDER_NAMES or (name == "getitem" and _has_index(args[1])):
            return UNKNOWN_AXES
        if out.shape == source.shape:
            return self
        if {self.left, self.right} == {n - 2, n - 1} and out.shape[-2:] == source.shape[-2:]:
            left, right, columns = (None if a is None else a + shift for a in self[:3])
            return CellAxes(left, right, columns, self.has_rows)
        stays = self.columns == n - 1 and out.shape[-1] == source.shape[-1]
        return CellAxes(columns=out.dim() - 1 if stays else None)

    def _with_axis_order(self, order: list[int]) -> "CellAxes":
        """The axes where axis i is what was axis `order[i]`."""
        left, right, columns = (None if a is None else order.index(a) for a in self[:3])
        others = [axis for axis in order if axis not in (self.left, self.right)]
        return CellAxes(left, right, columns, self.has_rows and others == sorted(others))


UNKNOWN_AXES = CellAxes()


def _has_index(index: Any) -> bool:
    """True if an index chooses or orders cells, more than slices do."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor | list) for part in parts)
