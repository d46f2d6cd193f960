"""News in English, German and French: the yearly tests of WMT, to learn from and to judge by."""

import gzip
from contextlib import AbstractContextManager

from regard.data.cache import Answer, Progress, Source, find, silent
from regard.data.pairs import Pair
from regard.data.splits import Split

# What is chosen by; what is judged by is the last year, and all others are learned from.
DEVELOPMENT = "wmt13"
SOURCES = {
    "de": Source(
        name="WMT newstest English-German, 2008-13 and 2015-18",
        address="https://www.statmt.org/wmt18/translation-task.html",
        sha256="25c0033b1c5a8bf0f26c8fb0c6692be1596293512fc62360ade30bf9e1abe8a6",
        size=2_890_084,
        place="wmt_newstest/newstest.en-de.tsv.gz",
    ),
    "fr": Source(
        name="WMT newstest English-French, 2008-13 and 2015",
        address="https://www.statmt.org/wmt15/translation-task.html",
        sha256="8af4b1a1b3d26752299f328b347a11363a30d0a9ac6998e198d4383a50f2c261",
        size=1_863_123,
        place="wmt_newstest/newstest.en-fr.tsv.gz",
    ),
}


def parts(language: str, progress: Progress = silent) -> Split:
    """English into `language`: test on the last year, choose by 2013, learn from the others.

    That is 2018 for German (of 2008-13 and 2015-18), and 2015 for French (of 2008-13 and 2015).
    """
    years = read(language, progress)
    test = years.pop(max(years))
    development = years.pop(DEVELOPMENT)
    return Split([pair for year in years.values() for pair in year], development, test)


def read(language: str, progress: Progress = silent) -> dict[str, list[Pair]]:
    """The pairs of each year, by its name, such as `wmt08`."""
    if language not in SOURCES:
        raise ValueError(f"newstest: expected one of {', '.join(SOURCES)}, got {language!r}")
    path = find(SOURCES[language], progress=progress, opener=_by_year_only)
    years: dict[str, list[Pair]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            year, source, target = line.rstrip("\n").split("\t")
            years.setdefault(year, []).append(Pair(source.strip(), target.strip()))
    return years


def _by_year_only(address: str) -> AbstractContextManager[Answer]:
    """Fetch nothing: no address answers with this file."""
    raise OSError("WMT gives each year apart, not as this file; files of your own go by data.pairs")
