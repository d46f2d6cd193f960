"""Where does a token stand? Attention sees a set; these put the order back."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional.precision import widest_float_dtype

# Which two of the D numbers of a vector are turned together: neighbours, or i and i + D/2.
Layout = Literal["interleaved", "half_split"]


def sinusoidal(
    length: int,
    width: int,
    *,
    start: int | Tensor = 0,
    base: Number = 10000.0,
    device: torch.device | None = None,
) -> Float[Tensor, "*B Q E"]:
    """Vaswani et al. 2017, 3.5: `sin(p / base^(2i/E))` at even places, its `cos` at odd ones.

    Positions count from `start`: a number, a tensor of no axes, or one for each row (B,). An odd
    width ends with a sine.
    """
    if length < 0 or width < 1:
        raise ValueError(
            f"sinusoidal: expected length >= 0 and width >= 1, got {length} and {width}"
        )
    even = torch.arange(0, width, 2, dtype=widest_float_dtype(device), device=device)
    angles = position_range(start, length, device)[..., None] * base ** (-even / width)
    waves = torch.stack([angles.sin(), angles.cos()], -1)  # (Q, ceil(E / 2), 2)
    return waves.flatten(-2)[..., :width].float()


def position_range(
    start: int | Tensor, length: int, device: torch.device | None = None
) -> Int[Tensor, "*B Q"]:
    """The positions from `start` on: (Q,), or (B, Q) if each row starts at its own, (B,).

    >>> position_range(torch.tensor([4, 7]), 3).tolist()
    [[4, 5, 6], [7, 8, 9]]
    """
    steps = torch.arange(length, device=device)
    return start[..., None] + steps if isinstance(start, Tensor) else start + steps


def add_positions(
    x: Float[Tensor, "B Q E"], table: Float[Tensor, "*b Q E"]
) -> Float[Tensor, "B Q E"]:
    """Tokens and positions in one space: `x + table`."""
    return x + table.to(x.dtype)


def concat_positions(
    x: Float[Tensor, "B Q E"], table: Float[Tensor, "*b Q P"]
) -> Float[Tensor, "B Q _"]:
    """Tokens and positions side by side: `[x ; table]`."""
    return torch.cat([x, table.to(x.dtype).expand(x.shape[0], -1, -1)], -1)


def rotary(
    x: Float[Tensor, "B H Q D"],
    positions: Int[Tensor, " Q"],
    *,
    base: Number = 10000.0,
    layout: Layout = "interleaved",
) -> Float[Tensor, "B H Q D"]:
    """Su et al. 2021, eq. 34: pair i turned by the angle `p · base^(−2i/D)`.

    Queries and keys so turned have a dot product that depends on how far they are apart, not on
    where they stand. A pair is (2i, 2i+1), as in the paper, or (i, i + D/2) in the layout
    "half_split" of Llama and most models of Hugging Face.
    """
    D = x.shape[-1]
    if D % 2:
        raise ValueError(f"rotary: expected an even width D, got {D}")
    check_layout("rotary", layout)
    rates = base ** (
        -torch.arange(0, D, 2, dtype=widest_float_dtype(x.device), device=x.device) / D
    )
    angles = positions[:, None] * rates  # (Q, D / 2)
    # angles grow with the position: their sine is taken in float64 and only then rounded
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if layout == "half_split":
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def check_layout(where: str, layout: object) -> None:
    """Raise ValueError if `layout` is no layout of pairs."""
    if layout not in get_args(Layout):
        raise ValueError(
            f"{where}: expected layout as one of {', '.join(get_args(Layout))}, got "
            f"{str(layout)[:60]!r}"
        )


def distances(
    Q: int, K: int, *, positions: Tensor | None = None, device: torch.device | None = None
) -> Int[Tensor, "Q K"]:
    """k − q for each pair; the last query stands on the last key unless `positions` (Q,) says else.

    >>> distances(2, 3).tolist()
    [[-1, 0, 1], [-2, -1, 0]]
    """
    if positions is None:
        positions = torch.arange(K - Q, K, device=device)
    check.shape("distances", "positions", positions, Q=Q)
    return torch.arange(K, device=device) - positions[:, None]
