"""Short English sentences in French and German, from tatoeba.org: all, and a sample in French.

The sample comes along; it is CC-BY 2.0, and its attribution lies in `samples/ATTRIBUTION.md`.
"""

import hashlib
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path

from regard.data.download import Progress, RemoteFile, find_or_download, ignore_progress
from regard.data.text.pairs import Pair, read_pairs
from regard.data.text.splits import sentence_key

SAMPLE_PATH = Path(__file__).parents[1] / "samples" / "tatoeba-en-fr.tsv"
ENGLISH_FRENCH = RemoteFile(
    name="Tatoeba English-French, as of 2019-04-07",
    url="https://www.manythings.org/anki/fra-eng.zip",
    sha256="161c93f18da3a7e6df611ed961426613260de8af06ccf8c79c977afe5135ac44",
    size=3_424_571,
    relative_path="tatoeba_manythings/fra-eng.2019-04-07.zip",
)
ENGLISH_GERMAN = RemoteFile(
    name="Tatoeba English-German, as of 2018-05-13",
    url="https://www.manythings.org/anki/deu-eng.zip",
    sha256="b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28",
    size=4_012_023,
    relative_path="tatoeba_manythings/deu-eng.2018-05-13.zip",
)
# The archive of each language, and the file in it.
_FILES = {"fr": (ENGLISH_FRENCH, "fra-eng/fra.txt"), "de": (ENGLISH_GERMAN, "deu.txt")}

# Pairs with these come first, so that the sample can say what colour an apple has.
_PREFERRED_WORDS = {"apple", "apples", "green", "red", "blue"}
_PREFERRED_WORDS |= {"pomme", "pommes", "vert", "verte", "verts", "vertes", "rouge", "rouges"}
_PREFERRED_WORDS |= {"bleu", "bleue", "bleus", "bleues"}
_WORDS = re.compile(r"\w+")


def load_sample() -> list[Pair]:
    """The 10,000 pairs that come with the package."""
    return read_pairs(SAMPLE_PATH).pairs


def load_all(language: str = "fr", progress: Progress = ignore_progress) -> list[Pair]:
    """All 167,130 pairs with French or 169,813 with German, as the archive has them."""
    if language not in _FILES:
        raise ValueError(f"tatoeba: expected one of {', '.join(_FILES)}, got {language!r}")
    source, inside = _FILES[language]
    with zipfile.ZipFile(find_or_download(source, progress=progress)) as files:
        lines = TextIOWrapper(files.open(inside), encoding="utf-8")
        return [_normalize_pair(line.rstrip("\n").split("\t")) for line in lines]


def select_sample(pairs: Iterable[Pair], *, size: int = 10_000, common: int = 800) -> list[Pair]:
    """How the sample was chosen: short, of common words, one translation a sentence.

    Args:
        common: how many of the most frequent English words may occur; of the French ones, which
            are inflected more, half as many again.
    """
    pairs = list(dict.fromkeys(pairs))
    known = [
        _PREFERRED_WORDS | _frequent_words((pair.source for pair in pairs), common),
        _PREFERRED_WORDS | _frequent_words((pair.target for pair in pairs), common * 3 // 2),
    ]
    short = [p for p in pairs if 3 <= len(p.source.split()) <= 8 and len(p.target.split()) <= 10]
    plain = [p for p in short if all(_words(side) <= of for side, of in zip(p, known, strict=True))]
    order = sorted(
        plain, key=lambda pair: (not _words(pair.source) & _PREFERRED_WORDS, _shuffle_key(pair))
    )
    first = {sentence_key(pair.source): pair for pair in reversed(order)}
    return sorted([pair for pair in order if first[sentence_key(pair.source)] == pair][:size])


def _normalize_pair(columns: list[str]) -> Pair:
    """One kind of apostrophe and of blank, where the writers used several."""
    sides = (unicodedata.normalize("NFC", side).replace("’", "'") for side in columns[:2])
    return Pair(*(" ".join(side.split()) for side in sides))


def _frequent_words(sentences: Iterable[str], size: int) -> set[str]:
    counts = Counter(word for sentence in sentences for word in _WORDS.findall(sentence.lower()))
    return {word for word, _ in sorted(counts.items(), key=lambda w: (-w[1], w[0]))[:size]}


def _words(sentence: str) -> set[str]:
    return set(_WORDS.findall(sentence.lower()))


def _shuffle_key(pair: Pair) -> bytes:
    return hashlib.blake2b("\t".join(pair).encode(), digest_size=16).digest()
