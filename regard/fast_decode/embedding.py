"""The embedding of one decoding step: a table row, scaled, plus the position."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import fast_path
from regard.kernels.decode_step import api as decode_step
from regard.layers.positions import Sinusoidal


def position_table(positions: nn.Module, size: int, like: Tensor) -> nn.Parameter | None:
    """What is added at each of the first `size` positions (N, E); None if nothing is prepared."""
    return positions.position_table(size, like) if isinstance(positions, Sinusoidal) else None


def embed_at_position(
    tokens: Tensor, table: Tensor, position_table: Tensor, position: Tensor, *, scale: float
) -> Tensor:
    """Embeddings of `tokens` (B, E): rows of a table (V, E) times `scale`, plus their position.

    Args:
        tokens: which rows of the table (B,).
        table: the embeddings.
        position_table: what is added at each position (N, E).
        position: that of all tokens, a tensor of no axes.
        scale: the factor of the embeddings.
    """
    quick = decode_step.supports_gpu(table) and fast_path.allowed(table, position_table)
    if quick and table.is_contiguous():
        from regard.kernels.decode_step.triton import embedding

        return embedding.embed_tokens(tokens, table, position_table, position, scale)
    return F.embedding(tokens, table) * scale + position_table[position[None]]


def embed_at_step(
    tokens: Tensor, table: Tensor, position_table: Tensor, step: int, *, scale: float
) -> Tensor:
    """The same where the position is a plain number, as on a CPU."""
    return torch.add(position_table[step], F.embedding(tokens, table), alpha=scale)
