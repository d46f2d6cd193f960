"""Settings of all recipes of machines: what cannot be is refused, and a word chooses the model."""

from dataclasses import replace

import pytest

from regard.config import from_json, override, to_json
from regard.data.ntm.copy import Copy
from regard.models.lstm import LSTM, LSTMConfig
from regard.models.ntm import NTM
from regard.recipes import copy, ngrams, recall, repeat_copy, sort_bits
from regard.recipes.ntm.config import MODELS, Batches, check_config, check_fits_memory
from regard.recipes.synthetic import Config

RECIPES = (copy, repeat_copy, recall, ngrams, sort_bits)
every = pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.__name__.rpartition(".")[2])


@every
def test_every_recipe_has_settings_of_one_form(recipe):
    config = recipe.Config()
    assert isinstance(config, Config)
    assert type(config.model) in MODELS
    assert from_json(recipe.Config, to_json(config)) == config


@every
def test_a_word_chooses_the_net_beside_the_machine(recipe):
    config = override(recipe.Config(), ["model=lstm", "model.width=32", "model.layers=2"])
    assert config.model == LSTMConfig(width=32, layers=2)
    assert MODELS[type(config.model)] is LSTM


def test_a_setting_reaches_the_machine():
    config = override(copy.Config(), ["model.controller=feed_forward", "model.read_heads=2"])
    assert (config.model.controller, config.model.read_heads) == ("feed_forward", 2)
    assert MODELS[type(config.model)] is NTM


@every
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.devices=2", "one device for now, got training.devices of more"),
        ("model.slots=7", "vectors do not fit into a memory of 7 slots; set model.slots to at le"),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_opened(recipe, setting, message):
    # several devices have no CUDA graph either
    base = replace(recipe.Config(), training=replace(recipe.Config().training, cuda_graphs=False))
    name = recipe.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=f"{name}: .*{message}"):
        override(base, [setting])


def test_a_net_without_a_memory_may_be_given_any_length():
    check_config("copy", copy.Config(data=Copy(longest=1000), model=LSTMConfig()))


def test_as_many_vectors_as_slots_fit():
    check_fits_memory("copy", 8, 8)
    with pytest.raises(ValueError, match=r"^copy: 9 vectors do not fit into a memory of 8 slots$"):
        check_fits_memory("copy", 9, 8)


@pytest.mark.parametrize("settings", [{"rows": 0}, {"curriculum": -1}])
def test_batches_of_nothing_are_refused(settings):
    given = {"rows": 8, "curriculum": 0} | settings
    message = (
        "^Batches: expected rows of at least 1 and curriculum of at least 0, "
        f"got {given['rows']} and {given['curriculum']}$"
    )
    with pytest.raises(ValueError, match=message):
        Batches(**settings)
