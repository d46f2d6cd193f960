"""Splits: no sentence on two sides, nothing lost, and the order of the lines is nothing."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.pairs import Pair
from regard.data.text.splits import sentence_key, split_pairs

PAIRS = [Pair(f"sentence {i // 2}", f"phrase {i}") for i in range(60)]
words = st.sampled_from(["Go", "go", "GO!", "Hi.", "hi", "Ho", "it's", "its", "One", "two"])
pairs = st.lists(st.builds(Pair, words, st.text(max_size=2)), min_size=4)


def test_a_fold_by_hand():
    assert sentence_key("  It's  HERE!\t") == sentence_key("its here") == "itshere"
    assert sentence_key("Straße") == sentence_key("STRASSE") == "strasse"
    assert sentence_key("e\u0301") == sentence_key("É") == "é"
    assert sentence_key("snake_case") == "snakecase"
    assert sentence_key("?!") == ""
    assert sentence_key("कि") != sentence_key("की"), "marks are letters"


@given(st.text())
def test_folding_again_changes_nothing(text):
    assert sentence_key(sentence_key(text)) == sentence_key(text)


def test_as_many_pairs_as_asked_with_all_that_share_a_sentence():
    parts = split_pairs(PAIRS, development=10, test=14, seed=0)
    assert [len(part) for part in (parts.train, parts.development, parts.test)] == [36, 10, 14]
    assert len({pair.source for pair in parts.test}) == 7


def test_groups_that_do_not_fit_exactly_leave_a_part_a_little_short():
    threes = [Pair(f"sentence {i // 3}", f"phrase {i}") for i in range(300)]
    parts = split_pairs(threes, development=10, test=20, seed=0)
    assert [len(part) for part in (parts.train, parts.development, parts.test)] == [273, 9, 18]


def test_pairs_that_share_a_target_stay_together_through_others():
    chained = [Pair("a", "x"), Pair("b", "X!"), Pair("b.", "y"), Pair("c", "y"), Pair("d", "z")]
    assert split_pairs(chained, development=0, test=1, seed=0).test == [Pair("d", "z")]


@given(pairs, st.integers())
def test_no_sentence_is_on_two_sides_and_none_is_lost(pairs, seed):
    alone = [Pair("alone", "seul"), Pair("by itself", "tout seul"), Pair("left", "reste")]
    parts = split_pairs([*pairs, *alone], development=1, test=1, seed=seed)
    sides = [parts.train, parts.development, parts.test]
    assert sorted(chain.from_iterable(sides)) == sorted([*pairs, *alone])
    for column in range(2):
        seen = [{sentence_key(pair[column]) for pair in side} for side in sides]
        assert sum(map(len, seen)) == len(set.union(*seen))


@given(st.permutations(PAIRS))
def test_the_order_of_the_lines_is_nothing(mixed):
    settings = {"development": 4, "test": 6, "seed": 1}
    assert split_pairs(mixed, **settings) == split_pairs(PAIRS, **settings)


def test_another_seed_is_another_split():
    first, second = (split_pairs(PAIRS, development=6, test=6, seed=seed).test for seed in (0, 1))
    assert first != second


def test_a_new_sentence_moves_few_others():
    before = split_pairs(PAIRS, development=6, test=6, seed=0)
    after = split_pairs([*PAIRS, Pair("one more", "encore")], development=6, test=6, seed=0)
    assert len(set(before.test) - set(after.test)) <= 2


def test_the_test_does_not_depend_on_the_development_set():
    test = split_pairs(PAIRS, development=6, test=6, seed=0).test
    assert split_pairs(PAIRS, development=0, test=6, seed=0).test == test


def test_too_few_pairs_are_refused():
    said = r"hold out 40 \+ 20 and train on the rest, got 60 in 30 groups"
    with pytest.raises(ValueError, match=said):
        split_pairs(PAIRS, development=40, test=20, seed=0)
    with pytest.raises(ValueError, match="of at least 0, got -1 and 2"):
        split_pairs(PAIRS, development=-1, test=2, seed=0)
