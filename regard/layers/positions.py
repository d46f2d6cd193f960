"""Where a token stands, as modules: joined to the input, turned into q and k, or a bias."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from regard import check
from regard.functional import biases, positions

PositionKind = Literal["sinusoidal", "learned", "none"]
# What puts tokens (B, Q, E) and a table of positions, (Q, E) or (B, Q, E), together.
Join = Callable[[Tensor, Tensor], Tensor]


class Sinusoidal(nn.Module):
    """Vaswani et al. 2017, 3.5: sines and cosines of the position, with nothing to learn.

    Args:
        width: how wide the table of positions is.
        base: the longest wavelength is 2π times this.
        join: `functional.positions.add_positions` or `concat_positions`.
    """

    def __init__(self, width: int, *, base: float = 10000.0, join: Join = positions.add_positions):
        super().__init__()
        self.width, self.base, self.join = width, base, join

    def forward(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """`x` (B, Q, E) with the positions from `start` on; `start` as in `Learned`."""
        table = positions.sinusoidal(
            x.shape[1], self.width, start=start, base=self.base, device=x.device
        )
        return self.join(x, table)

    def position_table(self, size: int, like: Tensor) -> nn.Parameter | None:
        """What is added at each of the first `size` positions (N, E), in the dtype of `like`.

        It is prepared for many steps, so a parameter: the same for all rows of a state. None where
        positions are joined in another way.
        """
        if self.join is not positions.add_positions:
            return None
        table = positions.sinusoidal(size, self.width, base=self.base, device=like.device)
        return nn.Parameter(table.to(like.dtype), requires_grad=False)


class Learned(nn.Module):
    """Gehring et al. 2017, 3.1: a learned vector for each position.

    Args:
        context: how many positions there are.
        width: how wide the table of positions is.
        join: `functional.positions.add_positions` or `concat_positions`.
    """

    def __init__(self, context: int, width: int, *, join: Join = positions.add_positions):
        super().__init__()
        self.table = nn.Parameter(torch.randn(context, width) * 0.02)
        self.join = join

    def forward(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """`x` (B, Q, E) with the positions from `start` on.

        Args:
            x: the tokens.
            start: the position of the first: a number, a tensor of no axes beside a static cache,
                or one for each row (B,).
        """
        context, Q = self.table.shape[0], x.shape[1]
        if not isinstance(start, Tensor) or check.can_read_values(start):
            end = Q + int(start.max() if isinstance(start, Tensor) else start)
            if end > context:
                raise ValueError(f"Learned: {end} tokens, but the context holds {context}")
        if isinstance(start, Tensor):
            return self.join(x, self.table[positions.position_range(start, Q, x.device)])
        return self.join(x, self.table[start : start + Q])


class NoPositions(nn.Module):
    """No positions: tokens are a set, unless an attention tells distances apart by itself."""

    def forward(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """`x` itself."""
        return x


def build_positions(
    name: PositionKind, context: int, width: int
) -> Sinusoidal | Learned | NoPositions:
    """The positions of this name, added to tokens of this width; learned ones for `context`."""
    if name == "learned":
        return Learned(context, width)
    return Sinusoidal(width) if name == "sinusoidal" else NoPositions()


class Rotary(nn.Module):
    """Su et al. 2021, eq. 34: queries and keys turned by their position, `MultiHead(turn=…)`.

    Args:
        base: the longest wavelength is 2π times this.
        layout: which two numbers of a vector are a pair: "interleaved" as in the paper, or
            "half_split" as in Llama, for weights that were trained with it.
    """

    def __init__(self, base: float = 10000.0, *, layout: positions.Layout = "interleaved"):
        super().__init__()
        positions.check_layout("Rotary", layout)
        self.base, self.layout = base, layout

    def forward(self, x: Tensor, token_positions: Tensor) -> Tensor:
        """`x` (B, H, Q, D) turned by where it stands, `token_positions` (Q,)."""
        return positions.rotary(x, token_positions, base=self.base, layout=self.layout)


class RelativeBias(nn.Module):
    """Raffel et al. 2020 (T5), 2.1: a learned number for each head and bucket of distances.

    `layer(x, bias=relative.value())`; several layers may share one, as in the paper.

    Args:
        heads: how many heads the queries have.
        buckets: how many numbers each head has.
        bidirectional: whether keys ahead of the query have half of the buckets, or none.
        max_distance: the distance from which on all share the last bucket.
    """

    def __init__(
        self, heads: int, *, buckets: int = 32, bidirectional: bool = True, max_distance: int = 128
    ):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, buckets))
        self.bidirectional, self.max_distance = bidirectional, max_distance

    def value(self) -> biases.Relative:
        """The bias, with the numbers as they are now."""
        return biases.relative(self.table, self.bidirectional, self.max_distance)
