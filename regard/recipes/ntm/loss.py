"""What a machine learns from a batch of episodes, and how far its answers are from the right ones.

An error is told in bits an episode: the cross-entropy of all its bits, to the base of two.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check
from regard.data.ntm.episodes import Episodes


def loss(model: nn.Module, batch: Episodes) -> Tensor:
    """The mean over all bits that are asked for."""
    batch = _without_trailing_steps(batch)
    each = _step_losses(model(batch.inputs)[0], batch)
    return each.sum() / (batch.target_mask.sum() * batch.targets.shape[2]).clamp_min(1)


@torch.no_grad()
def score_episodes(
    model: nn.Module, batch: Episodes, *, slots: int | None = None
) -> tuple[Tensor, Tensor]:
    """The error of each episode in bits (B,), and whether all its bits are right (B,)."""
    batch = _without_trailing_steps(batch)
    logits = output_logits(model, batch.inputs, slots)
    right = ((logits > 0) == (batch.targets > 0.5)).all(2) | ~batch.target_mask
    return _step_losses(logits, batch).sum(1, dtype=torch.float64) / math.log(2), right.all(1)


def output_logits(model: nn.Module, inputs: Tensor, slots: int | None = None) -> Tensor:
    """The logits (B, T, O), with a memory of so many slots, or of as many as in training."""
    found: Tensor = (model(inputs) if slots is None else model(inputs, slots=slots))[0]
    return found


def _step_losses(logits: Tensor, batch: Episodes) -> Tensor:
    each = F.binary_cross_entropy_with_logits(logits, batch.targets, reduction="none")
    return each.sum(2) * batch.target_mask


def _without_trailing_steps(batch: Episodes) -> Episodes:
    """The batch up to the last step that is asked for, where finding it costs nothing."""
    if not check.can_read_values(batch.target_mask):
        return batch
    T = int(batch.target_mask.any(0).nonzero().max()) + 1
    return batch.map_tensors(lambda x: x[:, :T])
