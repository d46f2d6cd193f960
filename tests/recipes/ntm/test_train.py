"""A training: it learns, is measured, writes a card, and resumes to the same losses."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from regard import load
from regard.config import override
from regard.data.ntm.copy import RepeatCopy
from regard.models.lstm import LSTM, LSTMConfig
from regard.models.ntm import NTM, NTMConfig
from regard.recipes import copy, repeat_copy, synthetic
from regard.recipes.copy import Evaluation
from regard.recipes.ntm import train
from regard.recipes.ntm.loss import score_episodes
from regard.recipes.ntm.metrics import held_out_episodes
from regard.train import journal

CHANCE = 2 * 2  # bits of a vector, and the mean length of an episode


def told(folder):
    """The losses and numbers of a journal, by step."""
    lines = journal.read_lines(folder / "journal.jsonl")
    found = [(line["step"], line.get("loss"), line.get("metrics")) for line in lines]
    return [line for line in found if line[1] or line[2]]


def test_copying_is_learned(copied):
    assert copied.stopped == "finished"
    validated = [metrics["bits"] for _, _, metrics in told(copied.folder) if metrics]
    assert validated[-1] < 0.5 * CHANCE
    assert validated == sorted(validated, reverse=True)


def test_a_card_says_what_was_learned_from_how_much(copied, copier, toy):
    card = copier.card
    assert (card["recipe"], card["about"], card["seed"]) == ("copy", "says it again", 0)
    assert card["episodes"] == 200 * 16
    assert card["parameters"] == sum(weight.numel() for weight in copier.model.parameters())
    assert card["settings"]["data"] == {"bits": 2, "shortest": 1, "longest": 3}
    assert (copier.config.inputs, copier.config.outputs) == (4, 2)


def test_evaluating_again_gives_the_number_of_the_card(copied, copier):
    again = copy.evaluate(copier, Evaluation(length=3))
    for name in ("bits_per_sequence", "perfect"):
        assert again[name] == pytest.approx(copier.card["numbers"][name], abs=1e-5)
        assert copied.metrics[name] == copier.card["numbers"][name]


def test_examples_are_answered_beside_the_right_answer(copied, copier):
    ((typed, said, right),) = copied.examples
    assert (typed, right) == ("01 11", "01 11")
    assert said == copy.predict(copier, typed).text


def test_a_run_goes_on_to_the_same_losses_and_weights(recipe, toy, copied, copier, tmp_path):
    shutil.copytree(copied.folder, tmp_path / "run")
    again = train.train_recipe(recipe, toy, resume=tmp_path / "run", step=150)
    assert told(again.folder) == told(copied.folder)
    assert told(again.folder)[-1][0] == 200
    for name, weight in load(again.folder).model.state_dict().items():
        assert torch.equal(weight, copier.model.state_dict()[name]), name


def test_another_task_is_not_gone_on_with(recipe, toy, copied, tmp_path):
    shutil.copytree(copied.folder, tmp_path / "run")
    with pytest.raises(ValueError, match=r"only training.… may change when .*, got another data"):
        train.train_recipe(recipe, override(toy, ["data.longest=4"]), resume=tmp_path / "run")


def one_step(recipe, toy, folder, *settings):
    return train.train_recipe(recipe, override(toy, ["training.steps=1", *settings]), out=folder)


def test_a_net_is_trained_in_place_of_a_machine(recipe, toy, tmp_path):
    net = replace(toy, model=LSTMConfig(width=8, layers=1))
    loaded = load(one_step(recipe, net, tmp_path).folder)
    assert isinstance(loaded.model, LSTM)
    assert loaded.config == LSTMConfig(inputs=4, outputs=2, width=8, layers=1)


def test_a_curriculum_and_a_seed_reach_the_training(recipe, toy, tmp_path):
    changed = ((), ("batches.curriculum=1000",), ("training.seed=1",))
    runs = [one_step(recipe, toy, tmp_path / str(i), *each) for i, each in enumerate(changed)]
    assert len({told(run.folder)[0][1] for run in runs}) == 3


def written(folder, *bits):
    """The journal of a run that was validated every 10 steps, a step a second."""
    with journal.Journal(folder / "journal.jsonl") as lines:
        for step, number in enumerate(bits, 1):
            lines.write("train", 10 * step, seconds=10.0 * step, loss=1.0)
            lines.write("validate", 10 * step, metrics={"bits": number})
    return folder


def test_a_recipe_may_validate_on_episodes_that_go_further_than_its_task():
    model = NTM(NTMConfig(inputs=11, outputs=9, width=8, slots=20, slot_width=4))
    validate = train.build_validator(RepeatCopy(), repeat_copy.RECIPE.harder_task)
    further = RepeatCopy(shortest=20, longest=20)
    bits, _ = score_episodes(
        model, held_out_episodes(further, train.HARDER_EPISODES, train.VALIDATION_SEED)
    )
    found = validate(model)
    assert found["further"] == pytest.approx(float(bits.mean()))
    assert found["both"] ** 2 == pytest.approx(found["bits"] * found["further"])
    assert "further" not in train.build_validator(RepeatCopy())(model)


def test_a_task_is_solved_when_it_first_costs_less_than_a_tenth_of_a_bit(tmp_path):
    found = train._time_to_solve(written(tmp_path, 3.0, 0.2, 0.05, 0.3, 0.01), rows=4)
    assert found == {"solved_after": 30 * 4, "solved_seconds": 30.0}


def test_a_task_that_costs_more_to_the_end_is_not_solved(tmp_path):
    found = train._time_to_solve(written(tmp_path, 3.0, 0.1), rows=4)
    assert found == {"solved_after": None, "solved_seconds": None}


def test_numbers_that_are_lost_solve_nothing(tmp_path):
    found = train._time_to_solve(written(tmp_path, 3.0, float("nan")), rows=4)
    assert found["solved_after"] is None


def test_a_run_that_is_stopped_is_not_measured(recipe, toy, tmp_path, monkeypatch):
    fit = synthetic.fit

    def stopped(*args, **more):
        return replace(fit(*args, **more), stopped="interrupted")

    monkeypatch.setattr(synthetic, "fit", stopped)
    result = one_step(recipe, toy, tmp_path)
    assert (result.stopped, result.examples) == ("interrupted", [])
    assert not (tmp_path / "card.json").exists()


def test_the_settings_of_a_run_stand_in_its_folder(copied, toy):
    told = json.loads((copied.folder / "config.json").read_text())
    assert told["settings"]["model"]["slots"] == toy.model.slots
    assert told["recipe"] == "copy"
