"""WMT's news: parted by year, and a clear word where the file is not at hand."""

import gzip
import hashlib
from dataclasses import replace

import pytest

from regard.data.download import data_folders
from regard.data.text import newstest
from regard.data.text.pairs import Pair

places = [source.relative_path for source in newstest.REMOTE_FILES.values()]
at_hand = any(all((folder / place).is_file() for place in places) for folder in data_folders())
needs_all = pytest.mark.skipif(not at_hand, reason="needs WMT newstest, which is not at hand")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A file in the place of the German one."""
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    years = ["wmt08", "wmt12", "wmt13", "wmt15", "wmt15", "wmt16"]
    rows = [f"{year}\tnews {i} \tNeues {i}\n" for i, year in enumerate(years)]
    content, source = gzip.compress("".join(rows).encode()), newstest.REMOTE_FILES["de"]
    (tmp_path / "wmt_newstest").mkdir()
    (tmp_path / source.relative_path).write_bytes(content)
    known = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    monkeypatch.setitem(newstest.REMOTE_FILES, "de", replace(source, **known))


def test_the_last_year_is_the_test_and_2013_is_chosen_by(small):
    parts = newstest.load_split("de")
    assert parts.test == [Pair("news 5", "Neues 5")]
    assert parts.development == [Pair("news 2", "Neues 2")]
    assert [pair.source for pair in parts.train] == ["news 0", "news 1", "news 3", "news 4"]


def test_years_keep_their_pairs(small):
    years = newstest.load_years("de")
    assert {year: len(pairs) for year, pairs in years.items()} == {
        **{"wmt08": 1, "wmt12": 1, "wmt13": 1, "wmt15": 2, "wmt16": 1}
    }


def test_nothing_is_fetched_where_nothing_is_to_be_had(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = r"WMT gives each year apart, not as this file; .*\); put the file at .*newstest\.en-fr"
    with pytest.raises(ConnectionError, match=said):
        newstest.load_split("fr")


def test_another_language_is_refused():
    with pytest.raises(ValueError, match="newstest: expected one of de, fr, got 'cs'"):
        newstest.load_split("cs")


@needs_all
@pytest.mark.parametrize(
    ("language", "sizes"), [("de", [21_745, 3000, 2998]), ("fr", [13_573, 3000, 1500])]
)
def test_counts_are_those_of_wmt(language, sizes):
    parts = newstest.load_split(language)
    assert [len(parts.train), len(parts.development), len(parts.test)] == sizes
