"""What a pointer network learns from: answers that are known, or how long its own tours are."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.data.geometry.instances import Instances


def supervised_loss(model: nn.Module, batch: Instances) -> Tensor:
    """The mean of `−log p` over all steps of the answers, which are known."""
    found = model(batch.points, batch.lengths, batch.answers)
    steps = (batch.answers >= 0).sum() + len(batch)
    return -found.sum() / steps


def reinforce_loss(model: Any, batch: Instances, *, best_tour_weight: float = 1.0) -> Tensor:
    """REINFORCE over tours from every city, each against the mean of all: Kwon et al. 2020 (POMO).

    The tours are drawn without a gradient; their log-probabilities are one call.

    Args:
        best_tour_weight: how many times as much as another the shortest tour of an instance counts,
            since the shortest is what is asked for: Wang et al. 2024. 1 is POMO itself.
    """
    B, N = batch.points.shape[:2]
    read = model.encode(batch.points, batch.lengths)
    starts = torch.arange(N, device=batch.points.device).expand(B, N)
    tours = model.decode_tours(read, starts=starts, sample=True)
    cost = tour_lengths(batch.points, tours)
    leads = cost <= cost.amin(1, keepdim=True)
    gained = (cost - cost.mean(1, keepdim=True)) * torch.where(leads, best_tour_weight, 1.0)
    found = model.log_probability(read, tours, fixed_start=True).sum(-1)
    return (gained * found).mean()


def tour_lengths(points: Tensor, tours: Tensor) -> Tensor:
    """The lengths (B, S) of closed tours (B, S, N) through all points (B, N, 2)."""
    B, S, N = tours.shape
    index = tours.view(B, S * N, 1).expand(-1, -1, 2)
    places = points.gather(1, index).view(B, S, N, 2)
    return (places - places.roll(1, 2)).square().sum(-1).sqrt().sum(-1)
