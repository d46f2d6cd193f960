"""Blocks of attention over sets: points without an order, of any number."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from regard import check
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.norms import NormKind, PointNorm

NormPosition = Literal["before", "after"]
# Among so many points, attention that is sharpened by their number is as sharp as any other.
SCALABLE_SOFTMAX_REFERENCE_POINTS = 50


class SetBlock(nn.Module):
    """Look at one another, then think; what was there is added to what comes of it.

    Args:
        width: how wide the points are, E.
        heads: how many heads attend.
        feed_forward_width: how wide the feed-forward layer is inside.
        norm: over what numbers are made alike.
        norm_position: before each layer, or after it is added, as Kool et al. 2019.
        scalable_softmax: whether scores grow by the log of how many points there are, so that
            attention among many is as sharp as among few: Nakanishi 2025.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward_width: int,
        *,
        norm: NormKind = "layer",
        norm_position: NormPosition = "before",
        scalable_softmax: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        self.self_attention = MultiHead(width, heads, bias=bias)
        self.self_attention_norm = PointNorm(width, norm)
        self.feed_forward = FeedForward(width, feed_forward_width)
        self.feed_forward_norm = PointNorm(width, norm)
        self.norm_first, self.scalable_softmax = norm_position == "before", scalable_softmax

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Points (B, N, E), of which those of `mask` (B, N) are there; None is all of them."""
        entered = self.self_attention_norm(x, mask) if self.norm_first else x
        rule = None if mask is None else mask[:, None, None]
        x = x + self.self_attention(entered, rule=rule, queries=self._scaled_queries(entered, mask))
        if self.norm_first:
            return x + self.feed_forward(self.feed_forward_norm(x, mask))
        x = self.self_attention_norm(x, mask)
        return self.feed_forward_norm(x + self.feed_forward(x), mask)

    def _scaled_queries(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What asks (B, N, E), louder where there are more to choose from."""
        queries = self.self_attention.query(x)
        if not self.scalable_softmax:
            return queries
        if mask is None:
            return queries * (
                math.log(1 + x.shape[1]) / math.log(1 + SCALABLE_SOFTMAX_REFERENCE_POINTS)
            )
        loud = torch.log(1.0 + mask.sum(1)) / math.log(1 + SCALABLE_SOFTMAX_REFERENCE_POINTS)
        return queries * loud[:, None, None].to(queries.dtype)


def point_mask(lengths: Tensor, size: int) -> Tensor | None:
    """Which of so many places of each row hold a point (B, N), or None if all are seen to do."""
    # a mask costs time, and on a GPU to ask would be to wait
    if check.can_read_values(lengths) and bool((lengths == size).all()):
        return None
    return torch.arange(size, device=lengths.device) < lengths[:, None]
