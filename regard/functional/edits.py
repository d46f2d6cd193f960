"""What may be changed about an attention: each change is a value that maps a call to another.

`regard.edit` takes them, or any callable of this form: it gets a `Call` and returns one of the same
sizes, as by `dataclasses.replace(call, score=…)`. A query is counted from where its attention
began: the first that it is asked is 0, also where a decoder asks one query a step. So is a key.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from regard import check
from regard.check import Number
from regard.functional.call import Call
from regard.functional.edited_selects import ForcedWeightSelect, TemperatureSelect
from regard.functional.rules import DenseMask, both
from regard.functional.scores import Score
from regard.functional.selects import Select

Change = Callable[[Call], Call]
# A query and a key; None stands for every query.
Cell = tuple[int | None, int]


@dataclass(frozen=True)
class Ablation:
    """Some heads are not heard: they read zeros."""

    heads: tuple[int, ...]

    def __call__(self, call: Call) -> Call:
        if not self.heads:
            return call
        alive = ~_head_mask("ablate", self.heads, call)
        return replace(call, heads=alive if call.heads is None else call.heads & alive)


@dataclass(frozen=True)
class HiddenCells:
    """Some cells are not seen, beside those that the rule hides."""

    cells: tuple[Cell, ...]
    heads: tuple[int, ...] | None

    def __call__(self, call: Call) -> Call:
        _, _, Q, K = call.sizes
        query, key = self._table.unbind(1)
        row, every, key = query - call.first_query, query < 0, key - call.first_key
        here = every | ((row >= 0) & (row < Q))
        # one that is still to come is waited for; one that a cache let go is not seen any more
        here &= (key >= 0) & (key < K)
        alone, columns = here & ~every, here & every
        chosen = None if self.heads is None else _head_mask("hide", self.heads, call)
        if not bool(here.any()):
            return call
        mask = torch.ones(Q, K, dtype=torch.bool)
        mask[row[alone], key[alone]] = False
        mask[:, key[columns]] = False
        mask = mask.to(call.q.device)
        seen = DenseMask(mask if chosen is None else mask | ~chosen[:, None, None], K - Q)
        return replace(call, rule=seen if call.rule is None else both(call.rule, seen))

    @property
    def largest_indices(self) -> tuple[int, int]:
        """The farthest query and the farthest key that it names, −1 if none."""
        queries = (-1 if query is None else query for query, _ in self.cells)
        return max(queries, default=-1), max((key for _, key in self.cells), default=-1)

    @cached_property
    def _table(self) -> Tensor:
        """Queries and keys (n, 2); −1 is every query."""
        cells = [(-1 if query is None else query, key) for query, key in self.cells]
        return torch.tensor(cells, dtype=torch.long).view(-1, 2)


@dataclass(frozen=True)
class ScoreReplacement:
    """Another score."""

    score: Score

    def __call__(self, call: Call) -> Call:
        return replace(call, score=self.score)


@dataclass(frozen=True)
class SelectReplacement:
    """Another select."""

    select: Select

    def __call__(self, call: Call) -> Call:
        return replace(call, select=self.select)


@dataclass(frozen=True)
class Temperature:
    """Scores, whatever is added to them, are divided by a temperature."""

    temperature: Number

    def __call__(self, call: Call) -> Call:
        if self.temperature == 1:
            return call
        return replace(call, select=TemperatureSelect(call.select, self.temperature))


@dataclass(frozen=True)
class ForcedWeight:
    """One cell has a weight that is given; the rest of its row is scaled to make room."""

    query: int | None
    key: int
    weight: Number
    heads: tuple[int, ...] | None

    def __call__(self, call: Call) -> Call:
        _, H, Q, K = call.sizes
        row = None if self.query is None else self.query - call.first_query
        key = self.key - call.first_key
        chosen = None if self.heads is None else _head_mask("force", self.heads, call)
        if not (row is None or 0 <= row < Q) or not 0 <= key < K:
            return call
        places = torch.arange(Q, device=call.q.device)
        rows = (places == row if row is not None else places >= 0).expand(H, Q)
        if chosen is not None:
            rows = rows & chosen[:, None]
        forced = ForcedWeightSelect(call.select, rows, key, self.weight, call.model_mask)
        return replace(call, select=forced)

    @property
    def largest_indices(self) -> tuple[int, int]:
        """The query that it names, −1 if none, and the key."""
        return -1 if self.query is None else self.query, self.key


@dataclass(frozen=True)
class Chain:
    """Several changes, one after the other."""

    changes: tuple[Change, ...]

    def __call__(self, call: Call) -> Call:
        for change in self.changes:
            call = change(call)
        return call

    @property
    def largest_indices(self) -> tuple[int, int]:
        """The farthest query and the farthest key that one of them names, −1 if none."""
        found = [(-1, -1), *map(largest_indices, self.changes)]
        return max(query for query, _ in found), max(key for _, key in found)


def ablate(*heads: int) -> Ablation:
    """These heads are not heard.

    They read zeros, their weights are zero, and where logits are asked for they say nothing: 0.
    """
    return Ablation(_check_indices("ablate", "heads", heads))


def hide(cells: Iterable[Cell], heads: Iterable[int] | None = None) -> HiddenCells:
    """These cells are not seen, by the heads given or by all.

    Args:
        cells: pairs of a query and a key; None in place of a query is every query.
        heads: whose; None is all of them.
    """
    found = tuple((query, key) for query, key in cells)
    _check_indices("hide", "queries", [query for query, _ in found if query is not None])
    _check_indices("hide", "keys", [key for _, key in found])
    return HiddenCells(found, None if heads is None else _check_indices("hide", "heads", heads))


def score(score: Score) -> ScoreReplacement:
    """Another score, from `regard.scores` or any callable on q and k."""
    _check_callable("score", score, "a callable (q, k)")
    return ScoreReplacement(score)


def select(select: Select) -> SelectReplacement:
    """Another select, from `regard.selects` or any callable on scores."""
    _check_callable("select", select, "a callable on scores")
    return SelectReplacement(select)


def heat(temperature: Number) -> Temperature:
    """Scores divided by a temperature: `softmax((score + bias) / T)`, or any other select of it.

    Above 1 a query looks more widely, below 1 more narrowly.
    """
    if not _is_number(temperature) or not 0 < temperature < math.inf:
        raise ValueError(f"heat: expected a finite temperature > 0, got {temperature!r}")
    return Temperature(temperature)


def force(
    query: int | None, key: int, weight: Number, heads: Iterable[int] | None = None
) -> ForcedWeight:
    """This cell has this weight, and the rest of its row is scaled to sum to what it did before.

    Where all the rest is zero, the other keys that may be seen share what is left alike; where
    there are none, the row is this one weight. What may not be seen is not forced. Of two cells in
    one row, the later makes room at the cost of the earlier.

    Args:
        query: which query; None is every one.
        key: which key it is made to read.
        weight: how much of it, from 0 to 1.
        heads: by whom; None is all of them.
    """
    _check_indices("force", "queries", [] if query is None else [query])
    _check_indices("force", "keys", [key])
    if not _is_number(weight) or not 0 <= weight <= 1:
        raise ValueError(f"force: expected a weight from 0 to 1, got {weight!r}")
    return ForcedWeight(
        query, key, weight, None if heads is None else _check_indices("force", "heads", heads)
    )


def chain(*changes: Change) -> Chain:
    """These changes, one after the other."""
    for change in changes:
        _check_callable("chain", change, "a callable from Call to Call")
    return Chain(changes)


def largest_indices(change: Change) -> tuple[int, int]:
    """The farthest query and key that a change names; −1 if it names none, or cannot be asked."""
    return (
        change.largest_indices
        if isinstance(change, HiddenCells | ForcedWeight | Chain)
        else (-1, -1)
    )


def _head_mask(where: str, heads: tuple[int, ...], call: Call) -> Tensor:
    """Which heads of a call are meant (H,)."""
    H = call.q.shape[1]
    if heads and max(heads) >= H:
        raise ValueError(f"{where}: expected heads below H={H}, got {max(heads)}")
    meant = torch.zeros(H, dtype=torch.bool)
    meant[list(heads)] = True
    return meant.to(call.q.device)


def _check_indices(where: str, name: str, values: Iterable[int]) -> tuple[int, ...]:
    found = tuple(values)
    for each in found:
        if isinstance(each, bool) or not isinstance(each, int) or each < 0:
            raise ValueError(f"{where}: expected whole {name} >= 0, got {each!r}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_callable(where: str, value: object, form: str) -> None:
    if isinstance(value, type) or not callable(value):
        raise ValueError(f"{where}: expected {form}, got {check.describe_kind(value)}")
