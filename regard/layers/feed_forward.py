"""The layer that thinks about each token on its own."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """Vaswani et al. 2017, eq. 2: `activation(x W₁ + b₁) W₂ + b₂`.

    Args:
        width: how wide the input and the output are, E.
        feed_forward_width: how wide the layer between is.
        activation: what makes it more than one matrix.
        dropout: the share of inner numbers dropped in training.
    """

    def __init__(
        self,
        width: int,
        feed_forward_width: int,
        *,
        activation: Activation = F.relu,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.inner = nn.Linear(width, feed_forward_width)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(feed_forward_width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Each token (…, E) by itself."""
        return self.out(self.dropout(self.activation(self.inner(x))))
