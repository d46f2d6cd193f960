"""Priority sort: the vectors of highest priority, the highest first."""

import pytest
import torch

from regard.recipes import sort_bits
from regard.recipes.sort_bits import MODEL, Config, Evaluation
from regard.view.traces.memory_trace import why_not
from tests.recipes.untrained import saying, untrained

TASK = {"bits": 2, "vectors": 5, "top_k": 3}


@pytest.fixture
def loaded():
    return untrained(sort_bits, **TASK)


def sorting(inputs):
    """What a machine says that can sort."""
    order = inputs[:, :5, 2].argsort(1, descending=True)[:, :3]
    vectors = inputs[:, :5, :2].gather(1, order[..., None].expand(-1, -1, 2))
    logits = torch.zeros(*inputs.shape[:2], 2)
    logits[:, 6:] = 100 * (2 * vectors - 1)
    return logits


def test_who_can_sort_is_perfect(loaded):
    found = sort_bits.evaluate(saying(loaded, sorting), Evaluation(sequences=9))
    assert (found["perfect"], found["bits_per_sequence"]) == (1, pytest.approx(0))


def test_who_knows_nothing_errs_in_every_bit_that_is_kept(loaded):
    silent = saying(loaded, lambda x: x.new_zeros(*x.shape[:2], 2))
    found = sort_bits.evaluate(silent, Evaluation(sequences=9))
    assert found["bits_per_sequence"] == pytest.approx(3 * 2)


def test_the_right_answer_begins_with_the_highest_priority(loaded):
    found = sort_bits.predict(loaded, "01:0.5 11:-0.2 10:0.9")
    assert found.answer == "10 01 11"
    assert len(found.text) == len(found.answer)


def test_a_trace_is_one_of_a_machine(loaded):
    assert why_not(sort_bits.trace(loaded, "01:0.5 11:-0.2 10:0.9")) is None


def test_its_memory_is_learned_so_that_places_have_names():
    assert MODEL.memory_init == "learned" and Config().model == MODEL


def test_its_example_fits_into_its_memory():
    config = Config()
    assert config.data.parse_episode(sort_bits.EXAMPLE).slots == 3 <= config.model.slots


@pytest.mark.parametrize("name", ["sequences", "slots"])
def test_evaluations_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"sort_bits: expected {name} of at least 1, got 0"):
        Evaluation(**{name: 0})


def test_vectors_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="sort_bits: 20 vectors do not fit into a memory of 8"):
        sort_bits.evaluate(untrained(sort_bits), Evaluation())
