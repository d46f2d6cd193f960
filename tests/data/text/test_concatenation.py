"""Joined pairs: each used once, none too long, both sides in step; buckets by length."""

from collections import Counter

import pytest

from regard.data.text.concatenation import count_words, join_pairs, length_buckets
from regard.data.text.pairs import Pair

# The i-th source has i % 7 + 1 words, all of them telling i; so has the target.
PAIRS = [
    Pair(" ".join([f"s{i}"] * (i % 7 + 1)), " ".join([f"t{i}"] * (i % 7 + 1))) for i in range(200)
]


def test_words_by_hand():
    assert count_words(" a man,  a bicycle. ") == 4


def test_every_pair_is_used_once():
    found = join_pairs(PAIRS, max_tokens=30, seed=0)
    words = Counter(word for pair in found for word in pair.source.split())
    assert words == Counter(word for pair in PAIRS for word in pair.source.split())


def test_every_pair_may_be_used_more_often_in_other_company():
    once, thrice = (
        join_pairs(PAIRS, max_tokens=30, seed=0),
        join_pairs(PAIRS, max_tokens=30, seed=0, repeats=3),
    )
    words = Counter(word for pair in thrice for word in pair.source.split())
    assert words == Counter({w: 3 * len(p.source.split()) for p in PAIRS for w in p.source.split()})
    assert thrice[: len(once)] == once
    assert not {p for p in once if " s" in p.source} >= set(thrice[len(once) :])


def test_one_to_five_are_joined_and_no_source_is_too_long():
    found = join_pairs(PAIRS, max_tokens=30, seed=0)
    sizes = {len(set(pair.source.split())) for pair in found}
    assert sizes == {1, 2, 3, 4, 5}
    assert max(count_words(pair.source) for pair in found) <= 30


def test_sides_stay_in_step():
    for pair in [
        *join_pairs(PAIRS, max_tokens=30, seed=0),
        *length_buckets(PAIRS, [35], seed=0)["1-35"],
    ]:
        assert pair.target == pair.source.replace("s", "t")


def test_a_pair_that_is_too_long_by_itself_is_left_out():
    found = join_pairs(PAIRS, max_tokens=3, seed=0)
    assert max(count_words(pair.source) for pair in found) == 3
    assert sum(count_words(pair.source) for pair in found) == 29 * (1 + 2 + 3)


def test_the_seed_alone_decides():
    assert join_pairs(PAIRS, max_tokens=20, seed=1) == join_pairs(PAIRS, max_tokens=20, seed=1)
    assert join_pairs(PAIRS, max_tokens=20, seed=1) != join_pairs(PAIRS, max_tokens=20, seed=2)
    assert length_buckets(PAIRS, [9], seed=1) == length_buckets(PAIRS, [9], seed=1)


def test_tokens_may_be_counted_otherwise():
    found = join_pairs(PAIRS, max_tokens=12, seed=0, count_tokens=len)
    assert max(len(pair.source) for pair in found) <= 12


def test_nothing_short_enough_is_told():
    with pytest.raises(
        ValueError, match="join_pairs: expected sources of at most 0 tokens, got none"
    ):
        join_pairs(PAIRS, max_tokens=0, seed=0)


def test_buckets_by_hand():
    # of five pairs of two words: five alone, two of two, and one each of three, four and five
    pairs = [Pair(f"a {i}", f"b {i}") for i in range(5)]
    found = length_buckets(pairs, (2, 5, 9, 20), seed=0)
    assert {name: len(inside) for name, inside in found.items()} == {
        "1-2": 5,
        "3-5": 2,
        "6-9": 2,
    } | {"10-20": 1}


def test_what_no_bucket_holds_is_left_out():
    pairs = [Pair(f"a {i}", f"b {i}") for i in range(5)]
    assert {name: len(each) for name, each in length_buckets(pairs, (1, 3), seed=0).items()} == {
        "2-3": 5
    }


@pytest.mark.parametrize("edges", [(), (10, 10), (0, 5)], ids=["none", "flat", "zero"])
def test_edges_that_do_not_grow_are_refused(edges):
    with pytest.raises(
        ValueError, match=r"length_buckets: expected edges that grow from 1 on, got \("
    ):
        length_buckets(PAIRS, edges, seed=0)
