"""Repeat copy: as many copies as are asked for, and a mark behind the last."""

import pytest

from regard.recipes import repeat_copy
from regard.recipes.repeat_copy import Config, Evaluation
from regard.view.traces.memory_trace import why_not
from tests.recipes.untrained import saying, untrained


def test_who_knows_nothing_errs_in_every_bit_and_in_the_mark():
    loaded = untrained(repeat_copy, bits=2)
    silent = saying(loaded, lambda x: x.new_zeros(*x.shape[:2], 3))
    found = repeat_copy.evaluate(silent, Evaluation(length=4, repeats=3, sequences=5))
    # so many vectors and one more, each of two bits and a mark
    assert found["bits_per_sequence"] == pytest.approx((4 * 3 + 1) * 3)
    assert (found["perfect"], found["sequences"]) == (0, 5)


def test_more_copies_than_in_training_are_told_by_the_same_measure():
    told = []

    def heard(inputs):
        told.append(inputs[:, 3, -1].tolist())
        return inputs.new_zeros(*inputs.shape[:2], 9)

    repeat_copy.evaluate(saying(untrained(repeat_copy), heard), Evaluation(2, 20, sequences=1))
    assert told == [[pytest.approx((20 - 5.5) / 8.25**0.5)]]


def test_an_answer_has_a_mark_behind_it():
    loaded = untrained(repeat_copy, bits=2)
    found = repeat_copy.predict(loaded, "01 11 x 2")
    assert found.answer == "010 110 010 110 001"
    assert len(found.text) == len(found.answer)


def test_a_trace_is_one_of_a_machine():
    trace = repeat_copy.trace(untrained(repeat_copy), repeat_copy.EXAMPLE)
    assert why_not(trace) is None
    assert trace.axis("steps").size == 1 + 2 + 1 + 2 * 3 + 1


def test_its_example_fits_into_its_memory():
    config = Config()
    assert config.data.parse_episode(repeat_copy.EXAMPLE).slots == 2 <= config.model.slots


@pytest.mark.parametrize("name", ["length", "repeats", "sequences", "slots"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"repeat_copy: expected {name} of at least 1, got 0"):
        Evaluation(**{name: 0})


def test_a_length_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="repeat_copy: 9 vectors do not fit into a memory of 8 sl"):
        repeat_copy.evaluate(untrained(repeat_copy), Evaluation(length=9))
