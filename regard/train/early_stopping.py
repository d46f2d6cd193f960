"""Early stopping as a small value: the best validation so far, and how many came after it."""

import math
from dataclasses import dataclass, field, replace

from regard.train.settings import MonitorMode


@dataclass(frozen=True)
class EarlyStopping:
    """What validation has found so far; `best` is None before the first."""

    best: float | None = None
    # where the best was, and all that was measured there
    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    # validations since
    bad: int = 0

    def with_metrics(
        self,
        step: int,
        metrics: dict[str, float],
        *,
        monitor: str,
        mode: MonitorMode = "lowest",
    ) -> "EarlyStopping":
        """The same after one more validation; what is not a number is never the best.

        >>> once = EarlyStopping().with_metrics(5, {"loss": 2.0}, monitor="loss")
        >>> once.with_metrics(9, {"loss": 3.0}, monitor="loss")
        EarlyStopping(best=2.0, step=5, metrics={'loss': 2.0}, bad=1)
        """
        if monitor not in metrics:
            raise ValueError(
                f"fit: validate gave {', '.join(metrics) or 'nothing'}, not {monitor!r}"
            )
        now = metrics[monitor]
        if not math.isfinite(now) or not self._is_better(now, mode):
            return replace(self, bad=self.bad + 1)
        return EarlyStopping(best=now, step=step, metrics=dict(metrics))

    def is_out_of_patience(self, patience: int) -> bool:
        """Whether `patience` is used up; 0 is patience without end."""
        return 0 < patience <= self.bad

    def should_roll_back(self, now: float, ratio: float, *, mode: MonitorMode = "lowest") -> bool:
        """Whether a validation is so many times worse than the best; 0 times is never.

        >>> [EarlyStopping(best=2.0).should_roll_back(now, 4.0) for now in (7.0, 9.0)]
        [False, True]
        """
        if not ratio or self.best is None:
            return False
        # what is not a number is not as good either
        return not (now <= ratio * self.best if mode == "lowest" else ratio * now >= self.best)

    def _is_better(self, now: float, mode: MonitorMode) -> bool:
        if self.best is None:
            return True
        return now < self.best if mode == "lowest" else now > self.best
