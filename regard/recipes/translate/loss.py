"""What a translator learns from a batch: every word, given the source and the words before it."""

import torch
from torch import Tensor, nn

from regard.data.text.batches import PAD, Batch, TokenBatches
from regard.functional.losses import masked_mean, reinforce
from regard.kernels.losses import api as loss_kernel
from regard.models.seq2seq import Seq2Seq

# Xu et al. 2015, 4.2 and its published code: the weight of what was drawn, of its entropy, and how
# much of the past the moving baseline keeps.
REINFORCE_WEIGHT, ENTROPY_WEIGHT, BASELINE_DECAY = 0.1, 0.002, 0.9


def loss(model: nn.Module, batch: Batch, *, smoothing: float, r_drop_weight: float) -> Tensor:
    """The mean over the words of a batch."""
    if isinstance(model, Seq2Seq) and model.config.select == "hard":
        return _hard_attention_loss(model, batch, smoothing)
    if not r_drop_weight:
        return masked_mean(*_token_losses(model, batch, smoothing))
    return _r_drop_loss(model, batch, smoothing, r_drop_weight)


@torch.no_grad()
def mean_loss(model: nn.Module, batches: TokenBatches) -> float:
    """The mean over all words of all batches, nothing smoothed."""
    device = next(model.parameters()).device
    sums = []
    for batch in batches.epoch(0):
        each, kept = _token_losses(model, batch.to(device))
        sums.append(torch.stack([(each * kept).sum(), kept.sum()]))
    total, words = torch.stack(sums).sum(0).tolist()
    return total / words


def _token_losses(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss of every word (B, T), and which of them are words."""
    logits = model((batch.source, batch.source_lengths), batch.target[:, :-1])
    targets = batch.target[:, 1:]
    return loss_kernel.cross_entropy(logits, targets, smoothing=smoothing), targets != PAD


def _r_drop_loss(model: nn.Module, batch: Batch, smoothing: float, r_drop_weight: float) -> Tensor:
    """Two passes, each with dropout of its own, must find the words and each other: R-Drop."""
    source = (batch.source.repeat(2, 1), batch.source_lengths.repeat(2))
    logits = model(source, batch.target[:, :-1].repeat(2, 1))
    targets = batch.target[:, 1:].repeat(2, 1)
    kept = targets != PAD
    found = masked_mean(loss_kernel.cross_entropy(logits, targets, smoothing=smoothing), kept)
    apart = loss_kernel.divergence(*logits.chunk(2))
    return found + r_drop_weight * masked_mean(apart, kept.chunk(2)[0])


def _hard_attention_loss(model: Seq2Seq, batch: Batch, smoothing: float) -> Tensor:
    """Hard attention: the words, and by REINFORCE where to look for them."""
    drawn = model.forward_sampled((batch.source, batch.source_lengths), batch.target[:, :-1])
    targets = batch.target[:, 1:]
    kept = targets != PAD
    each = loss_kernel.cross_entropy(drawn.logits, targets, smoothing=smoothing)
    cost = (each * kept).sum(1) / kept.sum(1).clamp_min(1)  # (B,)
    baseline = model.get_buffer("baseline")
    looks = reinforce(drawn.log_probability, cost, baseline)
    with torch.no_grad():
        there = kept.any(1)
        now = (cost * there).sum() / there.sum().clamp_min(1)
        baseline.lerp_(now, 1 - BASELINE_DECAY)
    return masked_mean(each + REINFORCE_WEIGHT * looks - ENTROPY_WEIGHT * drawn.entropy, kept)
