"""Made-up sentences: the order is the one that was asked for, and the dictionary is one to one."""

import pytest

from regard.data.text import bpe, word_order
from regard.data.text.pairs import Pair
from regard.data.text.word_order import alignment, alignment_error

ORDERS = ["same", "reversed", "swapped", "rotated", "sorted"]


@pytest.mark.parametrize(
    ("order", "by_hand"),
    [
        ("same", (0, 1, 2, 3, 4)),
        ("reversed", (4, 3, 2, 1, 0)),
        ("swapped", (1, 0, 3, 2, 4)),
        ("rotated", (1, 2, 3, 4, 0)),
    ],
)
def test_orders_by_hand(order, by_hand):
    found = word_order.make_aligned_pairs(3, shortest=5, longest=5, order=order, seed=0)
    assert {each.order for each in found} == {by_hand}


def test_sorted_words_come_in_the_order_of_the_dictionary():
    found = word_order.make_aligned_pairs(50, words=9, order="sorted", longest=9, seed=0)
    whole = next(each.pair.target.split() for each in found if len(each.order) == 9)
    for each in found:
        places = [whole.index(word) for word in each.pair.target.split()]
        assert places == sorted(places)
    assert len({each.order for each in found}) > 40


@pytest.mark.parametrize("order", ORDERS)
def test_a_word_has_one_translation_and_the_dictionary_finds_it(order):
    known = {}
    for pair, places in word_order.make_aligned_pairs(200, order=order, seed=0):
        source, target = pair.source.split(), pair.target.split()
        assert sorted(places) == list(range(len(source)))
        assert alignment(pair) == places
        for word, place in zip(target, places, strict=True):
            assert known.setdefault(source[place], word) == word
    assert len(set(known.values())) == len(known) == 200
    assert not known.keys() & set(known.values())


def test_no_two_sentences_are_alike_and_no_word_comes_twice_in_one():
    found = [each.pair.source for each in word_order.make_aligned_pairs(2000, seed=0)]
    assert len(set(found)) == 2000
    assert {len(source.split()) for source in found} == set(range(5, 16))
    assert all(len(set(source.split())) == len(source.split()) for source in found)


def test_the_seed_alone_decides():
    assert (
        word_order.make_aligned_pairs(5, seed=1)
        == word_order.make_aligned_pairs(5, seed=1)
        != word_order.make_aligned_pairs(5, seed=2)
    )


def test_parts_share_no_sentence():
    parts = word_order.make_split(train=50, development=20, test=30, seed=0)
    sides = [{pair.source for pair in side} for side in (parts.train, parts.development)]
    sides.append({pair.source for pair in parts.test})
    assert [len(side) for side in sides] == [50, 20, 30]
    assert len(set.union(*sides)) == 100


def test_words_are_single_tokens_of_a_small_vocabulary():
    pairs = [each.pair for each in word_order.make_aligned_pairs(3000, seed=0)]
    vocabulary = bpe.train_vocabulary((side for pair in pairs for side in pair), 2000)
    for side in (side for pair in pairs[:200] for side in pair):
        assert len(vocabulary.encode(side)) == len(side.split())


def test_alignment_error_by_hand():
    # of three links on either side, two are the same: 1 − (2 + 2) / 6
    assert alignment_error([[0, 1], [0]], [[0, 1], [1]]) == pytest.approx(1 / 3)
    assert alignment_error([[2, 1, 0]], [[2, 1, 0]]) == 0
    # one right link of three found, where one is sure: 1 − (1 + 1) / 4
    assert alignment_error([[0, 0, 0]], [[0]]) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"shortest": 0},
            "make_aligned_pairs: expected 1 ≤ shortest ≤ longest ≤ words ≤ 4900, got 0, 15",
        ),
        ({"longest": 4}, "≤ 4900, got 5, 4 and 200"),
        ({"words": 14}, "≤ 4900, got 5, 15 and 14"),
        ({"words": 4901}, "≤ 4900, got 5, 15 and 4901"),
        # of 3 words, 6 sentences
        (
            {"words": 3, "shortest": 3, "longest": 3},
            "expected 1 to 3 sentences of these words, got",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        word_order.make_aligned_pairs(4, **settings, seed=0)


def test_words_of_no_dictionary_are_refused():
    with pytest.raises(ValueError, match="alignment: expected translations of 'a b', got 'c'"):
        alignment(Pair("a b", "c"))


def test_no_links_are_refused():
    with pytest.raises(ValueError, match="alignment_error: expected links on both sides, got 0"):
        alignment_error([[]], [[1]])
