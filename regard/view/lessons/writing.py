"""Tensors as plain numbers for a picture, and numbers as lines of Python that hold them."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

# How many rows of a table stand on one line of code.
ROWS = 4


def exact(given: Tensor) -> Any:
    """A number or lists of numbers, to seven digits; None for what is not finite, as JSON wants."""
    return _each(given.tolist(), lambda x: float(f"{x:.7g}"))


def coarse(given: Tensor, decimals: int = 3) -> Any:
    """The same to a few decimals, for what is only looked at."""
    return _each(given.tolist(), lambda x: round(x, decimals))


def tensor(name: str, rows: Sequence[Any], behind: str = "[None, None]") -> str:
    """`name = torch.tensor([…])[None, None]`: a row or a table, wrapped where it is long."""
    start = f"{name} = torch.tensor(["
    if not rows or not isinstance(rows[0], list | tuple):
        return f"{start}{', '.join(map(repr, rows))}]){behind}"
    lines = [
        ", ".join(repr(list(row)) for row in rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)
    ]
    return start + (",\n" + " " * len(start)).join(lines) + f"]){behind}"


def script(*lines: str) -> str:
    """Lines of Python that run by themselves."""
    return "\n".join(["import torch, regard", *lines])


def _each(given: Any, change: Any) -> Any:
    if isinstance(given, list):
        return [_each(part, change) for part in given]
    if isinstance(given, float):
        return change(given) if math.isfinite(given) else None
    return given
