"""The layer that thinks about each token on its own."""

from collections.abc import Callable

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

    def within_few(self, x: Tensor) -> Tensor:
        """What is inside (B, inner) for few tokens (B, E) on a card: one launch, no gradient."""
        from regard.kernels.one_query_linear import linear

        bent = self.activation is F.relu
        inner = linear(x, self.inner.weight, self.inner.bias, relu=bent)
        return inner if bent else self.activation(inner)
