"""What a table of machines of several seeds says beside its means, computed from its numbers."""

from collections.abc import Iterator
from statistics import median
from typing import Any


def notes(table: dict[str, Any]) -> Iterator[str]:
    """For each row of several seeds, how many have solved their task, and when; and their errors.

    A mean over seeds says little where one of them may be a thousand times worse than the others.
    """
    for row in table["rows"]:
        numbers = row["numbers"]
        if len(numbers) < 2:
            continue
        # one that never solved it has no such number, and comes after all others
        solved = [each.get("solved_after") or float("inf") for each in numbers]
        count = sum(after < float("inf") for after in solved)
        bits = [each["bits_per_sequence"] for each in numbers]
        early = f", of the first five after {_half(solved[:5])}" if len(solved) > 5 else ""
        yield (
            f"{row['label']}: {count} of {len(numbers)} seeds came below a tenth of a bit, "
            f"half of them after {_half(solved)}{early}. "
            f"Measured, the median costs {median(bits):.2g} bits, the worst {max(bits):.2g}."
        )


def _half(solved: list[Any]) -> str:
    """After how many episodes half of the seeds have solved it."""
    several = median(solved)
    if several == float("inf"):
        return "more episodes than there were"
    return f"{several:,.0f} episodes"
