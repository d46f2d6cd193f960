"""Settings of all recipes of pointer networks: what cannot be is refused."""

import math
from dataclasses import replace

import pytest

from regard.config import from_json, override, to_json
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig
from regard.recipes import delaunay, hull, sort, tsp
from regard.recipes.pointer.config import MODELS, Batches, check_config, max_points
from regard.recipes.synthetic import Config
from tests.recipes.pointer.untrained import LSTM, NET, TOURING, WORDS

RECIPES = (hull, delaunay, tsp, sort)
every = pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.__name__.rpartition(".")[2])


@every
def test_every_recipe_has_settings_of_one_form(recipe):
    config = recipe.Config()
    assert isinstance(config, Config)
    assert type(config.model) in MODELS
    assert from_json(recipe.Config, to_json(config)) == config


@every
def test_several_devices_are_refused_before_a_folder_is_opened(recipe):
    base = replace(recipe.Config(), training=replace(recipe.Config().training, cuda_graphs=False))
    name = recipe.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=f"{name}: one device for now, got training.devices of m"):
        override(base, ["training.devices=2"])


def test_a_vocabulary_that_lacks_a_point_is_refused():
    message = (
        "hull: a vocabulary of 7 places cannot say 50 points; set model.max_points to at least 50"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        hull.Config(model=WORDS)
    check_config("hull", hull.Config(data=hull.Hull(5, 7), model=WORDS))


def test_who_points_can_tell_of_any_number_and_a_vocabulary_of_its_words():
    assert [max_points(model) for model in (NET, LSTM, TOURING)] == [math.inf] * 3
    assert max_points(WORDS) == max_points(replace(WORDS, output="attention")) == 7


def test_a_word_chooses_who_points():
    config = override(tsp.Config(), ["model=pointer_network", "model.width=32"])
    assert config.model == PointerNetworkConfig(width=32)
    config = override(sort.Config(), ["model=attention_pointer", "model.layers=2"])
    assert config.model == AttentionPointerConfig(layers=2)


@pytest.mark.parametrize("recipe", [hull, delaunay])
def test_who_points_at_every_point_cannot_leave_one_out(recipe):
    message = "an attention_pointer points at each point once, which is no answer here; set model=p"
    with pytest.raises(ValueError, match=message):
        recipe.Config(model=TOURING)


def test_every_kind_of_settings_has_its_model():
    kinds = {PointerNetworkConfig: PointerNetwork, AttentionPointerConfig: AttentionPointer}
    assert kinds == MODELS


def test_batches_of_nothing_are_refused():
    with pytest.raises(ValueError, match=r"^Batches: expected rows of at least 1, got 0$"):
        Batches(0)
