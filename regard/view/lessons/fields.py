"""What a lesson may be given: numbers within bounds, each refused in words where it is not one.

Real numbers are taken to three decimals, so that the code a lesson shows holds all of them.
"""

import math
from dataclasses import dataclass
from typing import Any

from regard.check import Number

DECIMALS = 3


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`."""

    least: int
    most: int
    default: int

    def checked(self, where: str, given: Any) -> int:
        """The number, if it is one within bounds."""
        whole = isinstance(given, int) and not isinstance(given, bool)
        if not whole or not self.least <= given <= self.most:
            raise ValueError(
                f"{where}: expected a whole number from {self.least} to {self.most}, got "
                f"{_short(given)}"
            )
        return given


@dataclass(frozen=True)
class Real:
    """A number from `least` to `most`."""

    least: Number
    most: Number
    default: float

    def checked(self, where: str, given: Any) -> float:
        """The number, if it is one within bounds."""
        number = isinstance(given, int | float) and not isinstance(given, bool)
        # a whole number may be too large for a float, which comparing does not mind; NaN fails it
        if not number or not self.least <= given <= self.most:
            raise ValueError(
                f"{where}: expected a number from {self.least} to {self.most}, got {_short(given)}"
            )
        return round(float(given), DECIMALS)


@dataclass(frozen=True)
class Choice:
    """One of a few names."""

    values: tuple[str, ...]
    default: str

    def checked(self, where: str, given: Any) -> str:
        """The name, if there is one like it."""
        if not isinstance(given, str) or given not in self.values:
            raise ValueError(
                f"{where}: expected one of {', '.join(self.values)}, got {_short(given)}"
            )
        return given


@dataclass(frozen=True)
class Row:
    """A list of `fewest` to `most` numbers, each within `bound` of zero, or not below it."""

    fewest: int
    most: int
    bound: Number
    default: tuple[float, ...]
    positive: bool = False

    def checked(self, where: str, given: Any) -> list[float]:
        """The numbers, if there are as many as may be and each is one within bounds."""
        entry = Real(0 if self.positive else -self.bound, self.bound, 0.0)
        listed = _listed(where, given, self.fewest, self.most, "numbers")
        return [entry.checked(f"{where}[{i}]", x) for i, x in enumerate(listed)]


@dataclass(frozen=True)
class Rows:
    """A list of `fewest` to `most` rows, each of so many numbers."""

    fewest: int
    most: int
    row: Row
    default: tuple[tuple[float, ...], ...]

    def checked(self, where: str, given: Any) -> list[list[float]]:
        """The rows, if there are as many as may be and each is one."""
        listed = _listed(where, given, self.fewest, self.most, "rows")
        return [self.row.checked(f"{where}[{i}]", row) for i, row in enumerate(listed)]


@dataclass(frozen=True)
class Order:
    """Every one of 0, 1, … once, in any order."""

    fewest: int
    most: int
    default: tuple[int, ...]

    def checked(self, where: str, given: Any) -> list[int]:
        """The order, if each place is in it once."""
        listed = _listed(where, given, self.fewest, self.most, "places")
        place = Whole(0, len(listed) - 1, 0)
        order = [place.checked(f"{where}[{i}]", x) for i, x in enumerate(listed)]
        if sorted(order) != list(range(len(order))):
            raise ValueError(
                f"{where}: expected each of 0 to {len(order) - 1} once, got {_short(order)}"
            )
        return order


@dataclass(frozen=True)
class Picked:
    """Some of the places 0 to `places` − 1, none of them twice."""

    places: int
    default: tuple[int, ...] = ()

    def checked(self, where: str, given: Any) -> list[int]:
        """The places from first to last, if there are such."""
        listed = _listed(where, given, 0, self.places, "places")
        place = Whole(0, self.places - 1, 0)
        found = sorted(place.checked(f"{where}[{i}]", x) for i, x in enumerate(listed))
        if len(set(found)) < len(found):
            raise ValueError(f"{where}: expected no place twice, got {_short(found)}")
        return found


# What a lesson may be given is one of these.
Field = Whole | Real | Choice | Row | Rows | Order | Picked


def _listed(where: str, given: Any, fewest: int, most: int, of: str) -> list[Any]:
    if not isinstance(given, list | tuple) or not fewest <= len(given) <= most:
        got = f"{len(given)}" if isinstance(given, list | tuple) else _short(given)
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        raise ValueError(f"{where}: expected a list of {count} {of}, got {got}")
    return list(given)


def _short(given: Any) -> str:
    """What came, in as few words as an error has room for."""
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) >= 10**15:
        return "a number of many digits"
    if isinstance(given, float) and not math.isfinite(given):
        return "one that is not finite"
    text = repr(given)
    return text if len(text) <= 40 else f"{text[:37]}…"
