"""Longer sentences, made by joining short ones: to see what a model does with length."""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from regard.data.pairs import Pair

# The most pairs that become one.
MOST_PAIRS = 5

Count = Callable[[str], int]


def count_words(sentence: str) -> int:
    """How many words `sentence` has, with blanks between."""
    return len(sentence.split())


def joined(
    pairs: Iterable[Pair], *, most: int, seed: int, times: int = 1, tokens: Count = count_words
) -> list[Pair]:
    """The pairs, shuffled, then one to five of them joined by a blank into one.

    How many come together is drawn, and less where the source would have more than `most` tokens.
    A pair that has more by itself is left out; every other one is used as many `times`, each time
    in other company.
    """
    draws = random.Random(seed)
    order = [pair for pair in pairs if tokens(pair.source) <= most]
    if not order:
        raise ValueError(f"joined: expected sources of at most {most} tokens, got none")
    return [pair for _ in range(times) for pair in _once(order, most, draws, tokens)]


def buckets(
    pairs: Iterable[Pair], edges: Sequence[int], *, seed: int, tokens: Count = count_words
) -> dict[str, list[Pair]]:
    """Pairs made of exactly one to five, by the tokens of the source: `1-10`, `11-20`, ….

    Every pair is used up to five times: alone, as one of two, of three and so on. What has more
    tokens than the last of `edges` is left out, and so are buckets with nothing in them.
    """
    ends = [0, *edges]
    if len(ends) < 2 or any(low >= high for low, high in pairwise(ends)):
        raise ValueError(f"buckets: expected edges that grow from 1 on, got {tuple(edges)}")
    draws, order, made = random.Random(seed), list(pairs), list[Pair]()
    for together in range(1, MOST_PAIRS + 1):
        draws.shuffle(order)
        starts = range(0, len(order) - together + 1, together)
        made += [_one(order[start : start + together]) for start in starts]
    lengths = [tokens(pair.source) for pair in made]
    found = {
        f"{low + 1}-{high}": [p for p, n in zip(made, lengths, strict=True) if low < n <= high]
        for low, high in pairwise(ends)
    }
    return {name: inside for name, inside in found.items() if inside}


def _once(order: list[Pair], most: int, draws: random.Random, tokens: Count) -> list[Pair]:
    """The pairs of `order`, which is shuffled, joined; each is used once."""
    draws.shuffle(order)
    found, wanted = [order[0]], draws.randint(1, MOST_PAIRS)
    for pair in order[1:]:
        longer = _one([found[-1], pair])
        wanted -= 1
        if wanted and tokens(longer.source) <= most:
            found[-1] = longer
        else:
            found.append(pair)
            wanted = draws.randint(1, MOST_PAIRS)
    return found


def _one(pairs: Sequence[Pair]) -> Pair:
    return Pair(*(" ".join(sides) for sides in zip(*pairs, strict=True)))
