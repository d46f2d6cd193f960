"""Sentences of made-up words whose order is known, so that the right alignment is known too."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from regard.data.text.pairs import Pair
from regard.data.text.splits import Split

WordOrder = Literal["same", "reversed", "swapped", "rotated", "sorted"]

# By the numbers of its words in the dictionary: the place in the source of each target word.
_ORDERS: dict[WordOrder, Callable[[Sequence[int]], Sequence[int]]] = {
    "same": lambda numbers: range(len(numbers)),
    "reversed": lambda numbers: range(len(numbers))[::-1],
    # neighbours change places; the last stays where it has none
    "swapped": lambda numbers: [min(i ^ 1, len(numbers) - 1) for i in range(len(numbers))],
    # the first word goes last, as a German verb does
    "rotated": lambda numbers: [*range(1, len(numbers)), 0],
    # by the dictionary: which word comes next depends on all of them
    "sorted": lambda numbers: sorted(range(len(numbers)), key=numbers.__getitem__),
}

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_WORDS = [first + second for first in _SYLLABLES for second in _SYLLABLES]
# The most words there can be.
MAX_WORDS = len(_WORDS)
# Source words such as `bodi`, and target words such as `idob`, which no source word is. The steps,
# prime to `MAX_WORDS`, let neighbours look different, and letters tell nothing of the translation.
_SOURCE_WORDS = [_WORDS[number * 1361 % MAX_WORDS] for number in range(MAX_WORDS)]
_TARGET_WORDS = [_WORDS[number * 2203 % MAX_WORDS][::-1] for number in range(MAX_WORDS)]
_DICTIONARY = dict(zip(_SOURCE_WORDS, _TARGET_WORDS, strict=True))


class AlignedPair(NamedTuple):
    """A pair whose target word j is the translation of source word `order[j]`."""

    pair: Pair
    order: tuple[int, ...]


def make_aligned_pairs(
    count: int,
    *,
    words: int = 200,
    shortest: int = 5,
    longest: int = 15,
    order: WordOrder = "reversed",
    seed: int,
) -> list[AlignedPair]:
    """So many sentences, no two alike, each of `shortest` to `longest` different words.

    Args:
        words: how many pairs of words the dictionary has.
        order: where each word goes; a function of the sentence, so that it can be learned.
    """
    if not 1 <= shortest <= longest <= words <= MAX_WORDS:
        raise ValueError(
            f"make_aligned_pairs: expected 1 ≤ shortest ≤ longest ≤ words ≤ {MAX_WORDS}, "
            f"got {shortest}, {longest} and {words}"
        )
    # as many again, or the last ones take long to draw
    most = sum(math.perm(words, length) for length in range(shortest, longest + 1)) // 2
    if not 1 <= count <= most:
        raise ValueError(
            f"make_aligned_pairs: expected 1 to {most} sentences of these words, got {count}"
        )
    draws, drawn = random.Random(seed), dict[tuple[int, ...], None]()
    while len(drawn) < count:
        drawn[tuple(draws.sample(range(words), draws.randint(shortest, longest)))] = None
    return [_aligned_pair(numbers, order) for numbers in drawn]


def make_split(*, train: int = 20_000, development: int, test: int, seed: int) -> Split:
    """Sentences in reversed order, in three parts with no sentence in two of them."""
    pairs = [each.pair for each in make_aligned_pairs(train + development + test, seed=seed)]
    held = pairs[test : test + development]
    return Split(pairs[test + development :], held, pairs[:test])


def alignment(pair: Pair) -> tuple[int, ...]:
    """The place in the source of each target word, by the dictionary."""
    places = {_DICTIONARY.get(word): place for place, word in enumerate(pair.source.split())}
    strange = [word for word in pair.target.split() if word not in places]
    if strange:
        raise ValueError(f"alignment: expected translations of {pair.source!r}, got {strange[0]!r}")
    return tuple(places[word] for word in pair.target.split())


def alignment_error(predicted: Iterable[Sequence[int]], gold: Iterable[Sequence[int]]) -> float:
    """Och and Ney 2003: `1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)` over all sentences, with S = P.

    Args:
        predicted: of each sentence, the source word that each target word looks at most.
        gold: of each sentence, the source word that each target word translates.
    """
    links, sure = (set(_links(each)) for each in (predicted, gold))
    if not links or not sure:
        raise ValueError(
            f"alignment_error: expected links on both sides, got {len(links)} and {len(sure)}"
        )
    return 1 - 2 * len(links & sure) / (len(links) + len(sure))


def _links(sentences: Iterable[Sequence[int]]) -> Iterable[tuple[int, int, int]]:
    for sentence, places in enumerate(sentences):
        yield from ((sentence, word, int(place)) for word, place in enumerate(places))


def _aligned_pair(numbers: Sequence[int], order: WordOrder) -> AlignedPair:
    places = tuple(_ORDERS[order](numbers))
    source = " ".join(_SOURCE_WORDS[number] for number in numbers)
    return AlignedPair(
        Pair(source, " ".join(_TARGET_WORDS[numbers[place]] for place in places)), places
    )
