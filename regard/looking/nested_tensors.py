"""Nested tensors, whose rows are of many lengths, as padded ones."""

import torch
from torch import Tensor


def to_padded(x: Tensor) -> Tensor:
    """A nested tensor (B, …) with zeros where a row has nothing."""
    return torch.nested.to_padded_tensor(x, 0.0)


def length_mask(x: Tensor) -> Tensor:
    """True where the rows of a nested tensor (B, …, L, E) have something (B, L)."""
    lengths = torch.tensor([row.shape[-2] for row in x.unbind()], device=x.device)
    places = torch.arange(int(lengths.max()), device=x.device)
    return places < lengths[:, None]
