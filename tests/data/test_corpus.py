"""A corpus: the sample or a file, parted; facts that show any change; ids that are short enough."""

import pytest

from regard.data import bpe, corpus
from regard.data.corpus import Corpus
from regard.data.pairs import Pair

PAIRS = [Pair(f"source {i}", f"target {i}") for i in range(10)]


def test_the_sample_is_the_default_and_says_where_it_is_from():
    found = Corpus().read()
    parts = Corpus().parted(found.pairs)
    sizes = [len(parts.train), len(parts.development), len(parts.test)]
    assert sizes == [8500, 500, 1000]
    assert "tatoeba.org, CC-BY 2.0" in str(Corpus())


def test_a_file_is_named_without_its_folder(tmp_path):
    one, other = tmp_path / "a.en", tmp_path / "a.fr"
    one.write_text("x\ny\n")
    other.write_text("u\nv\n")
    given = Corpus(pairs=one, target=other)
    assert given.read().pairs == [Pair("x", "u"), Pair("y", "v")]
    assert str(given) == "a.en and a.fr"


def test_facts_change_with_any_pair():
    small = Corpus(development=1, test=1)
    before, same = (corpus.facts(small.parted(PAIRS)) for _ in range(2))
    after = corpus.facts(small.parted([*PAIRS[:-1], Pair("source 9", "target 9!")]))
    assert before == same
    assert before["sha256"] != after["sha256"]
    assert (before["train"], before["test"]) == (8, 1)


def test_a_vocabulary_is_learned_once(tmp_path):
    path = tmp_path / "tokenizer.json"
    first = corpus.vocabulary(PAIRS, 300, path)
    again = corpus.vocabulary([Pair("other", "words")], 400, path)
    assert again.size == first.size


def test_examples_leave_out_what_is_too_long():
    words = bpe.learned(["ab"], 259)
    pairs = [Pair("ab", "abcd"), Pair("a", "b")]
    assert len(corpus.examples(pairs, words)) == 2
    assert [len(source) for source, _ in corpus.examples(pairs, words, longest=3)] == [1]


def test_nothing_short_enough_is_told():
    words = bpe.learned(["ab"], 259)
    with pytest.raises(ValueError, match="examples: expected pairs of at most 1 tokens a side"):
        corpus.examples([Pair("ab", "abcd")], words, longest=1)


def test_too_few_pairs_say_what_to_do():
    with pytest.raises(ValueError, match=r"10 groups .*; hold out fewer, by development"):
        Corpus().parted(PAIRS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"test": 0}, "Corpus: expected development, test and longest of at least 1, got 500, 0"),
        ({"target": "x.fr"}, "Corpus: expected pairs beside target"),
    ],
    ids=["test", "target"],
)
def test_contradictions_are_refused(fields, message, tmp_path):
    if "target" in fields:
        fields = {"target": tmp_path / fields["target"]}
    with pytest.raises(ValueError, match=message):
        Corpus(**fields)
