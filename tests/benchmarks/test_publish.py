"""What is published is what was measured, and it says nothing of the machine it was trained on."""

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
import torch

from benchmarks import publish
from regard import load
from regard.cli.resolve import RECIPES
from regard.data.licences import GENERATED, MULTI30K, licence_field
from regard.zoo import model_kinds
from tests.zoo import tiny


@dataclass(frozen=True)
class Monitored:
    monitor: str = "loss"
    monitor_mode: str = "lowest"


@dataclass(frozen=True)
class Config:
    pairs: Path | None = None
    beam: int = 3
    training: Monitored = field(default_factory=Monitored)


SETTINGS = {"pairs": None, "beam": 5, "training": {"monitor": "loss", "monitor_mode": "lowest"}}


def numbers(loaded, config, folder):
    """What stands in the weights, and under how many beams; the texts stay in the folder."""
    (folder / "test.txt").write_text("a text")
    weight = loaded.model.first.weight.detach()
    return {"sum": float(weight.sum()), "beam": config.beam}


@pytest.fixture
def run(monkeypatch, tmp_path) -> Path:
    """A finished run of a recipe that the tests alone know."""
    recipe = ModuleType("toy")
    recipe.Config, recipe.card_metrics = Config, numbers
    monkeypatch.setitem(sys.modules, "toy", recipe)
    monkeypatch.setitem(RECIPES, "translate", ("toy", "a toy"))
    monkeypatch.setitem(model_kinds.KINDS, "tiny", tiny.known())
    tiny.saved(tmp_path / "run")
    command = "regard train translate rate=1 --out '/home/me/my runs' --jobs 2"
    told = {"settings": SETTINGS, "command": command, "about": "a run"}
    licence = licence_field(MULTI30K)
    tiny.card(tmp_path / "run", **told, licence=licence, seed=0, development={"loss": 0.5})
    return tmp_path / "run"


def test_the_numbers_of_the_card_are_those_of_the_stored_weights(run, tmp_path):
    found = load(publish.published(run, "small", into=tmp_path / "zoo"))
    rounded = load(run).model.first.weight.detach().bfloat16().float()
    assert torch.equal(found.model.first.weight, rounded)
    assert found.card["numbers"]["sum"] == float(rounded.sum())
    assert found.card["numbers"]["beam"] == 5
    assert found.card["dtype"] == "bfloat16"


def test_a_member_holds_a_model_and_no_texts(run, tmp_path):
    folder = publish.published(run, "small", into=tmp_path / "zoo")
    assert sorted(p.name for p in folder.iterdir()) == ["card.json", "model.safetensors"]


def test_the_card_is_named_anew_and_forgets_where_the_run_lay(run, tmp_path):
    into = tmp_path / "zoo"
    card = load(publish.published(run, "small", into=into)).card
    assert (card["name"], card["about"]) == ("small", "a run")
    assert card["command"] == "regard train translate rate=1 --jobs 2"
    assert load(publish.published(run, "small", "English", into=into)).card["about"] == "English"


@pytest.mark.parametrize("place", ["/home/me/a.tsv", "~/a.tsv", "/data"])
def test_a_place_of_this_machine_is_refused_and_nothing_is_written(run, tmp_path, place):
    told = {"settings": SETTINGS | {"pairs": place}, "command": "regard train translate"}
    typed = {"settings": SETTINGS, "command": f"regard train pairs={place} x"}
    for changed in (told, told | typed):
        tiny.card(run, **changed)
        words = f"publish: expected a card without places of this machine, got {place}$"
        with pytest.raises(SystemExit, match=words):
            publish.published(run, "small", into=tmp_path / "zoo")
    assert not (tmp_path / "zoo").exists()


def other_seed(run, seed, loss):
    """A run of the same settings with another seed."""
    other = run.with_name(f"seed{seed}")
    shutil.copytree(run, other)
    tiny.card(other, seed=seed, development={"loss": loss})
    return other


def test_a_card_has_the_development_numbers_of_all_seeds(run, tmp_path):
    seeds = [other_seed(run, 1, 0.75), other_seed(run, 2, 0.625)]
    card = load(publish.published(run, "small", seeds=seeds, into=tmp_path / "zoo")).card
    assert card["seed_choice"] == {
        "seeds": [0, 1, 2],
        "development": {"measure": "loss", "numbers": {"0": 0.5, "1": 0.75, "2": 0.625}},
        "how": "the best of 3 seeds by loss of development data",
    }


def test_a_seed_that_development_data_did_not_choose_is_refused(run, tmp_path):
    words = "publish: expected the seed that is best by loss of development data, 1 with 0.25, got "
    with pytest.raises(SystemExit, match=words):
        publish.published(run, "small", seeds=[other_seed(run, 1, 0.25)], into=tmp_path / "zoo")
    assert not (tmp_path / "zoo").exists()


def test_weights_that_were_learned_for_research_stay_for_research(run, tmp_path):
    into = tmp_path / "zoo"
    weights = load(publish.published(run, "small", into=into)).card["licence"]["weights"]
    assert weights["name"] == "research, non-commercial"
    tiny.card(run, licence=licence_field(GENERATED))
    weights = load(publish.published(run, "free", into=into)).card["licence"]["weights"]
    assert weights["name"] == "Apache-2.0"


def test_a_measurement_that_fails_leaves_the_zoo_as_it_was(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["toy"], "card_metrics", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publish.published(run, "small", into=tmp_path / "zoo")
    assert not (tmp_path / "zoo").exists()


def test_what_comes_with_the_package_names_no_place():
    for path in publish.ZOO.glob("*/card.json"):
        assert not publish.PLACE.search(json.dumps(json.loads(path.read_text())))
