"""What is to be made small: losses of predictions, token by token, and of draws."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.check import Number


def cross_entropy(
    logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], *, smoothing: Number = 0.0
) -> Float[Tensor, "B T"]:
    """`−log p(target)` of every token, in float32 or better.

    Args:
        smoothing: the share of the target that is spread over all tokens, Szegedy et al. 2016, 7.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = F.cross_entropy(
        wide.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing
    )
    return losses.view_as(targets)


def symmetric_kl(
    ours: Float[Tensor, "B T V"], theirs: Float[Tensor, "B T V"]
) -> Float[Tensor, "B T"]:
    """Liang et al. 2021 (R-Drop), eq. 2: how far two predictions are apart.

    The mean of KL(p‖q) and KL(q‖p) of the softmax of either; 0 where they agree.
    """
    p, q = (x.float().log_softmax(-1) for x in (ours, theirs))
    return ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2


def reinforce(
    log_probability: Float[Tensor, "B T"],
    cost: Float[Tensor, " B"],
    baseline: Float[Tensor, ""],
) -> Float[Tensor, "B T"]:
    """Xu et al. 2015, eq. 13: `(cost − baseline) · log p` of every draw.

    Its gradient makes draws likelier in sentences that cost less than the baseline; the cost itself
    gets no gradient from here.
    """
    return (cost - baseline).detach()[:, None] * log_probability


def masked_mean(losses: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The mean over the tokens that are kept; 0 where none is."""
    return (losses * mask).sum() / mask.sum().clamp_min(1)
