"""The losses since the last report, left on the device until somebody asks for them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class StepStats(NamedTuple):
    """How one step went, in numbers."""

    step: int
    loss: float
    tokens: int
    norm: float | None


class IntervalStats(NamedTuple):
    """The steps between two reports: the mean loss by tokens, and the mean norm of gradients.

    Norms that are not finite are counted, and are no part of the mean.
    """

    loss: float
    norm: float | None
    tokens: int
    nonfinite: int


class _PendingStep(NamedTuple):
    step: int
    losses: list[Tensor]
    shares: list[float]
    tokens: int
    norm: Tensor | None


class RunningLoss:
    """Losses of the steps since the last report: added without waiting, settled all at once."""

    def __init__(self, step_stats: list[StepStats] | None = None):
        self.step_stats = list(step_stats or [])
        self._pending: list[_PendingStep] = []

    def add(
        self,
        step: int,
        losses: list[Tensor],
        shares: list[float],
        *,
        tokens: int,
        norm: Tensor | None,
    ) -> None:
        """Keep the losses of one step: its loss is their sum, each times its share."""
        self._pending.append(_PendingStep(step, losses, shares, tokens, norm))

    def synchronize(self, all_reduce: Callable[[Tensor], Tensor] = lambda x: x) -> list[StepStats]:
        """Wait for the device, once; the steps that were pending, in numbers.

        Args:
            all_reduce: sums over all processes.
        """
        pending, self._pending = self._pending, []
        if not pending:
            return []
        losses = torch.stack([x for p in pending for x in p.losses]).cpu().double()
        shares = torch.tensor([x for p in pending for x in p.shares], dtype=torch.float64)
        places = torch.tensor([i for i, p in enumerate(pending) for _ in p.losses])
        sums = torch.zeros(len(pending), dtype=torch.float64).index_add(0, places, losses * shares)
        norms = [p.norm for p in pending if p.norm is not None]
        read = iter(torch.stack(norms).tolist() if norms else [])
        new = [
            StepStats(p.step, loss, p.tokens, None if p.norm is None else next(read))
            for p, loss in zip(pending, all_reduce(sums).tolist(), strict=True)
        ]
        self.step_stats += new
        return new

    def pop_interval(self) -> IntervalStats:
        """How the steps since the last report went; then a new interval begins."""
        settled, self.step_stats = self.step_stats, []
        tokens = sum(s.tokens for s in settled)
        loss = sum(s.loss * s.tokens for s in settled) / max(1, tokens)
        norms = [s.norm for s in settled if s.norm is not None]
        finite = [norm for norm in norms if math.isfinite(norm)]
        mean = sum(finite) / len(finite) if finite else None
        return IntervalStats(loss, mean, tokens, len(norms) - len(finite))
