"""Associative recall: the item behind the one that is named, of as many as one likes."""

import pytest

from regard.recipes import recall
from regard.recipes.recall import Config, Evaluation
from regard.view.traces.memory_trace import why_not
from tests.recipes.untrained import MACHINE, saying, untrained


def test_who_knows_nothing_errs_in_every_bit_of_one_item():
    silent = saying(untrained(recall), lambda x: x.new_zeros(*x.shape[:2], 6))
    found = recall.evaluate(silent, Evaluation(items=2, sequences=5))
    assert found["bits_per_sequence"] == pytest.approx(3 * 6)


def test_all_episodes_of_an_evaluation_have_as_many_items_as_are_asked_for():
    shown = []

    def heard(inputs):
        shown.append(inputs[:, :, -2].sum(1).tolist())
        return inputs.new_zeros(*inputs.shape[:2], 6)

    found = recall.evaluate(saying(untrained(recall), heard), Evaluation(9, sequences=2, slots=27))
    assert shown == [[9, 9]]
    assert found["slots"] == 27


def test_the_right_answer_is_the_item_behind_the_one_that_is_named():
    loaded = untrained(recall, bits=3, length=1)
    found = recall.predict(loaded, "011 | 110 | 101 ? 110")
    assert found.answer == "101"
    assert len(found.text) == 3


def test_a_trace_is_one_of_a_machine():
    loaded = untrained(recall, bits=3, length=1)
    assert why_not(recall.trace(loaded, "011 | 110 | 101 ? 110")) is None


def test_its_example_fits_into_its_memory():
    config = Config()
    assert config.data.parse_episode(recall.EXAMPLE).slots == 9 <= config.model.slots


@pytest.mark.parametrize("name", ["items", "sequences", "slots"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"recall: expected {name} of at least 1, got 0"):
        Evaluation(**{name: 0})


def test_items_that_do_not_fit_are_refused():
    assert MACHINE.slots == 8
    message = "recall: 9 vectors do not fit into a memory of 8 slots; set slots to at least 9"
    with pytest.raises(ValueError, match=message):
        recall.evaluate(untrained(recall), Evaluation(items=3))
