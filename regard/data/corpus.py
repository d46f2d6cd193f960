"""Sentence pairs to learn from, to choose by and to judge by: a file's, or the sample's."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data import bpe, tatoeba
from regard.data.batches import Example
from regard.data.bpe import Vocabulary
from regard.data.pairs import Pair, Read, read
from regard.data.splits import Split, split


@dataclass(frozen=True)
class Corpus:
    """Which pairs: those of a file, or the sample that comes with the package."""

    # .tsv or .jsonl, or the source side of two aligned text files
    pairs: Path | None = None
    # the other side, where there are two files
    target: Path | None = None
    # pairs held out to choose by, and to judge by
    development: int = 500
    test: int = 1000
    seed: int = 0
    # tokens of a sentence; pairs with a longer one are not learned from
    longest: int = 100

    def __post_init__(self) -> None:
        if self.target is not None and self.pairs is None:
            raise ValueError("Corpus: expected pairs beside target: the source side of the two")
        if min(self.development, self.test, self.longest) < 1:
            raise ValueError(
                f"Corpus: expected development, test and longest of at least 1, "
                f"got {self.development}, {self.test} and {self.longest}"
            )

    def read(self) -> Read:
        """The pairs, and what was left out of the file."""
        return read(tatoeba.SAMPLE if self.pairs is None else self.pairs, self.target)

    def parted(self, pairs: Sequence[Pair]) -> Split:
        """The pairs in three parts."""
        try:
            return split(pairs, development=self.development, test=self.test, seed=self.seed)
        except ValueError as error:
            raise ValueError(f"{error}; hold out fewer, by development and test") from None

    def __str__(self) -> str:
        if self.pairs is None:
            return "10,000 short English-French sentence pairs of tatoeba.org, CC-BY 2.0"
        # of a file only its name: where it lies is nobody's business
        return " and ".join(path.name for path in (self.pairs, self.target) if path is not None)


def facts(parts: Split) -> dict[str, Any]:
    """What must not change between two sittings of a training: counts, and a checksum of all."""
    sides = {"train": parts.train, "development": parts.development, "test": parts.test}
    text = repr(sides).encode(errors="surrogatepass")
    counts = {name: len(side) for name, side in sides.items()}
    return {**counts, "sha256": hashlib.sha256(text).hexdigest()}


def vocabulary(pairs: Sequence[Pair], size: int, path: Path) -> Vocabulary:
    """One vocabulary for both languages: the one at `path`, or a new one that is put there."""
    if not path.exists():
        bpe.learned((side for pair in pairs for side in pair), size).save(path)
    return bpe.loaded(path)


def examples(
    pairs: Sequence[Pair], vocabulary: Vocabulary, *, longest: int | None = None
) -> list[Example]:
    """The ids of each pair, without those that have a sentence of more than `longest` tokens."""
    sources = vocabulary.encode_all([pair.source for pair in pairs])
    targets = vocabulary.encode_all([pair.target for pair in pairs])
    both = list(zip(sources, targets, strict=True))
    kept: list[Example] = [
        pair for pair in both if longest is None or max(map(len, pair)) <= longest
    ]
    if not kept:
        raise ValueError(f"examples: expected pairs of at most {longest} tokens a side, got none")
    return kept
