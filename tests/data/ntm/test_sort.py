"""Sorting: the vectors of the highest priorities come back, the highest first."""

import re

import numpy as np
import pytest

from regard.data.ntm.episodes import format_vectors
from regard.data.ntm.sort import Sort


def test_an_episode_by_hand():
    episode = Sort(bits=2, vectors=3, top_k=2).parse_episode("01:-0.25 11:1 10:0.5")
    assert episode.inputs.tolist() == [
        [
            *[[0, 1, -0.25, 0], [1, 1, 1, 0], [1, 0, 0.5, 0]],
            *[[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
        ]
    ]
    assert episode.targets.tolist() == [[[0, 0], [0, 0], [0, 0], [0, 0], [1, 1], [1, 0]]]
    assert episode.target_mask.tolist() == [[False, False, False, False, True, True]]


def test_the_sizes_are_those_of_the_paper():
    task = Sort()
    assert (task.inputs, task.outputs, task.steps, task.slots) == (10, 8, 37, 20)


def test_every_answer_is_in_the_order_of_the_priorities():
    drawn = Sort(bits=6, vectors=9, top_k=5).draw(np.random.default_rng(0), 100)
    for inputs, targets, asked in zip(drawn.inputs, drawn.targets, drawn.target_mask, strict=True):
        shown = sorted(inputs.tolist()[:9], key=lambda step: step[6], reverse=True)
        assert targets[asked].tolist() == [step[:6] for step in shown[:5]]
        assert asked.tolist() == [False] * 10 + [True] * 5
        assert inputs[9].tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
        assert not inputs[10:].any()


def test_priorities_are_spread_evenly_from_minus_one_to_one():
    drawn = Sort().draw(np.random.default_rng(0), 1000)
    priorities = drawn.inputs[:, :20, 8].flatten().numpy()
    counts, _ = np.histogram(priorities, bins=4, range=(-1, 1))
    # of 5,000 each, with a deviation of 61
    assert counts.tolist() == pytest.approx([5000] * 4, abs=250)


def test_of_equal_priorities_the_earlier_comes_first():
    episode = Sort(bits=2).parse_episode("01:0.5, 11:0.7, 10:0.5, 00:0.5")
    assert format_vectors(episode.targets[episode.target_mask]) == "11 01 10 00"


def test_no_more_than_are_kept_are_asked_for():
    text = " ".join(f"{n:08b}:{n / 40:.3f}" for n in range(30))
    episode = Sort().parse_episode(text)
    assert episode.inputs.shape == (1, 47, 10)
    assert format_vectors(episode.targets[episode.target_mask]) == " ".join(
        f"{n:08b}" for n in range(29, 13, -1)
    )


@pytest.mark.parametrize(
    "text",
    [
        *["", "01101001", "01101001:", "01101001:high", "01101001:1.5", "01101001:nan"],
        *["0110:0.5", ":0.5", "0110100101101001:0.5", "01101001:0.5:0.5"],
    ],
)
def test_what_has_no_vector_or_no_priority_is_refused(text):
    message = "8 bits, each with a priority from -1 to 1, as in 01101001:0.5 11110000:-0.2, got"
    with pytest.raises(
        ValueError, match=re.escape(f"sort: expected vectors of {message} '{text}'")
    ):
        Sort().parse_episode(text)


def test_the_pair_that_is_wrong_is_named():
    with pytest.raises(ValueError, match=r"got '110:0\.5'$"):
        Sort(bits=2).parse_episode("01:0.5 110:0.5 11:2")


@pytest.mark.parametrize("settings", [{"bits": 0}, {"top_k": 0}, {"top_k": 21}, {"vectors": 15}])
def test_what_cannot_be_sorted_is_refused(settings):
    with pytest.raises(ValueError, match=r"1 ≤ bits and 1 ≤ top_k ≤ vectors, got Sort\(bits="):
        Sort(**settings)
