"""Where does a token stand? Attention sees a set; these put the order back."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional.precision import finest


def sinusoidal(
    length: int,
    width: int,
    *,
    start: int | Tensor = 0,
    base: Number = 10000.0,
    device: torch.device | None = None,
) -> Float[Tensor, "Q E"]:
    """Vaswani et al. 2017, 3.5: `sin(p / base^(2i/E))` at even places, its `cos` at odd ones.

    Positions count from `start`, a number or a tensor of no axes. An odd width ends with a sine.
    """
    if length < 0 or width < 1:
        raise ValueError(
            f"sinusoidal: expected length >= 0 and width >= 1, got {length} and {width}"
        )
    even = torch.arange(0, width, 2, dtype=finest(device), device=device)
    places = start + torch.arange(length, device=device)
    angles = places[:, None] * base ** (-even / width)  # (Q, ceil(E / 2))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width].float()


def added(x: Float[Tensor, "B Q E"], table: Float[Tensor, "Q E"]) -> Float[Tensor, "B Q E"]:
    """Tokens and positions in one space: `x + table`."""
    return x + table.to(x.dtype)


def concatenated(x: Float[Tensor, "B Q E"], table: Float[Tensor, "Q P"]) -> Float[Tensor, "B Q _"]:
    """Tokens and positions side by side: `[x ; table]`."""
    return torch.cat([x, table.to(x.dtype).expand(x.shape[0], -1, -1)], -1)


def rotary(
    x: Float[Tensor, "B H Q D"], positions: Int[Tensor, " Q"], *, base: Number = 10000.0
) -> Float[Tensor, "B H Q D"]:
    """Su et al. 2021, eq. 34: each pair (2i, 2i+1) turned by the angle `p · base^(−2i/D)`.

    Queries and keys so turned have a dot product that depends on how far they are apart, not on
    where they stand.
    """
    D = x.shape[-1]
    if D % 2:
        raise ValueError(f"rotary: expected an even width D, got {D}")
    rates = base ** (-torch.arange(0, D, 2, dtype=finest(x.device), device=x.device) / D)
    angles = positions[:, None] * rates  # (Q, D / 2)
    # angles grow with the position: their sine is taken in float64 and only then rounded
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


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
