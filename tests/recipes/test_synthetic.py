"""What recipes share whose data is drawn without end, of machines and of pointers alike."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.recipes import copy, sort, synthetic
from regard.recipes.synthetic import Config, TrainingSetup
from regard.train.settings import Training


class Still(nn.Module):
    """A number that is to become nought."""

    def __init__(self):
        super().__init__()
        self.number = nn.Parameter(torch.rand(()))


class Nothing(nn.Module):
    """A batch that nothing is in."""

    tokens = 1

    def epoch(self, number, start=0):
        return iter([self] * (10 - start))


def learning():
    return TrainingSetup(
        lambda model, batch: model.number.square(),
        Nothing(),
        lambda model: {"loss": float(model.number.square())},
    )


def config(steps=5):
    told = replace(sort.Config(), training=Training(steps=steps, device="cpu", save_every=2))
    return replace(told, name="still")


def test_the_seed_is_set_before_the_model_is_built(tmp_path):
    first = [
        synthetic.fit_in_run_folder("sort", config(), Still, learning(), out=tmp_path / name)[
            1
        ].model.number
        for name in "ab"
    ]
    assert torch.equal(*first)


def test_a_training_goes_on_where_it_was(tmp_path):
    folder, short = synthetic.fit_in_run_folder(
        "sort", config(2), Still, learning(), out=tmp_path / "a"
    )
    _, longer = synthetic.fit_in_run_folder("sort", config(5), Still, learning(), resume=folder)
    _, whole = synthetic.fit_in_run_folder("sort", config(5), Still, learning(), out=tmp_path / "b")
    assert (short.step, longer.step) == (2, 5)
    assert torch.equal(longer.model.number, whole.model.number)


def test_a_card_says_by_what_and_of_how_many_weights(tmp_path):
    folder, fitted = synthetic.fit_in_run_folder(
        "sort", config(), Still, learning(), out=tmp_path / "still"
    )
    card = synthetic.build_card(sort.RECIPE, config(), folder, fitted)
    assert (card["name"], card["recipe"], card["parameters"]) == ("still", "sort", 1)
    assert card["settings"]["data"] == {"min_points": 5, "max_points": 50}
    assert card["licence"]["data"]["name"] == "Apache-2.0"
    assert card["development"] == {"loss": float(fitted.model.number.detach().square())}


def test_what_was_learned_is_read_from_a_card_and_no_other_recipes():
    settings = {"data": {"min_points": 3, "max_points": 7}}
    loaded = SimpleNamespace(card={"name": "mine", "recipe": "sort", "settings": settings})
    assert synthetic.task_of_model(sort.RECIPE, loaded).max_points == 7
    with pytest.raises(ValueError, match=r"copy: expected a model .* got 'mine', which learned"):
        synthetic.task_of_model(copy.RECIPE, loaded)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "expected the task it has learned, got nothing"),
        ({"settings": {}}, "expected the task it has learned, got nothing"),
        ({"settings": {"data": {"bits": 3}}}, "Numbers has no field 'bits'"),
        ({"settings": {"data": {"min_points": 10**400}}}, ""),
    ],
    ids=["nothing", "no data", "another task", "no number"],
)
def test_a_card_that_does_not_say_what_was_learned_is_named_with_the_field(told, words):
    card = {"name": "mine", "recipe": "sort", **told}
    where = r"^sort: settings\.data in the card\.json of 'mine': "
    with pytest.raises(ValueError, match=where + words):
        synthetic.task_of_card(sort.RECIPE, card)


@pytest.mark.parametrize("recipe", [copy, sort])
def test_settings_of_all_such_recipes_are_of_one_form(recipe):
    assert isinstance(recipe.Config(), Config)


def test_a_card_tells_what_was_learned_and_by_which_recipe():
    card = {"name": "x", "recipe": "copy", "settings": {"data": {"bits": 3}}}
    assert synthetic.task_of_card(copy.RECIPE, card).bits == 3
    with pytest.raises(ValueError, match="sort: expected a model that was trained by this recipe"):
        synthetic.task_of_card(sort.RECIPE, card)
