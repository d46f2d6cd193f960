"""News in English, German and French: the yearly tests of WMT, to learn from and to judge by."""

import gzip
from contextlib import AbstractContextManager

from regard.data.download import (
    Progress,
    RemoteFile,
    Response,
    find_or_download,
    ignore_progress,
)
from regard.data.text.pairs import Pair
from regard.data.text.splits import Split

# What is chosen by; what is judged by is the last year, and all others are learned from.
DEVELOPMENT_YEAR = "wmt13"
REMOTE_FILES = {
    "de": RemoteFile(
        name="WMT newstest English-German, 2008-13 and 2015-18",
        url="https://www.statmt.org/wmt18/translation-task.html",
        sha256="25c0033b1c5a8bf0f26c8fb0c6692be1596293512fc62360ade30bf9e1abe8a6",
        size=2_890_084,
        relative_path="wmt_newstest/newstest.en-de.tsv.gz",
    ),
    "fr": RemoteFile(
        name="WMT newstest English-French, 2008-13 and 2015",
        url="https://www.statmt.org/wmt15/translation-task.html",
        sha256="8af4b1a1b3d26752299f328b347a11363a30d0a9ac6998e198d4383a50f2c261",
        size=1_863_123,
        relative_path="wmt_newstest/newstest.en-fr.tsv.gz",
    ),
}


def load_split(language: str, progress: Progress = ignore_progress) -> Split:
    """English into `language`: test on the last year, choose by 2013, learn from the others.

    That is 2018 for German (of 2008-13 and 2015-18), and 2015 for French (of 2008-13 and 2015).
    """
    years = load_years(language, progress)
    test = years.pop(max(years))
    development = years.pop(DEVELOPMENT_YEAR)
    return Split([pair for year in years.values() for pair in year], development, test)


def load_years(language: str, progress: Progress = ignore_progress) -> dict[str, list[Pair]]:
    """The pairs of each year, by its name, such as `wmt08`."""
    if language not in REMOTE_FILES:
        raise ValueError(f"newstest: expected one of {', '.join(REMOTE_FILES)}, got {language!r}")
    path = find_or_download(REMOTE_FILES[language], progress=progress, opener=_raise_no_download)
    years: dict[str, list[Pair]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            year, source, target = line.rstrip("\n").split("\t")
            years.setdefault(year, []).append(Pair(source.strip(), target.strip()))
    return years


def _raise_no_download(url: str) -> AbstractContextManager[Response]:
    """Fetch nothing: no address answers with this file."""
    raise OSError("WMT gives each year apart, not as this file; files of your own go by data.pairs")
