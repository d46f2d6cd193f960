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

from regard.data.cache import Progress, Source, find, silent
from regard.data.pairs import Pair, read
from regard.data.splits import folded

SAMPLE = Path(__file__).parent / "samples" / "tatoeba-en-fr.tsv"
ENGLISH_FRENCH = Source(
    name="Tatoeba English-French, as of 2019-04-07",
    address="https://www.manythings.org/anki/fra-eng.zip",
    sha256="161c93f18da3a7e6df611ed961426613260de8af06ccf8c79c977afe5135ac44",
    size=3_424_571,
    place="tatoeba_manythings/fra-eng.2019-04-07.zip",
)
ENGLISH_GERMAN = Source(
    name="Tatoeba English-German, as of 2018-05-13",
    address="https://www.manythings.org/anki/deu-eng.zip",
    sha256="b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28",
    size=4_012_023,
    place="tatoeba_manythings/deu-eng.2018-05-13.zip",
)
# The archive of each language, and the file in it.
_FILES = {"fr": (ENGLISH_FRENCH, "fra-eng/fra.txt"), "de": (ENGLISH_GERMAN, "deu.txt")}

# Pairs with these come first, so that the sample can say what colour an apple has.
_SHOWN = {"apple", "apples", "green", "red", "blue"}
_SHOWN |= {"pomme", "pommes", "vert", "verte", "verts", "vertes", "rouge", "rouges"}
_SHOWN |= {"bleu", "bleue", "bleus", "bleues"}
_WORDS = re.compile(r"\w+")


def sample() -> list[Pair]:
    """The 10,000 pairs that come with the package."""
    return read(SAMPLE).pairs


def everything(language: str = "fr", progress: Progress = silent) -> list[Pair]:
    """All 167,130 pairs with French or 169,813 with German, as the archive has them."""
    if language not in _FILES:
        raise ValueError(f"tatoeba: expected one of {', '.join(_FILES)}, got {language!r}")
    source, inside = _FILES[language]
    with zipfile.ZipFile(find(source, progress=progress)) as files:
        lines = TextIOWrapper(files.open(inside), encoding="utf-8")
        return [_written_alike(line.rstrip("\n").split("\t")) for line in lines]


def selected(pairs: Iterable[Pair], *, size: int = 10_000, common: int = 800) -> list[Pair]:
    """How the sample was chosen: short, of common words, one translation a sentence.

    Args:
        common: how many of the most frequent English words may occur; of the French ones, which
            are inflected more, half as many again.
    """
    pairs = list(dict.fromkeys(pairs))
    known = [
        _SHOWN | _frequent((pair.source for pair in pairs), common),
        _SHOWN | _frequent((pair.target for pair in pairs), common * 3 // 2),
    ]
    short = [p for p in pairs if 3 <= len(p.source.split()) <= 8 and len(p.target.split()) <= 10]
    plain = [p for p in short if all(_words(side) <= of for side, of in zip(p, known, strict=True))]
    order = sorted(plain, key=lambda pair: (not _words(pair.source) & _SHOWN, _lot(pair)))
    first = {folded(pair.source): pair for pair in reversed(order)}
    return sorted([pair for pair in order if first[folded(pair.source)] == pair][:size])


def _written_alike(columns: list[str]) -> Pair:
    """One kind of apostrophe and of blank, where the writers used several."""
    sides = (unicodedata.normalize("NFC", side).replace("’", "'") for side in columns[:2])
    return Pair(*(" ".join(side.split()) for side in sides))


def _frequent(sentences: Iterable[str], size: int) -> set[str]:
    counts = Counter(word for sentence in sentences for word in _WORDS.findall(sentence.lower()))
    return {word for word, _ in sorted(counts.items(), key=lambda w: (-w[1], w[0]))[:size]}


def _words(sentence: str) -> set[str]:
    return set(_WORDS.findall(sentence.lower()))


def _lot(pair: Pair) -> bytes:
    return hashlib.blake2b("\t".join(pair).encode(), digest_size=16).digest()
