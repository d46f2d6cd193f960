"""Where a token stands, as modules: joined to the input, turned into q and k, or a bias."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check
from regard.functional import biases, positions
from regard.kernels import one_query

Name = Literal["sinusoidal", "learned", "none"]
# What puts tokens (B, Q, E) and a table of positions, (Q, E) or (B, Q, E), together.
Join = Callable[[Tensor, Tensor], Tensor]


class Sinusoidal(nn.Module):
    """Vaswani et al. 2017, 3.5: sines and cosines of the position, with nothing to learn.

    Args:
        width: how wide the table of positions is.
        base: the longest wavelength is 2π times this.
        join: `functional.positions.added` or `concatenated`.
    """

    def __init__(self, width: int, *, base: float = 10000.0, join: Join = positions.added):
        super().__init__()
        self.width, self.base, self.join = width, base, join

    def forward(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """`x` (B, Q, E) with the positions from `start` on; `start` as in `Learned`."""
        table = positions.sinusoidal(
            x.shape[1], self.width, start=start, base=self.base, device=x.device
        )
        return self.join(x, table)

    def rows(self, size: int, like: Tensor) -> nn.Parameter | None:
        """What is added at each of the first `size` positions (N, E), in the dtype of `like`.

        It is prepared for many steps, so a parameter: the same for all rows of a state. None where
        positions are joined in another way.
        """
        if self.join is not positions.added:
            return None
        table = positions.sinusoidal(size, self.width, base=self.base, device=like.device)
        return nn.Parameter(table.to(like.dtype), requires_grad=False)


class Learned(nn.Module):
    """Gehring et al. 2017, 3.1: a learned vector for each position.

    Args:
        context: how many positions there are.
        width: how wide the table of positions is.
        join: `functional.positions.added` or `concatenated`.
    """

    def __init__(self, context: int, width: int, *, join: Join = positions.added):
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
        if not isinstance(start, Tensor) or check.readable(start):
            end = Q + int(start.max() if isinstance(start, Tensor) else start)
            if end > context:
                raise ValueError(f"Learned: {end} tokens, but the context holds {context}")
        if isinstance(start, Tensor):
            return self.join(x, self.table[positions.counted(start, Q, x.device)])
        return self.join(x, self.table[start : start + Q])


def looked_up(
    tokens: Tensor, table: Tensor, places: Tensor, position: Tensor, *, scale: float
) -> Tensor:
    """Tokens (B,) of a table (V, E), `scale` times as large, with what is added where they stand.

    Args:
        tokens: which rows of the table.
        table: of embeddings.
        places: what is added at each position (N, E).
        position: where all of them stand, a tensor of no axes.
        scale: how much larger tokens are made.
    """
    if one_query.takes(table, places) and table.is_contiguous():
        from regard.kernels import one_query_embedding

        return one_query_embedding.embedded(tokens, table, places, position, scale)
    return F.embedding(tokens, table) * scale + places[position[None]]


class Unplaced(nn.Module):
    """No positions: tokens are a set, unless an attention tells distances apart by itself."""

    def forward(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """`x` itself."""
        return x


def named(name: Name, context: int, width: int) -> Sinusoidal | Learned | Unplaced:
    """The positions of this name, added to tokens of this width; learned ones for `context`."""
    if name == "learned":
        return Learned(context, width)
    return Sinusoidal(width) if name == "sinusoidal" else Unplaced()


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

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """`x` (B, H, Q, D) turned by where it stands, `places` (Q,)."""
        return positions.rotary(x, places, base=self.base, layout=self.layout)


class RelativeBias(nn.Module):
    """Raffel et al. 2020 (T5), 2.1: a learned number for each head and bucket of distances.

    `layer(x, bias=relative.value())`; several layers may share one, as in the paper.

    Args:
        heads: how many heads the queries have.
        buckets: how many numbers each head has.
        ahead: whether keys ahead of the query have half of the buckets, or none.
        farthest: the distance from which on all share the last bucket.
    """

    def __init__(self, heads: int, *, buckets: int = 32, ahead: bool = True, farthest: int = 128):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, buckets))
        self.ahead, self.farthest = ahead, farthest

    def value(self) -> biases.Relative:
        """The bias, with the numbers as they are now."""
        return biases.relative(self.table, self.ahead, self.farthest)
