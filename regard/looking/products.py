"""Products of two activations, with the queries and the keys of those that may be scores.

A product sums over one axis of two tensors. Whether the sum runs over features, as for the scores
of attention, or over tokens, as where channels attend to channels, is clear from the last
projection.
"""

from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.looking.cell_axes import CellAxes

# Products of two operands and nothing else.
PLAIN_NAMES = ("matmul", "linalg_matmul", "bmm", "mm", "cdist")


class Side(NamedTuple):
    """One operand: which of its axes the product keeps as its own, and which it sums over."""

    tensor: Tensor
    own_axis: int
    summed_axis: int


class Product(NamedTuple):
    """Two operands of which neither is a parameter; the right one's axis is the later."""

    left: Side
    right: Side
    rows: Callable[[], tuple[Tensor, Tensor]]  # (…, Q, D) and (…, K, D)
    left_axis: int = -2  # of the output, which the left operand gives
    right_axis: int = -1

    def axes(self, out: Tensor) -> CellAxes:
        """The axes of its output."""
        n = out.dim()
        return CellAxes(self.left_axis % n, self.right_axis % n, None, has_rows=True)

    def is_sum_over_keys(self, x: Tensor) -> bool:
        """True if it sums over the last axis that `x` had as it was made: that of its keys."""
        side = self.left if self.left.tensor is x else self.right
        sizes = x.shape[side.own_axis], x.shape[side.summed_axis]
        return 1 in sizes or x.stride(side.summed_axis) < x.stride(side.own_axis)


class Projection(NamedTuple):
    """The shape that the last linear layer or convolution gave, and where its features are."""

    shape: torch.Size
    features: int

    @property
    def token_counts(self) -> set[int]:
        """The possible numbers of tokens: the sizes of its axes that are no features."""
        first = self.shape[1:-1] if self.features == -1 else self.shape[2:]
        return {*first, torch.Size(first).numel()} if first else set()

    @property
    def batch_counts(self) -> tuple[int, ...]:
        """The possible numbers of batches: tokens or batches may come first; two axes have none."""
        return (1, self.shape[0]) if len(self.shape) == 2 else tuple(self.shape[:2])


def product_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
    """The operands of a call of `name`; None if they are not two activations."""
    if name == "einsum":
        return _product_of_einsum(*args) if not kwargs else None
    if name in ("inner", "tensordot"):
        two = [*args, *(x for key, x in kwargs.items() if key != "out")]
        return _product_of_matrices(name, *two)
    # baddbmm and addmm add to their first argument, which has another name by keyword
    given = [*args, *kwargs.values()] if name in PLAIN_NAMES else None
    if given is None:
        given = [x for x in (kwargs.get("batch1"), kwargs.get("batch2")) if x is not None]
        given = given or [x for x in (kwargs.get("mat1"), kwargs.get("mat2")) if x is not None]
        given = given or list(args[1:])
    if len(given) < 2 or not _are_activations(given[0], given[1]):
        return None
    left, right = given[0], given[1]
    if name == "cdist":
        return Product(Side(left, -2, -1), Side(right, -2, -1), lambda: (left, right))
    return Product(Side(left, -2, -1), Side(right, -1, -2), lambda: (left, right.mT))


def is_channel_product(
    product: Product, last: Projection | None, head_count: int | None = None
) -> bool:
    """True if the product sums over tokens, so that its rows and columns are channels.

    Args:
        head_count: how many heads its module has, if it says so.
    """
    (left, own, summed), right = product.left, product.right
    if last is None or left.shape[summed] not in last.token_counts:
        return False
    Q, K = left.shape[own], right.tensor.shape[right.own_axis]
    if Q in last.token_counts or K in last.token_counts:
        # both axes may be tokens by their size: of a projection's output features lie closest
        far = all(
            s.tensor.stride(s.summed_axis) > s.tensor.stride(s.own_axis)
            for s in (product.left, right)
        )
        near = all(
            s.tensor.stride(s.summed_axis) < s.tensor.stride(s.own_axis)
            for s in (product.left, right)
        )
        return far if last.features == -1 else near
    if head_count is not None and left.dim() > 4:
        # the axis before the rows may be blocks of tokens: all channels are those of the heads
        channels = left.numel() * last.shape[last.features] // max(last.shape.numel(), 1)
        return head_count * Q == channels
    heads = left.shape[-3] if left.dim() > 3 else 1
    return last.shape[last.features] % (heads * Q) == 0


