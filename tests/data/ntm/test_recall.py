"""Recall: the answer is the item behind the one that was named, and there is only one such."""

import re

import numpy as np
import pytest

from regard.data.ntm.episodes import Episodes, format_vectors
from regard.data.ntm.recall import Recall

ITEMS = "101010 111000 110011 | 000111 010101 111111 | 000000 100000 110000"


def parts(drawn: Episodes, row: int, bits: int) -> tuple[list, list]:
    """What is between the flags of a row: its items, and what is asked about."""
    items, query, open_ = [], [], 0
    for step in drawn.inputs[row].tolist():
        if step[bits]:
            items.append([])
        open_ += step[bits + 1] == 1
        if not any(step[bits:]) and open_ < 2:
            (query if open_ else items[-1]).append(step[:bits])
    return items, query


def test_an_episode_by_hand():
    episode = Recall(bits=2, length=2).parse_episode("01 11 | 10 00 ? 01 11")
    item, query, silent = [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]
    first, second = [[0, 1, 0, 0], [1, 1, 0, 0]], [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert episode.inputs[0].tolist() == [
        *[item, *first, item, *second],
        *[query, *first, query],
        *[silent, silent],
    ]
    assert episode.targets[0].tolist() == [[0, 0]] * 10 + [[1, 0], [0, 0]]
    assert episode.target_mask[0].tolist() == [False] * 10 + [True, True]


def test_the_sizes_are_those_of_the_paper():
    task = Recall()
    assert (task.inputs, task.outputs, task.steps, task.slots) == (8, 6, 32, 18)


def test_every_answer_is_the_item_behind_the_one_asked_about():
    drawn = Recall(bits=3, length=2, max_items=7).draw(np.random.default_rng(0), 200)
    for row in range(200):
        items, query = parts(drawn, row, bits=3)
        answer = drawn.targets[row][drawn.target_mask[row]].tolist()
        assert items.count(query) == 1
        assert answer == items[items.index(query) + 1]
        first = int(drawn.target_mask[row].nonzero()[0])
        # the flags and vectors of the items, two flags and the vectors between them
        assert first == len(items) * 3 + 4


def test_no_two_items_of_an_episode_are_alike():
    # sixteen items are all there are of four bits
    drawn = Recall(bits=2, length=2, min_items=16, max_items=16).draw(np.random.default_rng(0), 50)
    for row in range(50):
        items, _ = parts(drawn, row, bits=2)
        assert len({str(item) for item in items}) == 16


def test_different_items_are_as_likely_as_any():
    drawn = Recall(bits=2, length=1, min_items=2, max_items=2).draw(
        np.random.default_rng(0), 12_000
    )
    pairs = drawn.inputs[:, 1, :2].long() @ drawn.inputs.new_tensor([1, 2]).long()
    pairs = 4 * pairs + drawn.inputs[:, 3, :2].long() @ drawn.inputs.new_tensor([1, 2]).long()
    found, counts = pairs.unique(return_counts=True)
    assert len(found) == 12
    # of 1,000 each, with a deviation of 30
    assert all(abs(count - 1000) < 120 for count in counts.tolist())


def test_numbers_of_items_and_queries_are_as_likely():
    drawn = Recall(max_items=4).draw(np.random.default_rng(0), 3000)
    several, places = [], []
    for row in range(3000):
        items, query = parts(drawn, row, bits=6)
        several.append(len(items))
        places += [items.index(query)] if len(items) == 4 else []
    assert np.bincount(several)[2:].tolist() == pytest.approx([1000] * 3, abs=100)
    assert np.bincount(places).tolist() == pytest.approx([len(places) / 3] * 3, abs=60)


def test_the_number_of_items_rises_with_the_share():
    drawn = Recall(min_items=2, max_items=6).draw(np.random.default_rng(0), 200, difficulty=0.5)
    assert {len(parts(drawn, row, bits=6)[0]) for row in range(200)} == {2, 3, 4}


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("101010 111000 110011", "000111 010101 111111"),
        ("000111010101111111", "000000 100000 110000"),
    ],
)
def test_what_is_typed_is_answered(query, answer):
    episode = Recall().parse_episode(f"{ITEMS} ? {query}")
    assert episode.inputs.shape == (1, 3 * 4 + 8, 8)
    assert format_vectors(episode.targets[episode.target_mask]) == answer


def test_more_items_than_are_drawn_can_be_typed():
    text = " | ".join(f"{n:06b} 000000 111111" for n in range(12))
    episode = Recall().parse_episode(f"{text} ? 001010 000000 111111")
    assert format_vectors(episode.targets[episode.target_mask]) == "001011 000000 111111"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ITEMS, "expected items with | between them and one of them again behind ?, got '101010 1"),
        ("0 ? 0 ? 0", "expected items with | between them and one of them again behind ?, got '0 "),
        ("0 | 1 ? 0 | 1", "expected items with | between them and one of them again behind ?, got"),
        ("101010 111000 110011 ? 101010 111000 110011", "expected at least 2 items, got '101010"),
        (f"{ITEMS} | 000000 ? 0", "expected items of 3 vectors, got 1 in '000000'"),
        (f"{ITEMS} | ? 0", "expected vectors of 6 bits, as in 011010 111100, got ' '"),
        (f"{ITEMS} ? 101010", "expected items of 3 vectors, got 1 in '101010'"),
        (
            f"{ITEMS} ? 111111 111111 111111",
            "expected one of the items behind ?, got '111111 111111 111111'",
        ),
        (
            f"{ITEMS} ? 000000 100000 110000",
            "expected an item that another follows, got '000000 100000 110000'",
        ),
        (
            f"{ITEMS} | 101010 111000 110011 ? 101010 111000 110011",
            "expected an item that comes once behind ?, got '101010 111000 110011'",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^recall: {re.escape(message)}"):
        Recall().parse_episode(text)


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 0},
        {"length": 0},
        {"length": 11},
        {"min_items": 1},
        {"min_items": 7},
        # of two bits there are four items
        {"bits": 2, "length": 1, "max_items": 5},
    ],
)
def test_items_that_cannot_be_drawn_are_refused(settings):
    message = "and 2 ≤ min_items ≤ max_items ≤ 2^(bits × length), got Recall(bits="
    with pytest.raises(ValueError, match=re.escape(message)):
        Recall(**settings)
