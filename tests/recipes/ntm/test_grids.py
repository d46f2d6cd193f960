"""The tables: every row is a config that can be, and every column is measured."""

from dataclasses import replace
from functools import reduce

import pytest

from regard.config import override
from regard.models.lstm import LSTMConfig
from regard.recipes import copy, ngrams, recall, repeat_copy, sort_bits
from regard.recipes.ntm.grids import LSTM_LEARNING_RATES, lstm_comparison_grid
from tests.recipes.untrained import MACHINE, untrained

RECIPES = (copy, repeat_copy, recall, ngrams, sort_bits)
every = pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.__name__.rpartition(".")[2])


@every
def test_every_row_sets_what_the_config_has_and_no_two_are_the_same(recipe):
    for grid in recipe.GRIDS.values():
        configs = [override(grid.base, row.settings) for row in grid.rows]
        assert len({repr(config) for config in configs}) == len(configs)


def test_nets_stand_beside_a_machine_at_every_rate():
    grid = lstm_comparison_grid(copy.Config(), width=32, layers=2)
    machine, *nets = (override(grid.base, row.settings) for row in grid.rows)
    assert machine == copy.Config()
    assert [net.model for net in nets] == [LSTMConfig(width=32, layers=2)] * len(
        LSTM_LEARNING_RATES
    )
    assert tuple(net.training.optimizer.rate for net in nets) == LSTM_LEARNING_RATES


@every
def test_every_column_is_among_the_numbers_that_are_measured(recipe):
    few = {
        name: replace(each, sequences=1) for name, each in recipe.RECIPE.card_evaluations.items()
    }
    # what is long is measured where it is short
    short = {"20", "6", "10 x 10"} | ({*few} if recipe in (ngrams, sort_bits) else set())
    known = replace(recipe.RECIPE, card_evaluations={n: e for n, e in few.items() if n in short})
    numbers = known.card_metrics(untrained(recipe, replace(MACHINE, slots=128)))
    numbers |= {name: {"bits_per_sequence": 1.0, "perfect": 0.5} for name in few}
    numbers |= {"solved_after": 8, "solved_seconds": 1.0}
    for path in recipe.COLUMNS.values():
        assert isinstance(reduce(dict.__getitem__, path.split("."), numbers), int | float)