def _product_of_einsum(equation: Any, *operands: Any) -> Product | None:
    """The operands of one sum of two, by their letters."""
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len(operands) != 2 or not _are_activations(*operands):
        return None
    given, _, out = _without_dots(equation.replace(" ", ""), operands).partition("->")
    terms = given.split(",")
    singles = [x for x in out if len(terms) == 2 and (x in terms[0]) != (x in terms[1])]
    if len(singles) < 2:
        return None
    # heads may stand behind the keys, until the model moves them
    key = singles[-1]
    right = 1 if key in terms[1] else 0
    a, b = terms[1 - right], terms[right]
    summed = [x for x in a if x in b and x not in out]
    own = [x for x in singles if x in a]
    if not own or not summed:
        return None
    # letters of the left alone but the last are heads that share their keys
    query = own[-1]
    x, y = operands[1 - right], operands[right]
    lead, last = out.replace(key, "").replace(query, ""), "".join(summed)

    def rows() -> tuple[Tensor, Tensor]:
        q, k = (_with_axes(t, term, lead, own + last) for t, term, own in (
            (x, a, query), (y, b, key),
        ))  # fmt: skip
        flat = -len(last)
        return q.flatten(flat), k.flatten(flat)

    return Product(
        Side(x, a.index(query), a.index(summed[-1])),
        Side(y, b.index(key), b.index(summed[-1])),
        rows,
        out.index(query) - len(out),
        out.index(key) - len(out),
    )


def _product_of_matrices(name: str, x: Any, y: Any, dims: Any = 2) -> Product | None:
    """The operands of `inner` or `tensordot`, if these have two axes each and sum over one."""
    if not _are_activations(x, y) or x.dim() != 2 or y.dim() != 2:
        return None
    if name == "inner":
        dims = ([-1], [-1])
    elif dims == 1:
        dims = ([-1], [0])
    if not isinstance(dims, list | tuple) or any(len(axes) != 1 for axes in dims):
        return None
    terms = ["dq" if dims[0][0] % 2 == 0 else "qd", "dk" if dims[1][0] % 2 == 0 else "kd"]
    return _product_of_einsum(f"{terms[0]},{terms[1]}->qk", x, y)


def _without_dots(equation: str, operands: Sequence[Tensor]) -> str:
    """An equation with a letter for each axis that "..." stands for, counted from the right."""
    given, arrow, out = equation.partition("->")
    terms = given.split(",")
    if "..." not in given or len(terms) != len(operands):
        return equation
    axes = [
        x.dim() - len(term) + 3 if "..." in term else 0
        for term, x in zip(terms, operands, strict=True)
    ]
    free = "".join(letter for letter in ascii_letters if letter not in equation)[: max(axes)]
    terms = [
        term.replace("...", free[len(free) - n :]) for term, n in zip(terms, axes, strict=True)
    ]
    return ",".join(terms) + arrow + out.replace("...", free)


def _with_axes(x: Tensor, term: str, lead: str, tail: str) -> Tensor:
    """A tensor with its axes in this order; leading ones that it does not have are of size 1."""
    there = [letter for letter in lead if letter in term]
    x = x.permute(*(term.index(letter) for letter in (*there, *tail)))
    for place, letter in enumerate(lead):
        if letter not in term:
            x = x.unsqueeze(place)
    return x


def _are_activations(*operands: Any) -> bool:
    return all(
        isinstance(x, Tensor)
        and x.layout is torch.strided
        and not x.is_nested
        and x.dim() > 1
        and x.is_floating_point()
        and not isinstance(x, nn.Parameter)
        and not isinstance(x._base, nn.Parameter)
        for x in operands
    )
