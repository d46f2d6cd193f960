"""Sentence pairs to learn from, to choose by and to judge by: by name, or of your own files."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from regard.data import licences
from regard.data.download import Progress, ignore_progress
from regard.data.licences import Licence
from regard.data.text import (
    bpe,
    concatenation,
    multi30k,
    newstest,
    tatoeba,
    word_order,
)
from regard.data.text.batches import Example
from regard.data.text.bpe import Vocabulary
from regard.data.text.pairs import LoadedPairs, Pair, read_pairs
from regard.data.text.splits import Split, split_pairs

CorpusName = Literal[
    "sample",
    "tatoeba-en-fr",
    "tatoeba-en-de",
    "multi30k-en-de",
    "multi30k-en-fr",
    "multi30k-en-cs",
    "newstest-en-de",
    "newstest-en-fr",
    "ordered",
]
Note = Callable[[str], None]
# How often a pair is joined to others to learn from, each time to other ones.
JOIN_REPEATS = 4
# Words of a source up to which joined test pairs are put together.
BUCKET_EDGES_WORDS = (10, 20, 30, 40, 50, 60, 70)

_CAPTIONS = "captions of Flickr30k by Multi30k, for non-commercial research"
_DESCRIPTIONS: dict[CorpusName, str] = {
    "sample": "10,000 short English-French sentence pairs of tatoeba.org, CC-BY 2.0",
    "tatoeba-en-fr": "167,130 English-French sentence pairs of tatoeba.org, CC-BY 2.0",
    "tatoeba-en-de": "169,813 English-German sentence pairs of tatoeba.org, CC-BY 2.0",
    "multi30k-en-de": f"English-German {_CAPTIONS}",
    "multi30k-en-fr": f"English-French {_CAPTIONS}",
    "multi30k-en-cs": f"English-Czech {_CAPTIONS}",
    "newstest-en-de": "English-German news, the tests of WMT 2008-13 and 2015-18; they are WMT's",
    "newstest-en-fr": "English-French news, the tests of WMT 2008-13 and 2015; they are WMT's",
    "ordered": "sentences of made-up words in reversed order",
}
# By the first word of a name.
_LICENCES = {
    "sample": licences.TATOEBA,
    "tatoeba": licences.TATOEBA,
    "multi30k": licences.MULTI30K,
    "newstest": licences.NEWSTEST,
    "ordered": licences.GENERATED,
}


def ignore_note(text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Corpus:
    """Which pairs: those of a name, or of files of your own."""

    # sample comes with the package; the others are looked for in REGARD_DATA, or fetched
    name: CorpusName = "sample"
    # .tsv or .jsonl, or the source side of two aligned text files
    pairs: Path | None = None
    # the other side, where there are two files
    target: Path | None = None
    # pairs held out to choose by, and to judge by, where the data has no such parts of its own
    development: int = 500
    test: int = 1000
    seed: int = 0
    # tokens of a sentence; pairs with a longer one are not learned from
    longest: int = 100
    # most words of a source made of joined pairs, to learn from and choose by; 0 joins none
    max_joined_words: int = 0

    def __post_init__(self) -> None:
        if self.name != "sample" and self.pairs is not None:
            raise ValueError(
                f"Corpus: expected a name or pairs, got both: {self.name} and {self.pairs.name}"
            )
        if self.target is not None and self.pairs is None:
            raise ValueError("Corpus: expected pairs beside target: the source side of the two")
        if min(self.development, self.test, self.longest) < 1:
            raise ValueError(
                f"Corpus: expected development, test and longest of at least 1, "
                f"got {self.development}, {self.test} and {self.longest}"
            )
        if self.max_joined_words < 0:
            raise ValueError(
                f"Corpus: expected max_joined_words of at least 0, got {self.max_joined_words}"
            )

    def load_split(
        self, note: Note = ignore_note, *, progress: Progress = ignore_progress
    ) -> Split:
        """The pairs in three parts: the data's own, or ours where it has none.

        Args:
            note: is told what the data is, and what was left out of a file.
            progress: is told how far a file is fetched.
        """
        parts = self._published_split(progress)
        if parts is None:
            found = self.read_pairs(progress)
            note(f"{self}: {found}")
            parts = self.split_pairs(found.pairs)
        else:
            note(str(self))
        if not self.max_joined_words:
            return parts
        join = partial(concatenation.join_pairs, max_tokens=self.max_joined_words, seed=self.seed)
        return Split(join(parts.train, repeats=JOIN_REPEATS), join(parts.development), parts.test)

    def load_test_sets(self, progress: Progress = ignore_progress) -> dict[str, list[Pair]]:
        """All that the data is judged by, by name: the test part alone, or Multi30k's three.

        Where pairs are joined, the test part, and longer ones joined from it by their length.
        """
        if self.name.startswith("multi30k") and not self.max_joined_words:
            return multi30k.load_test_sets(self._language, progress)
        test = self.load_split(progress=progress).test
        longer = (
            concatenation.length_buckets(test, BUCKET_EDGES_WORDS, seed=self.seed)
            if self.max_joined_words
            else {}
        )
        return {"test": test} | longer

    def read_pairs(self, progress: Progress = ignore_progress) -> LoadedPairs:
        """The pairs of data without parts of its own, and what was left out of the file."""
        if self.name.startswith("tatoeba"):
            return LoadedPairs(tatoeba.load_all(self._language, progress), {})
        if self.name != "sample":
            raise ValueError(f"Corpus: expected data to be parted, but {self.name} has its parts")
        return read_pairs(tatoeba.SAMPLE_PATH if self.pairs is None else self.pairs, self.target)

    def split_pairs(self, pairs: Sequence[Pair]) -> Split:
        """The pairs in three parts."""
        try:
            return split_pairs(pairs, development=self.development, test=self.test, seed=self.seed)
        except ValueError as error:
            raise ValueError(f"{error}; hold out fewer, by development and test") from None

    @property
    def licence(self) -> Licence:
        """The licence of the pairs; of files of your own it is unknown."""
        if self.pairs is not None:
            return licences.UNKNOWN
        return _LICENCES[self.name.partition("-")[0]]

    def __str__(self) -> str:
        # of a file only its name: where it lies is nobody's business
        files = [path.name for path in (self.pairs, self.target) if path is not None]
        said = " and ".join(files) or _DESCRIPTIONS[self.name]
        return (
            f"{said}; joined to at most {self.max_joined_words} words"
            if self.max_joined_words
            else said
        )

    def _published_split(self, progress: Progress) -> Split | None:
        """The parts that the data comes in, if it does."""
        if self.name.startswith("multi30k"):
            return multi30k.load_split(self._language, progress)
        if self.name.startswith("newstest"):
            return newstest.load_split(self._language, progress)
        if self.name == "ordered":
            return word_order.make_split(
                development=self.development, test=self.test, seed=self.seed
            )
        return None

    @property
    def _language(self) -> str:
        """The target's, of a name such as multi30k-en-de."""
        return self.name.rpartition("-")[2]


def split_fingerprint(split: Split) -> dict[str, Any]:
    """What must not change between two sittings of a training: counts, and a checksum of all."""
    sides = {"train": split.train, "development": split.development, "test": split.test}
    text = repr(sides).encode(errors="surrogatepass")
    counts = {name: len(side) for name, side in sides.items()}
    return {**counts, "sha256": hashlib.sha256(text).hexdigest()}


def load_or_train_vocabulary(pairs: Sequence[Pair], size: int, path: Path) -> Vocabulary:
    """One vocabulary for both languages: the one at `path`, or a new one that is put there."""
    if not path.exists():
        bpe.train_vocabulary((side for pair in pairs for side in pair), size).save(path)
    return bpe.load_vocabulary(path)


def encode_pairs(
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
        raise ValueError(
            f"encode_pairs: expected pairs of at most {longest} tokens a side, got none"
        )
    return kept
