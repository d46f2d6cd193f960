"""Copy: measured at any length, and trained by one command."""

from dataclasses import replace

import pytest

from regard.recipes import copy
from regard.recipes.copy import Config, Evaluation
from regard.view.traces.memory_trace import why_not
from tests.recipes.untrained import copying, saying, untrained


@pytest.mark.parametrize("length", [1, 5, 8])
def test_all_episodes_of_an_evaluation_have_one_length(length):
    asked = []

    def counted(inputs):
        asked.append(inputs[:, 1 + length, -1].tolist())
        return copying(inputs)

    found = copy.evaluate(saying(untrained(copy), counted), Evaluation(length, sequences=3))
    assert asked == [[1, 1, 1]]
    assert found["perfect"] == 1


def test_one_that_has_learned_to_copy_errs_less_than_chance(copier):
    found = copy.evaluate(copier, Evaluation(length=2))
    assert found["bits_per_sequence"] < 0.75 * 2 * 2


def test_one_that_has_learned_shows_its_tape(copier):
    trace = copy.trace(copier, "01 11 00")
    assert why_not(trace) is None
    assert trace.outputs["text"] == copy.predict(copier, "01 11 00").text


def test_it_is_trained_by_one_command(toy, recipe, tmp_path):
    result = recipe.run(replace(toy, training=replace(toy.training, steps=1)), out=tmp_path)
    assert (result.stopped, result.folder) == ("finished", tmp_path)


def test_its_example_fits_into_its_memory():
    config = Config()
    assert config.data.parse_episode(copy.EXAMPLE).slots == 2 <= config.model.slots


def test_twenty_machines_differ_by_their_seeds_alone():
    grid = copy.GRIDS["seeds"]
    assert (len(grid.rows), sorted(set(grid.seeds))) == (1, list(range(20)))
