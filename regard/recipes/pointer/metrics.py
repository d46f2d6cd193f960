"""What evaluations of pointer networks share: seeds, limits, and how shares are told."""

from typing import Any

# What the numbers of a card are drawn with.
CARD_SEED = 1000
# As everywhere on the command line.
MAX_BEAMS = 100


def check_evaluation(where: str, evaluation: Any, *, max_points: int, **minimums: int) -> None:
    """Refuse an evaluation of more than `max_points` points, or with less of what is named."""
    for name, lowest in minimums.items():
        given = getattr(evaluation, name)
        if given is not None and given < lowest:
            raise ValueError(f"{where}: expected {name} of at least {lowest}, got {given!s:.40}")
    limits = {"points": max_points, "beam": MAX_BEAMS}
    for name, highest in limits.items():
        given = getattr(evaluation, name)
        if given is not None and given > highest:
            raise ValueError(f"{where}: expected {name} of at most {highest}, got {given!s:.40}")


def format_percent(share: float) -> str:
    """A share as people say it.

    >>> format_percent(0.9876)
    '98.76 %'
    """
    # what rounding takes from nothing is nothing, without a sign
    return f"{round(100 * share, 2) + 0.0:.2f} %"
