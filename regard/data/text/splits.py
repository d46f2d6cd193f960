"""Pairs parted into training, development and test, with no sentence on two sides."""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from regard.data.text.pairs import Pair


@dataclass(frozen=True)
class Split:
    """What is learned from, what is chosen by, and what is judged by."""

    train: list[Pair]
    development: list[Pair]
    test: list[Pair]


def split_pairs(pairs: Iterable[Pair], *, development: int, test: int, seed: int) -> Split:
    """All pairs, parted so that no sentence of either language is on two sides.

    Pairs that share a source or a target, whatever its case, punctuation and blanks, stay
    together. The parts are the same whatever order the pairs come in.

    Args:
        development: how many pairs to hold out; a few less where groups do not fit exactly.
        test: the same, for the test.
    """
    if development < 0 or test < 0:
        raise ValueError(
            f"split_pairs: expected development and test of at least 0, "
            f"got {development} and {test}"
        )
    groups = _group_by_sentence(pairs)
    order = sorted(groups, key=lambda group: (_shuffle_key(group[0].source, seed), group))
    judged, order = _take_groups(order, test)
    chosen, order = _take_groups(order, development)
    short = (test and not judged) or (development and not chosen) or not order
    if short or sum(map(len, groups)) <= development + test:
        raise ValueError(
            f"split_pairs: expected enough pairs to hold out {development} + {test} and train on "
            f"the rest, got {sum(map(len, groups))} in {len(groups)} groups "
            f"without a common sentence"
        )
    return Split(list(chain.from_iterable(order)), chosen, judged)


def _group_by_sentence(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs in groups, such that no two groups share a sentence."""
    above: dict[str, str] = {}

    def find_root(sentence: str) -> str:
        while above.setdefault(sentence, sentence) != sentence:
            above[sentence] = above[above[sentence]]  # half the way, for whoever asks next
            sentence = above[sentence]
        return sentence

    groups = defaultdict[str, list[Pair]](list)
    pairs = sorted(pairs)
    for source, target in pairs:
        above[find_root("s" + sentence_key(source))] = find_root("t" + sentence_key(target))
    for pair in pairs:
        groups[find_root("s" + sentence_key(pair.source))].append(pair)
    return list(groups.values())


def _take_groups(groups: list[list[Pair]], size: int) -> tuple[list[Pair], list[list[Pair]]]:
    """The first groups that fit into `size` pairs, joined; and the groups that are left."""
    taken: list[Pair] = []
    left: list[list[Pair]] = []
    for group in groups:
        if len(taken) + len(group) <= size:
            taken += group
        else:
            left.append(group)
    return taken, left


def sentence_key(sentence: str) -> str:
    """The letters and digits of `sentence` alone, without case: `It's  HERE!` is `itshere`."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", sentence).casefold())
    # marks are letters too: without them, Hindi loses its vowels
    kept = "".join(c for c in plain if c.isalnum() or unicodedata.category(c)[0] == "M")
    return unicodedata.normalize("NFKC", kept)


def _shuffle_key(sentence: str, seed: int) -> bytes:
    """A lot that depends on the sentence and the seed alone."""
    text = f"{seed} {sentence}".encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()
