"""Norms over the points of a set, which has no order and need not fill its row."""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.functional.precision import to_float32

# Over the points of an instance, over those of all instances of a batch, or each by itself.
NormKind = Literal["instance", "batch", "layer"]


class PointNorm(nn.Module):
    """Mean 0 and variance 1 of each number, then a learned scale and shift.

    `batch` keeps what it saw in training and goes by that afterwards, Ioffe and Szegedy 2015;
    `instance` goes by the points at hand, always, Ulyanov et al. 2016.
    """

    def __init__(self, width: int, norm: NormKind, *, eps: float = 1e-5):
        super().__init__()
        self.norm, self.eps = norm, eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        if norm == "batch":
            self.register_buffer("mean", torch.zeros(width))
            self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Points (B, N, E), of which those of `mask` (B, N) count; None is all of them."""
        if self.norm == "layer":
            return nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        across = (0, 1) if self.norm == "batch" else 1
        y = to_float32(x)
        if self.norm == "batch" and not self.training:
            mean, variance = self.get_buffer("mean"), self.get_buffer("variance")
        else:
            counts = torch.ones_like(y[..., :1]) if mask is None else mask[..., None]
            count = counts.sum(across, keepdim=True).clamp_min(1)
            mean = (y * counts).sum(across, keepdim=True) / count
            variance = ((y - mean).square() * counts).sum(across, keepdim=True) / count
            self._update_running_stats(mean, variance, count)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return torch.addcmul(self.bias - mean * scale, y, scale).to(x.dtype)

    @torch.no_grad()
    def _update_running_stats(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Remember a tenth of what was seen, as PyTorch's does."""
        if self.norm != "batch" or not self.training:
            return
        unbiased = variance * count / (count - 1).clamp_min(1)
        self.get_buffer("mean").lerp_(mean.flatten(), 0.1)
        self.get_buffer("variance").lerp_(unbiased.flatten(), 0.1)
