"""Queries that are learned: a few vectors that read a memory of any length."""

import torch
from torch import Tensor, nn

from regard.functional.rules import Rule
from regard.layers.caches import AnyCache
from regard.layers.multi_head import MultiHead


class LearnedQueries(nn.Module):
    """`n` learned vectors that attend to a memory, and give `n` vectors whatever its length.

    The seeds of Lee et al. 2019 (Set Transformer), 3.2, and the latents of Jaegle et al. 2021
    (Perceiver), 3.1. With n = 1 it pools a set.

    Args:
        n: how many queries.
        width: how wide they are, E.
        heads: how many heads attend.
        memory_width: how wide the memory is; None for `width`.
    """

    def __init__(self, n: int, width: int, *, heads: int = 1, memory_width: int | None = None):
        super().__init__()
        if n < 1:
            raise ValueError(f"LearnedQueries: expected n >= 1, got {n}")
        # the Perceiver's spread: small, so that all begin alike and grow apart
        self.queries = nn.Parameter(torch.randn(n, width) * 0.02)
        self.attention = MultiHead(width, heads, memory_width=memory_width)

    def forward(self, memory: Tensor | AnyCache, *, rule: Rule | Tensor | None = None) -> Tensor:
        """What the queries read (B, n, E) in `memory` (B, K, E)."""
        batch = memory.shape[0] if isinstance(memory, Tensor) else memory.k.shape[0]
        return self.attention(self.queries.expand(batch, -1, -1), memory, rule=rule)
