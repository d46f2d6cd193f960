"""Multi30k: the published files, in the parts they come in."""

import gzip
import hashlib
from dataclasses import replace

import pytest

from regard.data.download import data_folders
from regard.data.text import multi30k
from regard.data.text.pairs import Pair

places = [source.relative_path for source in multi30k.REMOTE_FILES.values()]
at_hand = any(all((folder / place).is_file() for place in places) for folder in data_folders())
needs_all = pytest.mark.skipif(not at_hand, reason="needs Multi30k, which is not at hand")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Files in the place of the real ones, of one line each that says which file it is."""
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    for name, source in multi30k.REMOTE_FILES.items():
        content = gzip.compress(f"{name}\n".encode())
        (tmp_path / source.relative_path).write_bytes(content)
        known = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        monkeypatch.setitem(multi30k.REMOTE_FILES, name, replace(source, **known))


@pytest.mark.parametrize("language", ["de", "fr", "cs"])
def test_parts_are_the_published_ones(small, language):
    parts = multi30k.load_split(language)
    assert parts.train == [Pair("train.en", f"train.{language}")]
    assert parts.development == [Pair("val.en", f"val.{language}")]
    assert parts.test == [Pair("test_2016_flickr.en", f"test_2016_flickr.{language}")]


def test_czech_has_one_test_and_the_others_three(small):
    assert list(multi30k.load_test_sets("cs")) == ["test_2016_flickr"]
    found = multi30k.load_test_sets("fr")
    assert list(found) == ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
    assert found["test_2017_mscoco"] == [Pair("test_2017_mscoco.en", "test_2017_mscoco.fr")]


def test_every_file_has_its_public_address():
    source = multi30k.REMOTE_FILES["val.cs"]
    assert source.url.endswith("multi30k/dataset/master/data/task1/raw/val.cs.gz")
    assert len(multi30k.REMOTE_FILES) == 18


@pytest.mark.parametrize(
    "ask", [multi30k.load_split, multi30k.load_test_sets], ids=["parts", "tests"]
)
def test_another_language_is_refused(small, ask):
    with pytest.raises(ValueError, match="multi30k: expected one of de, fr, cs, got 'it'"):
        ask("it")


@needs_all
@pytest.mark.parametrize("language", ["de", "fr", "cs"])
def test_counts_are_the_published_ones(language):
    parts = multi30k.load_split(language)
    sizes = [len(parts.train), len(parts.development), len(parts.test)]
    assert sizes == [29_000, 1014, 1000]
    further = {name: len(pairs) for name, pairs in multi30k.load_test_sets(language).items()}
    published = {"test_2016_flickr": 1000, "test_2017_flickr": 1000, "test_2017_mscoco": 461}
    assert further == (published if language != "cs" else {"test_2016_flickr": 1000})
