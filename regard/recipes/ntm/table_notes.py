"""Notes on a table of NTMs: seeds that solved the task, and the spread of their errors."""

from collections.abc import Iterator
from statistics import median
from typing import Any


def notes(table: dict[str, Any]) -> Iterator[str]:
    """For each row of several seeds: how many solved the task, after how many episodes, errors.

    A mean over seeds is not enough where one seed may be a thousand times worse than the others.
    """
    for row in table["rows"]:
        numbers = row["numbers"]
        if len(numbers) < 2:
            continue
        # a seed that never solved the task has no such number, and sorts last
        solved = [each.get("solved_after") or float("inf") for each in numbers]
        count = sum(after < float("inf") for after in solved)
        bits = [each["bits_per_sequence"] for each in numbers]
        early = f" (first five: {_describe_median(solved[:5])})" if len(solved) > 5 else ""
        yield (
            f"{row['label']}: {count} of {len(numbers)} seeds solve the task (below 0.1 bits); "
            f"median {_describe_median(solved)}{early}. "
            f"Evaluated: {median(bits):.2g} bits in the median, {max(bits):.2g} at worst."
        )


def _describe_median(solved: list[Any]) -> str:
    """The median number of episodes to solve the task, as text."""
    episodes = median(solved)
    if episodes == float("inf"):
        return "more episodes than were trained"
    return f"{episodes:,.0f} episodes"
