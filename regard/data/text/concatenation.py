"""Longer sentences, made by joining short ones: to see what a model does with length."""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from regard.data.text.pairs import Pair

# The most pairs that become one.
MAX_JOINED_PAIRS = 5

CountTokens = Callable[[str], int]


def count_words(sentence: str) -> int:
    """How many words `sentence` has, with blanks between."""
    return len(sentence.split())


def join_pairs(
    pairs: Iterable[Pair],
    *,
    max_tokens: int,
    seed: int,
    repeats: int = 1,
    count_tokens: CountTokens = count_words,
) -> list[Pair]:
    """The pairs, shuffled, then one to five of them joined by a blank into one.

    How many come together is drawn, and less where the source would have more than `max_tokens`
    tokens. A pair that has more by itself is left out; every other one is used `repeats` times,
    each time in other company.
    """
    draws = random.Random(seed)
    order = [pair for pair in pairs if count_tokens(pair.source) <= max_tokens]
    if not order:
        raise ValueError(f"join_pairs: expected sources of at most {max_tokens} tokens, got none")
    return [
        pair
        for _ in range(repeats)
        for pair in _join_each_once(order, max_tokens, draws, count_tokens)
    ]


def length_buckets(
    pairs: Iterable[Pair],
    edges: Sequence[int],
    *,
    seed: int,
    count_tokens: CountTokens = count_words,
) -> dict[str, list[Pair]]:
    """Pairs made of exactly one to five, by the tokens of the source: `1-10`, `11-20`, ….

    Every pair is used up to five times: alone, as one of two, of three and so on. What has more
    tokens than the last of `edges` is left out, and so are buckets with nothing in them.
    """
    ends = [0, *edges]
    if len(ends) < 2 or any(low >= high for low, high in pairwise(ends)):
        raise ValueError(f"length_buckets: expected edges that grow from 1 on, got {tuple(edges)}")
    draws, order, made = random.Random(seed), list(pairs), list[Pair]()
    for together in range(1, MAX_JOINED_PAIRS + 1):
        draws.shuffle(order)
        starts = range(0, len(order) - together + 1, together)
        made += [_concatenate(order[start : start + together]) for start in starts]
    lengths = [count_tokens(pair.source) for pair in made]
    found = {
        f"{low + 1}-{high}": [p for p, n in zip(made, lengths, strict=True) if low < n <= high]
        for low, high in pairwise(ends)
    }
    return {name: inside for name, inside in found.items() if inside}


def _join_each_once(
    order: list[Pair], max_tokens: int, draws: random.Random, count_tokens: CountTokens
) -> list[Pair]:
    """The pairs of `order`, which is shuffled, joined; each is used once."""
    draws.shuffle(order)
    found, wanted = [order[0]], draws.randint(1, MAX_JOINED_PAIRS)
    for pair in order[1:]:
        longer = _concatenate([found[-1], pair])
        wanted -= 1
        if wanted and count_tokens(longer.source) <= max_tokens:
            found[-1] = longer
        else:
            found.append(pair)
            wanted = draws.randint(1, MAX_JOINED_PAIRS)
    return found


def _concatenate(pairs: Sequence[Pair]) -> Pair:
    return Pair(*(" ".join(sides) for sides in zip(*pairs, strict=True)))
