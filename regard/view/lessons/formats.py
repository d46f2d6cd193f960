"""Tensors as plain numbers for a picture, and numbers as lines of Python that hold them."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

# How many rows of a table stand on one line of code.
ROWS_PER_LINE = 4


def to_numbers(values: Tensor) -> Any:
    """A number or lists of numbers, to seven digits; None for what is not finite, as JSON wants."""
    return _map_floats(values.tolist(), lambda x: float(f"{x:.7g}"))


def to_rounded_numbers(values: Tensor, decimals: int = 3) -> Any:
    """The same to a few decimals, for what is only looked at."""
    return _map_floats(values.tolist(), lambda x: round(x, decimals))


def tensor_code(name: str, rows: Sequence[Any], suffix: str = "[None, None]") -> str:
    """`name = torch.tensor([…])[None, None]`: a row or a table, wrapped where it is long."""
    start = f"{name} = torch.tensor(["
    if not rows or not isinstance(rows[0], list | tuple):
        return f"{start}{', '.join(map(repr, rows))}]){suffix}"
    lines = [
        ", ".join(repr(list(row)) for row in rows[i : i + ROWS_PER_LINE])
        for i in range(0, len(rows), ROWS_PER_LINE)
    ]
    return start + (",\n" + " " * len(start)).join(lines) + f"]){suffix}"


def script_code(*lines: str) -> str:
    """Lines of Python that run by themselves."""
    return "\n".join(["import torch, regard", *lines])


def _map_floats(values: Any, convert: Any) -> Any:
    if isinstance(values, list):
        return [_map_floats(part, convert) for part in values]
    if isinstance(values, float):
        return convert(values) if math.isfinite(values) else None
    return values
