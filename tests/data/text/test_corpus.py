"""A corpus: by name or of files, parted; facts that show any change; ids that are short enough."""

import typing
from pathlib import Path

import pytest

from regard.config import from_json, to_json
from regard.data.text import (
    bpe,
    corpus,
    multi30k,
    newstest,
    tatoeba,
)
from regard.data.text.corpus import JOIN_REPEATS, Corpus, CorpusName
from regard.data.text.pairs import Pair
from regard.data.text.splits import Split

PAIRS = [Pair(f"source {i}", f"target {i}") for i in range(10)]
NAMES = typing.get_args(CorpusName)


def test_the_sample_is_the_default_and_says_where_it_is_from():
    found = Corpus().read_pairs()
    parts = Corpus().split_pairs(found.pairs)
    sizes = [len(parts.train), len(parts.development), len(parts.test)]
    assert sizes == [8500, 500, 1000]
    assert "tatoeba.org, CC-BY 2.0" in str(Corpus())


def test_a_file_is_named_without_its_folder(tmp_path):
    one, other = tmp_path / "a.en", tmp_path / "a.fr"
    one.write_text("x\ny\n")
    other.write_text("u\nv\n")
    given = Corpus(pairs=one, target=other)
    assert given.read_pairs().pairs == [Pair("x", "u"), Pair("y", "v")]
    assert str(given) == "a.en and a.fr"


def test_parts_are_what_reading_and_parting_gives(tmp_path):
    file = tmp_path / "mine.tsv"
    file.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS) + "no tab\n")
    mine, told = Corpus(pairs=file, development=2, test=3), []
    assert mine.load_split(told.append) == mine.split_pairs(mine.read_pairs().pairs)
    assert told == ["mine.tsv: 10 pairs; skipped no tab (1, first on line 11)"]
    assert mine.load_test_sets() == {"test": mine.load_split().test}


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("multi30k", "newstest"))])
def test_data_that_comes_in_parts_keeps_them(name, monkeypatch):
    asked, told = [], []
    own = Split(PAIRS[:2], PAIRS[2:3], PAIRS[3:4])

    def load_split(language, progress):
        asked.append(language)
        return own

    monkeypatch.setattr({"m": multi30k, "n": newstest}[name[0]], "load_split", load_split)
    assert Corpus(name=name).load_split(told.append) == own
    assert (asked, told) == ([name[-2:]], [str(Corpus(name=name))])


def test_multi30k_is_judged_by_its_own_tests(monkeypatch):
    further = {"test_2016_flickr": PAIRS[:1], "test_2017_flickr": PAIRS[1:]}
    monkeypatch.setattr(
        multi30k, "load_test_sets", lambda language, progress: {"fr": further}[language]
    )
    assert Corpus(name="multi30k-en-fr").load_test_sets() == further


@pytest.mark.parametrize("name", ["tatoeba-en-fr", "tatoeba-en-de"])
def test_all_of_tatoeba_is_parted_by_sentence(name, monkeypatch):
    monkeypatch.setattr(
        tatoeba, "load_all", lambda language, progress: {name[-2:]: PAIRS}[language]
    )
    given = Corpus(name=name, development=2, test=3)
    assert given.load_split() == given.split_pairs(PAIRS)


def test_made_up_sentences_are_data_too():
    parts = Corpus(name="ordered", development=20, test=30).load_split()
    assert [len(parts.train), len(parts.development), len(parts.test)] == [20_000, 20, 30]
    assert parts.test == Corpus(name="ordered", development=20, test=30).load_test_sets()["test"]


def test_joined_pairs_are_learned_from_and_chosen_by_but_not_judged_by():
    alone, long = Corpus().load_split(), Corpus(max_joined_words=30).load_split()
    assert long.test == alone.test
    for before, after, times in [
        (alone.train, long.train, JOIN_REPEATS),
        (alone.development, long.development, 1),
    ]:
        words = [len(pair.source.split()) for pair in after]
        assert max(words) <= 30
        assert sum(words) == times * sum(len(pair.source.split()) for pair in before)
        assert len(after) < times * len(before) / 2


@pytest.mark.parametrize("name", NAMES)
def test_every_name_says_what_it_is(name):
    assert len(str(Corpus(name=name))) > 30
    assert (
        str(Corpus(name=name, max_joined_words=30))
        == f"{Corpus(name=name)}; joined to at most 30 words"
    )


def test_a_card_from_before_there_were_names_still_holds():
    old = {"pairs": None, "target": None, "development": 500, "test": 1000, "seed": 0}
    assert from_json(Corpus, {**old, "longest": 100}) == Corpus()
    named = Corpus(name="multi30k-en-cs", max_joined_words=30)
    assert from_json(Corpus, to_json(named)) == named


def test_data_with_parts_is_not_read_to_be_parted():
    with pytest.raises(ValueError, match="expected data to be parted, but newstest-en-de has its"):
        Corpus(name="newstest-en-de").read_pairs()


def test_facts_change_with_any_pair():
    small = Corpus(development=1, test=1)
    before, same = (corpus.split_fingerprint(small.split_pairs(PAIRS)) for _ in range(2))
    after = corpus.split_fingerprint(
        small.split_pairs([*PAIRS[:-1], Pair("source 9", "target 9!")])
    )
    assert before == same
    assert before["sha256"] != after["sha256"]
    assert (before["train"], before["test"]) == (8, 1)


def test_a_vocabulary_is_learned_once(tmp_path):
    path = tmp_path / "tokenizer.json"
    first = corpus.load_or_train_vocabulary(PAIRS, 300, path)
    again = corpus.load_or_train_vocabulary([Pair("other", "words")], 400, path)
    assert again.size == first.size


def test_examples_leave_out_what_is_too_long():
    words = bpe.train_vocabulary(["ab"], 259)
    pairs = [Pair("ab", "abcd"), Pair("a", "b")]
    assert len(corpus.encode_pairs(pairs, words)) == 2
    assert [len(source) for source, _ in corpus.encode_pairs(pairs, words, longest=3)] == [1]


def test_nothing_short_enough_is_told():
    words = bpe.train_vocabulary(["ab"], 259)
    with pytest.raises(ValueError, match="encode_pairs: expected pairs of at most 1 tokens a side"):
        corpus.encode_pairs([Pair("ab", "abcd")], words, longest=1)


def test_too_few_pairs_say_what_to_do():
    with pytest.raises(ValueError, match=r"10 groups .*; hold out fewer, by development"):
        Corpus().split_pairs(PAIRS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"test": 0}, "Corpus: expected development, test and longest of at least 1, got 500, 0"),
        ({"target": Path("x.fr")}, "Corpus: expected pairs beside target"),
        ({"max_joined_words": -1}, "Corpus: expected max_joined_words of at least 0, got -1"),
        (
            {"name": "ordered", "pairs": Path("a/x.tsv")},
            "Corpus: expected a name or pairs, got both: ordered and x.tsv",
        ),
    ],
    ids=["test", "target", "joined", "name"],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Corpus(**fields)


def test_where_pairs_are_joined_longer_ones_are_judged_apart():
    joined = Corpus(max_joined_words=12)
    tests = joined.load_test_sets()
    assert tests["test"] == Corpus().load_split().test
    assert max(len(p.source.split()) for p in joined.load_split().train) <= 12
    for name in set(tests) - {"test"}:
        low, high = map(int, name.split("-"))
        assert all(low <= len(pair.source.split()) <= high for pair in tests[name])
    assert {"1-10", "21-30"} <= tests.keys()
