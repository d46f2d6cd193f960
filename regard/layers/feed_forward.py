"""The layer that thinks about each token on its own."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """Vaswani et al. 2017, eq. 2: `activation(x W₁ + b₁) W₂ + b₂`.

    Args:
        width: how wide the input and the output are, E.
        inner: how wide the layer between is.
        activation: what makes it more than one matrix.
        dropout: the share of inner numbers dropped in training.
    """

    def __init__(
        self, width: int, inner: int, *, activation: Activation = F.relu, dropout: float = 0.0
    ):
        super().__init__()
        self.inner = nn.Linear(width, inner)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Each token (…, E) by itself."""
        return self.out(self.dropout(self.activation(self.inner(x))))

    def within(self, x: Tensor) -> Tensor:
        """What is inside for tokens (B, E), where nothing is dropped: (B, inner)."""
        if self.activation is F.relu and x.is_cuda:
            # one launch: the product bends its own result
            return torch._addmm_activation(self.inner.bias, x, self.inner.weight.t())
        return (
            F.relu_(self.inner(x)) if self.activation is F.relu else self.activation(self.inner(x))
        )
