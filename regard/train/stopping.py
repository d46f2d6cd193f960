"""Early stopping as a small value: the best judgement so far, and how many came after it."""

import math
from dataclasses import dataclass, field, replace

from regard.train.settings import Best


@dataclass(frozen=True)
class Stopping:
    """What the judgements have said so far; `best` is None before the first."""

    best: float | None = None
    # where the best was, and all that was measured there
    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    # judgements since
    bad: int = 0

    def after(
        self,
        step: int,
        metrics: dict[str, float],
        *,
        watch: str,
        best: Best = "lowest",
    ) -> "Stopping":
        """The same after one more judgement; what is not a number is never the best.

        >>> Stopping().after(5, {"loss": 2.0}, watch="loss").after(9, {"loss": 3.0}, watch="loss")
        Stopping(best=2.0, step=5, metrics={'loss': 2.0}, bad=1)
        """
        if watch not in metrics:
            raise ValueError(
                f"fit: the judge gave {', '.join(metrics) or 'nothing'}, not {watch!r}"
            )
        now = metrics[watch]
        if not math.isfinite(now) or not self._beaten(now, best):
            return replace(self, bad=self.bad + 1)
        return Stopping(best=now, step=step, metrics=dict(metrics))

    def done(self, patience: int) -> bool:
        """Whether `patience` is used up; 0 is patience without end."""
        return 0 < patience <= self.bad

    def lost(self, now: float, times: float, *, best: Best = "lowest") -> bool:
        """Whether a judgement is so many times worse than the best; 0 times is never.

        >>> [Stopping(best=2.0).lost(now, 4.0) for now in (7.0, 9.0)]
        [False, True]
        """
        if not times or self.best is None:
            return False
        # what is not a number is not as good either
        return not (now <= times * self.best if best == "lowest" else times * now >= self.best)

    def _beaten(self, now: float, best: Best) -> bool:
        if self.best is None:
            return True
        return now < self.best if best == "lowest" else now > self.best
