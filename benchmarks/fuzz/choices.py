"""Which of keys that are equal but for rounding a call chose, told by what it gave."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Flags = NDArray[np.bool_]

# How many sets of keys are tried for a row.
MOST_SETS = 300


def nearest_choice(
    must: Flags,
    may_not: Flags,
    n: int,
    answer: Callable[[Flags], Array],
    found: Array,
    spacing: float,
    likely: Sequence[Flags] = (),
    *,
    smallest: float = 0.0,
) -> Flags:
    """Keys (B, H, Q, K) such that each row's answer is as near as can be to what was found.

    Args:
        must: keys that are among the best whatever rounding does.
        may_not: keys that are not, whatever it does.
        n: how many keys are chosen.
        answer: from keys to rows (B, H, Q, D) of what is given for them.
        found: what was given.
        spacing: of the numbers in it; no smaller than that of a 64th of a row's largest.
        likely: choices to try before any other; rows of another number of keys are passed over.
        smallest: how far apart the smallest of those numbers are.
    """
    shape = must.shape
    size = np.abs(np.where(np.isfinite(found), found, 0))
    unit = spacing * np.maximum(size, size.max(-1, keepdims=True, initial=0) / 64)
    unit = np.maximum(unit, smallest) + 1e-45
    rows = zip(must.reshape(-1, shape[-1]), may_not.reshape(-1, shape[-1]), strict=True)
    sets = [list(islice(_sets(best, lost, n), MOST_SETS)) for best, lost in rows]
    for choice in likely:
        for some, keys in zip(sets, choice.reshape(-1, shape[-1]), strict=True):
            if keys.sum() == some[0].sum():
                some.insert(0, keys)
    chosen, least = must.copy(), np.full(shape[:-1], np.inf)
    for i in range(max(map(len, sets), default=0)):
        tried = np.stack([some[min(i, len(some) - 1)] for some in sets]).reshape(shape)
        with np.errstate(all="ignore"):
            off = (np.abs(answer(tried) - found) / unit).max(-1, initial=0)
        off = np.where(np.isnan(off), np.inf, off)
        nearer = (off < least) | (i == 0)
        chosen, least = np.where(nearer[..., None], tried, chosen), np.where(nearer, off, least)
    return chosen


def _sets(must: Flags, may_not: Flags, n: int) -> Iterator[Flags]:
    """All sets of keys that a row may choose (K,), one at least."""
    open_keys = np.flatnonzero(~must & ~may_not)
    for some in combinations(open_keys, min(max(0, n - int(must.sum())), len(open_keys))):
        chosen = must.copy()
        chosen[list(some)] = True
        yield chosen
