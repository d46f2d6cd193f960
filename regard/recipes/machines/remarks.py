"""What a table of machines of several seeds says beside its means, computed from its numbers."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from regard.check import Number


def notes(table: dict[str, Any]) -> Iterator[str]:
    """For each row of several seeds, how many have solved their task, and when; and their errors.

    A mean over seeds says little where one of them may be a thousand times worse than the others.
    """
    for row in table["rows"]:
        numbers = row["numbers"]
        if len(numbers) < 2 or "solved_after" not in numbers[0]:
            continue
        # one that never solved it comes after all others
        solved = [each["solved_after"] or float("inf") for each in numbers]
        count = sum(after < float("inf") for after in solved)
        bits = [each["bits_per_sequence"] for each in numbers]
        yield (
            f"{row['label']}: {count} of {len(numbers)} seeds came below a tenth of a bit, "
            f"the median of all after {_episodes(median(solved))}, "
            f"of the first five after {_episodes(median(solved[:5]))}. "
            f"Measured, the median costs {median(bits):.2g} bits, the worst {max(bits):.2g}."
        )


def _episodes(several: Number) -> str:
    return f"{several:,.0f} episodes" if several < float("inf") else "more than there were"
