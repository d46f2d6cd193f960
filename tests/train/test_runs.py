"""Folders of runs: settings first, no run over another, and no place of a machine in a card."""

import json
import sys
from dataclasses import dataclass

import pytest

from regard.train import runs


@dataclass(frozen=True)
class Config:
    steps: int = 3


def test_a_new_run_has_its_settings_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = runs.opened("translate", Config(), name="tiny", out=None, resume=None)
    told = json.loads((folder / "config.json").read_text())
    assert told == {"schema": 1, "recipe": "translate", "settings": {"steps": 3}}
    assert folder.parent.as_posix() == "runs/translate"
    assert folder.name.endswith("-tiny")


def test_a_run_is_not_begun_over_another(tmp_path):
    folder = runs.opened("translate", Config(), name="a", out=tmp_path / "x", resume=None)
    with pytest.raises(ValueError, match="has a run in it; take --resume"):
        runs.opened("translate", Config(), name="b", out=folder, resume=None)
    assert runs.opened("translate", Config(), name="c", out=None, resume=folder) == folder


def test_facts_that_changed_are_refused(tmp_path):
    runs.agreed(tmp_path / "data.json", {"pairs": 3}, what="the data")
    runs.agreed(tmp_path / "data.json", {"pairs": 3}, what="the data")
    with pytest.raises(ValueError, match="run: the data is not what it was when"):
        runs.agreed(tmp_path / "data.json", {"pairs": 4}, what="the data")


def test_a_command_names_the_program_and_not_its_folder(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/regard", "train", "translate", "name=a b"])
    assert runs.command() == "regard train translate 'name=a b'"


def test_hardware_and_versions_are_told():
    assert runs.hardware().endswith("threads") or "NVIDIA" in runs.hardware()
    assert {"python", "torch", "numpy"} <= runs.versions().keys()
