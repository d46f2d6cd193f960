"""What a lesson may be given: numbers within bounds, each refused in words where it is not one.

Real numbers are taken to three decimals, so that the code a lesson shows holds all of them.
"""

import math
from dataclasses import dataclass
from typing import Any

from regard.check import Number

DECIMALS = 3


@dataclass(frozen=True)
class Integer:
    """A whole number from `least` to `most`."""

    minimum: int
    maximum: int
    default: int

    def check_value(self, where: str, value: Any) -> int:
        """The number, if it is one within bounds."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not self.minimum <= value <= self.maximum:
            raise ValueError(
                f"{where}: expected a whole number from {self.minimum} to {self.maximum}, got "
                f"{_brief_text(value)}"
            )
        return value


@dataclass(frozen=True)
class Real:
    """A number from `least` to `most`."""

    minimum: Number
    maximum: Number
    default: float

    def check_value(self, where: str, value: Any) -> float:
        """The number, if it is one within bounds."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # a whole number may be too large for a float, which comparing does not mind; NaN fails it
        if not number or not self.minimum <= value <= self.maximum:
            raise ValueError(
                f"{where}: expected a number from {self.minimum} to {self.maximum}, got "
                f"{_brief_text(value)}"
            )
        return round(float(value), DECIMALS)


@dataclass(frozen=True)
class Choice:
    """One of a few names."""

    values: tuple[str, ...]
    default: str

    def check_value(self, where: str, value: Any) -> str:
        """The name, if there is one like it."""
        if not isinstance(value, str) or value not in self.values:
            raise ValueError(
                f"{where}: expected one of {', '.join(self.values)}, got {_brief_text(value)}"
            )
        return value


@dataclass(frozen=True)
class Row:
    """A list of `fewest` to `most` numbers, each within `bound` of zero, or not below it."""

    min_length: int
    max_length: int
    bound: Number
    default: tuple[float, ...]
    non_negative: bool = False

    def check_value(self, where: str, value: Any) -> list[float]:
        """The numbers, if there are as many as may be and each is one within bounds."""
        entry = Real(0 if self.non_negative else -self.bound, self.bound, 0.0)
        listed = _check_list(where, value, self.min_length, self.max_length, "numbers")
        return [entry.check_value(f"{where}[{i}]", x) for i, x in enumerate(listed)]


@dataclass(frozen=True)
class Rows:
    """A list of `fewest` to `most` rows, each of so many numbers."""

    min_length: int
    max_length: int
    row: Row
    default: tuple[tuple[float, ...], ...]

    def check_value(self, where: str, value: Any) -> list[list[float]]:
        """The rows, if there are as many as may be and each is one."""
        listed = _check_list(where, value, self.min_length, self.max_length, "rows")
        return [self.row.check_value(f"{where}[{i}]", row) for i, row in enumerate(listed)]


@dataclass(frozen=True)
class Permutation:
    """Every one of 0, 1, … once, in any order."""

    min_length: int
    max_length: int
    default: tuple[int, ...]

    def check_value(self, where: str, value: Any) -> list[int]:
        """The order, if each place is in it once."""
        listed = _check_list(where, value, self.min_length, self.max_length, "places")
        place = Integer(0, len(listed) - 1, 0)
        order = [place.check_value(f"{where}[{i}]", x) for i, x in enumerate(listed)]
        if sorted(order) != list(range(len(order))):
            raise ValueError(
                f"{where}: expected each of 0 to {len(order) - 1} once, got {_brief_text(order)}"
            )
        return order


@dataclass(frozen=True)
class Subset:
    """Some of the places 0 to `places` − 1, none of them twice."""

    size: int
    default: tuple[int, ...] = ()

    def check_value(self, where: str, value: Any) -> list[int]:
        """The places from first to last, if there are such."""
        listed = _check_list(where, value, 0, self.size, "places")
        place = Integer(0, self.size - 1, 0)
        found = sorted(place.check_value(f"{where}[{i}]", x) for i, x in enumerate(listed))
        if len(set(found)) < len(found):
            raise ValueError(f"{where}: expected no place twice, got {_brief_text(found)}")
        return found


# What a lesson may be given is one of these.
Field = Integer | Real | Choice | Row | Rows | Permutation | Subset


def _check_list(where: str, value: Any, min_length: int, max_length: int, noun: str) -> list[Any]:
    if not isinstance(value, list | tuple) or not min_length <= len(value) <= max_length:
        got = f"{len(value)}" if isinstance(value, list | tuple) else _brief_text(value)
        count = f"{max_length}" if min_length == max_length else f"{min_length} to {max_length}"
        raise ValueError(f"{where}: expected a list of {count} {noun}, got {got}")
    return list(value)


def _brief_text(value: Any) -> str:
    """What came, in as few words as an error has room for."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**15:
        return "a number of many digits"
    if isinstance(value, float) and not math.isfinite(value):
        return "one that is not finite"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
