"""A training: it learns, is measured, writes a card, and resumes to the same losses."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import load
from regard.config import override
from regard.data.geometry import tours
from regard.data.geometry.numbers import Numbers
from regard.models.pointer_network import PointerNetwork
from regard.recipes import hull, sort, synthetic, tsp
from regard.recipes.pointer import problems, train
from regard.train import journal
from tests.recipes.pointer.untrained import LSTM, NET, WORDS, untrained


def told(folder):
    """The losses and numbers of a journal, by step."""
    lines = journal.read_lines(folder / "journal.jsonl")
    found = [(line["step"], line.get("loss"), line.get("metrics")) for line in lines]
    return [line for line in found if line[1] or line[2]]


def test_sorting_is_learned(sorted_, sorter):
    assert sorted_.stopped == "finished"
    assert sorted_.metrics["accuracy"] > 0.9
    assert sort.evaluate(sorter, sort.Evaluation(4, 101, seed=3))["accuracy"] > 0.9


def test_tours_are_learned_to_be_shorter_than_those_that_are_drawn(toured, tourist):
    random = np.random.default_rng(0)
    points = problems.draw_problems(tsp.Tour(5, 6), 6, 53, seed=0).points
    chance = np.mean([tours.tour_length(each, random.permutation(6).tolist()) for each in points])
    assert toured.metrics["length"] < 0.85 * chance
    fresh = tsp.evaluate(untrained(tsp, tourist.config), tsp.Evaluation(6, 53, starts=1))
    assert toured.metrics["length"] < fresh["length"]


def test_a_card_says_what_was_learned(sorted_, sorter):
    card = sorter.card
    assert (card["recipe"], card["seed"], card["steps"]) == ("sort", 0, 200)
    assert card["about"] == "points at numbers from the lowest on"
    assert card["parameters"] == sum(weight.numel() for weight in sorter.model.parameters())
    assert card["settings"]["data"] == {"min_points": 3, "max_points": 5}
    assert (sorter.config.inputs, sorter.config.pointing_rule) == (1, "permutation")


def test_the_numbers_of_a_card_are_those_of_evaluate(sorting, sorted_, sorter):
    numbers = sorter.card["numbers"]
    for known, how in zip((numbers, numbers["3"]), sorting.card_evaluations.values(), strict=True):
        assert sort.evaluate(sorter, how)["accuracy"] == known["accuracy"]
    assert sorted_.metrics == {"accuracy": numbers["accuracy"]}


def test_the_numbers_of_a_tour_are_those_of_evaluate(touring, toured, tourist):
    again = tsp.evaluate(tourist, touring.card_evaluations["6"])
    for name in ("length", "optimal", "gap"):
        assert again[name] == pytest.approx(toured.metrics[name], abs=1e-6)


def test_an_example_is_answered_with_a_remark(sorted_, sorter, toured, tourist):
    for result, loaded, recipe in ((sorted_, sorter, sort), (toured, tourist, tsp)):
        ((typed, said, remark),) = result.examples
        assert typed == recipe.EXAMPLE
        assert f"{said}\n{remark}" == recipe.predict(loaded, typed).text
        assert "\n" not in said


@pytest.mark.parametrize("names", ["sorting toy sorted_ 150", "touring toy_tour toured 20"])
def test_a_run_goes_on_to_the_same_losses_and_weights(names, request, tmp_path):
    recipe, config, run = map(request.getfixturevalue, names.split()[:3])
    shutil.copytree(run.folder, tmp_path / "run")
    step = int(names.split()[3])
    again = train.train_recipe(recipe, config, resume=tmp_path / "run", step=step)
    assert told(again.folder) == told(run.folder)
    for name, weight in load(again.folder).model.state_dict().items():
        assert torch.equal(weight, load(run.folder).model.state_dict()[name]), name


def test_another_task_is_not_gone_on_with(sorting, toy, sorted_, tmp_path):
    shutil.copytree(sorted_.folder, tmp_path / "run")
    with pytest.raises(ValueError, match=r"only training.… may change when .*, got another data"):
        train.train_recipe(sorting, override(toy, ["data.max_points=6"]), resume=tmp_path / "run")


def one_step(recipe, config, folder, *settings):
    return train.train_recipe(recipe, override(config, ["training.steps=1", *settings]), out=folder)


def test_a_seed_reaches_the_training(sorting, toy, tmp_path):
    runs = [one_step(sorting, toy, tmp_path / seed, f"training.seed={seed}") for seed in "01"]
    assert told(runs[0].folder)[0][1] != told(runs[1].folder)[0][1]


def test_a_model_is_made_for_its_task():
    assert train.config_for_task(NET, Numbers(), "permutation") == replace(
        NET, inputs=1, pointing_rule="permutation"
    )


def test_a_vocabulary_is_trained_and_measured_up_to_its_last_word(toy, tmp_path):
    few = {str(n): hull.Evaluation(n, 3) for n in (5, 7, 10)}
    recipe = replace(hull.RECIPE, card_evaluations=few, validation_sizes=((7, 5),))
    config = hull.Config("toy", hull.Hull(5, 7), WORDS, toy.training, toy.batches)
    card = load(one_step(recipe, config, tmp_path).folder).card
    assert set(card["numbers"]) == {"accuracy", "area", "crossing", "7"}


def test_an_lstm_learns_from_tours(touring, toy_tour, tmp_path):
    config = replace(toy_tour, model=LSTM)
    loaded = load(one_step(touring, config, tmp_path).folder)
    assert isinstance(loaded.model, PointerNetwork)
    assert loaded.config.pointing_rule == "permutation"


def test_what_decides_is_measured_at_sizes_that_are_learned(sorting):
    recipe = replace(sorting, validation_sizes=((3, 5), (50, 7)))
    found = train.build_validator(recipe, Numbers(2, 5))(untrained(sort).model)
    assert set(found) == {"accuracy", "accuracy_3", "accuracy_5"}
    assert found["accuracy"] == found["accuracy_5"]


def test_what_decides_is_not_what_is_told_at_the_end():
    for recipe in (hull, sort, tsp):
        assert train.VALIDATION_SEED not in {
            each.seed for each in recipe.RECIPE.card_evaluations.values()
        }


def test_a_run_that_is_stopped_is_not_measured(sorting, toy, tmp_path, monkeypatch):
    fit = synthetic.fit

    def stopped(*args, **more):
        return replace(fit(*args, **more), stopped="interrupted")

    monkeypatch.setattr(synthetic, "fit", stopped)
    result = one_step(sorting, toy, tmp_path)
    assert (result.stopped, result.examples) == ("interrupted", [])
    assert not (tmp_path / "card.json").exists()


def test_the_settings_of_a_run_stand_in_its_folder(sorted_, toy):
    found = json.loads((sorted_.folder / "config.json").read_text())
    assert found["settings"]["model"]["width"] == toy.model.width
    assert found["recipe"] == "sort"
