"""The rate as a pure function of the step: nothing to save, nothing to restore."""

import math

from regard.train.settings import Schedule


def rate_factor(schedule: Schedule, step: int, steps: int) -> float:
    """The share of the highest rate that step `step` of `steps` takes; the first step is 1.

    >>> [rate_factor(Schedule("linear", warmup=2), step, 6) for step in (1, 2, 4, 6)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if step < schedule.warmup:
        return step / schedule.warmup
    if schedule.kind == "inverse_square_root":
        return inverse_square_root(step, schedule.warmup)
    if schedule.kind == "halving":
        assert schedule.after is not None
        assert schedule.every is not None
        return halving(step, after=schedule.after, every=schedule.every)
    if schedule.kind == "constant":
        return 1.0
    done = (step - schedule.warmup) / max(1, steps - schedule.warmup)
    left = (linear if schedule.kind == "linear" else cosine)(min(1.0, done))
    return schedule.floor + (1 - schedule.floor) * left


def inverse_square_root(step: int, warmup: int) -> float:
    """Vaswani et al. 2017, 5.3: `√(warmup / step)`; their highest rate is `1/√(width · warmup)`."""
    return math.sqrt(warmup / step)


def linear(done: float) -> float:
    """A straight line from 1 to 0 while `done` goes from 0 to 1."""
    return 1 - done


def cosine(done: float) -> float:
    """Loshchilov and Hutter 2017, without restarts: half a wave from 1 to 0."""
    return (1 + math.cos(math.pi * done)) / 2


def halving(step: int, *, after: int, every: int) -> float:
    """Luong et al. 2015, 4.1: halved at step `after`, and again every `every` steps."""
    return 1.0 if step < after else 0.5 ** (1 + (step - after) // every)
