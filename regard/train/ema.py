"""A moving average of the weights, which often judges better than the weights themselves."""

from copy import deepcopy

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class AveragedModel:
    """A second copy of a model whose weights follow those of the first, slowly.

    `torch.optim.swa_utils.AveragedModel` would ask the device at every step how often it was
    updated; here the caller knows the step, and nobody waits.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.model = deepcopy(model).requires_grad_(False)
        for part in self.model.modules():
            if isinstance(part, nn.RNNBase):
                part.flatten_parameters()  # a copy lies in pieces, of which cuDNN complains
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after step `step`; buffers are copied as they are."""
        ours, theirs = list(self.model.parameters()), list(model.parameters())
        get_ema_multi_avg_fn(ema_decay_at(self.decay, step))(ours, theirs, step)
        for a, b in zip(self.model.buffers(), model.buffers(), strict=True):
            a.copy_(b)


def ema_decay_at(decay: float, step: int) -> float:
    """The share of the past that step `step` keeps: less at first, so that the start is forgotten.

    >>> [ema_decay_at(0.999, step) for step in (1, 8, 10**6)]
    [0.18181818181818182, 0.5, 0.999]
    """
    return min(decay, (1 + step) / (10 + step))
