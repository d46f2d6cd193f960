"""Blocks of attention over sets: points without an order, of any number."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from regard import check
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.norms import Norm, PointNorm

Where = Literal["before", "after"]
# Among so many points, attention that is sharpened by their number is as sharp as any other.
USUAL = 50


class SetBlock(nn.Module):
    """Look at one another, then think; what was there is added to what comes of it.

    Args:
        width: how wide the points are, E.
        heads: how many heads attend.
        inner: how wide the feed-forward layer is inside.
        norm: over what numbers are made alike.
        where: before each layer, or after it is added, as Kool et al. 2019.
        sharpened: whether scores grow by the log of how many points there are, so that attention
            among many is as sharp as among few: Nakanishi 2025.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        norm: Norm = "layer",
        where: Where = "before",
        sharpened: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        self.own = MultiHead(width, heads, bias=bias)
        self.own_norm = PointNorm(width, norm)
        self.think = FeedForward(width, inner)
        self.think_norm = PointNorm(width, norm)
        self.first, self.sharpened = where == "before", sharpened

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        """Points (B, N, E), those that are `there` (B, N); None is all of them."""
        entered = self.own_norm(x, there) if self.first else x
        rule = None if there is None else there[:, None, None]
        x = x + self.own(entered, rule=rule, queries=self._queries(entered, there))
        if self.first:
            return x + self.think(self.think_norm(x, there))
        x = self.own_norm(x, there)
        return self.think_norm(x + self.think(x), there)

    def _queries(self, x: Tensor, there: Tensor | None) -> Tensor:
        """What asks (B, N, E), louder where there are more to choose from."""
        queries = self.own.query(x)
        if not self.sharpened:
            return queries
        if there is None:
            return queries * (math.log(1 + x.shape[1]) / math.log(1 + USUAL))
        loud = torch.log(1.0 + there.sum(1)) / math.log(1 + USUAL)
        return queries * loud[:, None, None].to(queries.dtype)


def present(lengths: Tensor, places: int) -> Tensor | None:
    """Which of so many places of each row hold a point (B, N), or None if all are seen to do."""
    # a mask costs time, and on a card to ask would be to wait
    if check.readable(lengths) and bool((lengths == places).all()):
        return None
    return torch.arange(places, device=lengths.device) < lengths[:, None]
