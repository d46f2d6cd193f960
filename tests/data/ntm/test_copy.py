"""Copies: what is asked is what was told, so many times, and nothing else."""

import re

import numpy as np
import pytest
import torch

from regard.data.ntm.copy import Copy, RepeatCopy
from regard.data.ntm.episodes import format_vectors


def test_a_copy_by_hand():
    episode = Copy(bits=2).parse_episode("01 11")
    assert episode.inputs.tolist() == [
        [[0, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    ]
    assert episode.targets.tolist() == [[[0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [1, 1]]]
    assert episode.target_mask.tolist() == [[False, False, False, False, True, True]]


def test_a_repeated_copy_by_hand():
    # a count of 2 is told as (2 − 5) / 2
    episode = RepeatCopy(bits=2, mean=5.0, deviation=2.0).parse_episode("10 x 2")
    assert episode.inputs.tolist() == [
        [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, -1.5], *([[0] * 5] * 3)]
    ]
    assert episode.targets.tolist() == [
        [[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]]
    ]
    assert episode.target_mask.tolist() == [[False, False, False, True, True, True]]


def test_the_sizes_are_those_of_the_paper():
    assert (Copy().inputs, Copy().outputs, Copy().steps, Copy().slots) == (10, 8, 42, 20)
    repeat = RepeatCopy()
    assert (repeat.inputs, repeat.outputs, repeat.steps, repeat.slots) == (11, 9, 113, 10)


def test_every_copy_says_what_was_told():
    drawn = Copy(bits=3, shortest=2, longest=5).draw(np.random.default_rng(0), 100)
    for inputs, targets, asked in zip(drawn.inputs, drawn.targets, drawn.target_mask, strict=True):
        steps = inputs.tolist()
        end = steps.index([0, 0, 0, 0, 1])
        told = [step[:3] for step in steps[1:end]]
        assert steps[0] == [0, 0, 0, 1, 0]
        assert targets[asked].tolist() == told
        assert asked.nonzero()[:, 0].tolist() == [*range(end + 1, end + 1 + len(told))]
        assert not inputs[end + 1 :].any()


def test_every_repeated_copy_says_what_was_told_so_many_times_and_then_that_it_is_done():
    drawn = RepeatCopy(bits=3, longest=4, max_repeats=6).draw(np.random.default_rng(0), 100)
    for inputs, targets, asked in zip(drawn.inputs, drawn.targets, drawn.target_mask, strict=True):
        (end,) = inputs[:, 4].nonzero()[:, 0].tolist()
        times = round(float(inputs[end, 5]) * 8.25**0.5 + 5.5)
        told = [[*step[:3], 0] for step in inputs.tolist()[1:end]]
        assert inputs[:, 3].tolist() == [1] + [0] * (len(inputs) - 1)
        assert targets[asked].tolist() == told * times + [[0, 0, 0, 1]]
        assert asked.nonzero()[:, 0].tolist() == [*range(end + 1, end + 2 + len(told) * times)]
        assert not inputs[end + 1 :].any()


def test_counts_have_mean_zero_and_variance_one_in_training():
    drawn = RepeatCopy(bits=1, longest=1).draw(np.random.default_rng(0), 20_000)
    told = drawn.inputs[:, 2, 3]
    assert len(told.unique()) == 10
    assert float(told.mean()) == pytest.approx(0, abs=0.02)
    assert float(told.var()) == pytest.approx(1, abs=0.02)


def test_a_count_is_told_the_same_where_more_are_asked_for():
    told = [RepeatCopy(bits=1, max_repeats=most).parse_episode("1 x 3").inputs for most in (10, 20)]
    assert torch.equal(*told)
    beyond = RepeatCopy(bits=1, min_repeats=20, max_repeats=20).draw(np.random.default_rng(0), 1)
    assert float(beyond.inputs.max()) == pytest.approx((20 - 5.5) / 2.8722813)


def test_all_lengths_are_as_likely():
    lengths = (
        Copy(bits=1, shortest=3, longest=6).draw(np.random.default_rng(0), 4000).target_mask.sum(1)
    )
    found, counts = lengths.unique(return_counts=True)
    assert found.tolist() == [3, 4, 5, 6]
    # of 1,000 each, with a deviation of 27
    assert all(abs(count - 1000) < 100 for count in counts.tolist())


def test_lengths_and_counts_are_drawn_apart_and_only_counts_rise():
    task = RepeatCopy(bits=1, longest=3, max_repeats=3)
    whole = task.draw(np.random.default_rng(0), 1000).target_mask.sum(1)
    assert set(whole.tolist()) == {
        length * count + 1 for length in (1, 2, 3) for count in (1, 2, 3)
    }
    half = task.draw(np.random.default_rng(0), 1000, difficulty=0.5).target_mask.sum(1)
    assert set(half.tolist()) == {length * count + 1 for length in (1, 2, 3) for count in (1, 2)}


def test_bits_are_fair():
    drawn = Copy().draw(np.random.default_rng(0), 2000)
    assert drawn.targets[drawn.target_mask].mean(0).tolist() == pytest.approx([0.5] * 8, abs=0.02)


def test_longer_texts_than_are_drawn_can_be_typed():
    text = " ".join(["01101001", "11110000"] * 15)
    episode = Copy().parse_episode(text)
    assert episode.inputs.shape == (1, 62, 10)
    assert format_vectors(episode.targets[episode.target_mask]) == text
    assert RepeatCopy().parse_episode(f"{text} x 12").target_mask.sum() == 30 * 12 + 1


@pytest.mark.parametrize("text", ["10 01 x 3", "10 01x3", "1001 × 3 "])
def test_a_count_is_typed_behind_an_x(text):
    episode = RepeatCopy(bits=2).parse_episode(text)
    assert format_vectors(episode.targets[episode.target_mask][:, :2]) == "10 01 10 01 10 01 00"


@pytest.mark.parametrize("text", ["01101001", "01101001 x", "01101001 x 0", "x 3 01101001", ""])
def test_a_text_without_a_count_is_refused(text):
    message = "expected vectors and how often to say them, as in 01101001 11110000 x 3, got"
    with pytest.raises(ValueError, match=f"^repeat copy: {message} '{text}'$"):
        RepeatCopy().parse_episode(text)


def test_texts_without_vectors_are_refused():
    with pytest.raises(ValueError, match=r"^copy: expected vectors of 8 bits, .* got '0120'"):
        Copy().parse_episode("0120")
    with pytest.raises(ValueError, match=r"^repeat copy: expected vectors of 8 bits, .* got ''"):
        RepeatCopy().parse_episode("x 3")


@pytest.mark.parametrize("settings", [{"bits": 0}, {"shortest": 0}, {"shortest": 21}])
def test_a_copy_of_nothing_is_refused(settings):
    message = "Copy: expected 1 ≤ bits and 1 ≤ shortest ≤ longest, got Copy(bits="
    with pytest.raises(ValueError, match=re.escape(message)):
        Copy(**settings)


@pytest.mark.parametrize(
    "settings",
    [{"bits": 0}, {"shortest": 11}, {"min_repeats": 0}, {"min_repeats": 11}, {"deviation": 0.0}],
)
def test_a_repeated_copy_of_nothing_is_refused(settings):
    message = (
        "1 ≤ shortest ≤ longest, 1 ≤ min_repeats ≤ max_repeats and 0 < deviation, "
        "got RepeatCopy(bits="
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        RepeatCopy(**settings)


@pytest.mark.parametrize("repeats", ["5001", "999999999"])
def test_more_copies_than_one_could_wait_for_are_refused_before_they_are_laid_out(repeats):
    with pytest.raises(ValueError, match=f"at most 10,000 vectors to say, got 2 x {repeats}$"):
        RepeatCopy().parse_episode(f"01101001 11110000 x {repeats}")


def test_a_count_that_no_number_holds_is_none():
    with pytest.raises(ValueError, match="expected vectors and how often to say them"):
        RepeatCopy().parse_episode(f"01101001 x {'9' * 5000}")
