"""Folders of runs: settings first, no run over another, and no place of a machine in a card."""

import json
import sys
from dataclasses import dataclass, field

import pytest

from regard.config import plain
from regard.train import Checkpoint, Training, checkpoints, runs


@dataclass(frozen=True)
class Config:
    width: int = 8
    training: Training = field(default_factory=Training)


def begun(folder):
    return runs.opened("translate", Config(), name="a", out=folder, resume=None)


def test_a_new_run_has_its_settings_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = runs.opened("translate", Config(), name="tiny", out=None, resume=None)
    told = json.loads((folder / "config.json").read_text())
    assert (told["schema"], told["recipe"]) == (1, "translate")
    assert told["settings"] == plain(Config())
    assert folder.parent.as_posix() == "runs/translate"
    assert folder.name.endswith("-tiny")


def test_a_run_is_not_begun_over_another(tmp_path):
    folder = begun(tmp_path / "x")
    with pytest.raises(ValueError, match="has a run in it; take --resume"):
        runs.opened("translate", Config(), name="b", out=folder, resume=None)
    assert runs.opened("translate", Config(), name="c", out=None, resume=folder) == folder


def test_facts_that_changed_are_refused(tmp_path):
    runs.agreed(tmp_path / "data.json", {"pairs": 3}, what="the data")
    runs.agreed(tmp_path / "data.json", {"pairs": 3}, what="the data")
    with pytest.raises(ValueError, match="run: the data is not what it was when"):
        runs.agreed(tmp_path / "data.json", {"pairs": 4}, what="the data")


@pytest.mark.parametrize("program", ["bin/regard", "regard/__main__.py"])
def test_a_run_keeps_the_command_that_began_it(tmp_path, monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [f"/somewhere/{program}", "train", "translate", "name=a b"])
    folder = begun(tmp_path)
    monkeypatch.setattr(sys, "argv", ["regard", "train", "--resume", "x"])
    runs.opened("translate", Config(), name="a", out=None, resume=folder)
    told = runs.circumstances(folder, seconds=1.23, device="cpu")
    assert told["command"] == "regard train translate 'name=a b'"
    assert told["seconds"] == 1.2


def test_how_it_trains_may_change_when_a_run_goes_on(tmp_path):
    folder = begun(tmp_path)
    longer = Config(training=Training(steps=20_000))
    runs.opened("translate", longer, name="a", out=None, resume=folder)
    told = json.loads((folder / "config.json").read_text())
    assert told["settings"]["training"]["steps"] == 20_000


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(width=9), r"run: only training\.… may change when .* goes on, got another width"),
        (Config(training=Training(seed=1)), "run: the seed and the kind of optimizer may not"),
        (Config(training=Training(steps=3)), r"is at step 7 already, got training\.steps=3"),
    ],
    ids=["width", "seed", "steps"],
)
def test_a_refused_change_leaves_the_run_as_it_was(tmp_path, config, message):
    folder = begun(tmp_path)
    before = (folder / "config.json").read_bytes()
    checkpoints.save(folder / "checkpoints", Checkpoint(7, {}, {}))
    with pytest.raises(ValueError, match=message):
        runs.opened("translate", config, name="a", out=None, resume=folder)
    assert (folder / "config.json").read_bytes() == before


def test_hardware_and_versions_are_told():
    assert runs.hardware().endswith("threads")
    assert {"python", "torch", "numpy"} <= runs.versions().keys()
