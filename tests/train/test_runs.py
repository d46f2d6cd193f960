"""Folders of runs: settings first, no run over another, and no place of a machine in a card."""

import json
import sys
from dataclasses import dataclass, field

import pytest

from regard.config import to_json
from regard.runtime import atomic_files
from regard.train import BusyError, Checkpoint, Optimizer, Training, checkpoints, run_lock, runs


@dataclass(frozen=True)
class Config:
    width: int = 8
    training: Training = field(default_factory=Training)


def opened(config=None, *, pairs=3, **told):
    return runs.create_run_folder(
        "translate", config or Config(), data={"pairs": pairs}, name="a", **told
    )


def begun(folder):
    return opened(out=folder)


def test_a_new_run_has_its_settings_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = runs.create_run_folder("translate", Config(), data={}, name="tiny")
    told = json.loads((folder / "config.json").read_text())
    assert (told["schema"], told["recipe"]) == (1, "translate")
    assert told["settings"] == to_json(Config())
    assert folder.parent.as_posix() == "runs/translate"
    assert folder.name.endswith("-tiny")


def test_a_run_is_not_begun_over_another(tmp_path):
    folder = begun(tmp_path / "x")
    with pytest.raises(ValueError, match="has a run in it; take --resume"):
        begun(folder)
    assert opened(resume=folder) == folder


def test_runs_of_one_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs.time, "strftime", lambda form: "20260101-000000")
    names = [opened().name for _ in range(3)]
    assert names == [f"20260101-000000-a{end}" for end in ("", "-2", "-3")]


@pytest.mark.parametrize(
    "name",
    [
        "../../../esc",
        "/esc",
        "a\\b",
        "a\nb",
        "\x1b[2J",
        "a\0",
        "\u202e",
        "\ud800",
        "é" * 51,
        "x" * 9999,
    ],
)
def test_a_name_that_cannot_stand_in_a_folder_is_refused_and_makes_none(
    tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^run: expected name of at most 100 bytes .{,110}$"):
        runs.create_run_folder("translate", Config(), data={}, name=name)
    assert not list(tmp_path.iterdir())


def test_other_data_is_refused_and_the_run_stays_as_it_was(tmp_path):
    folder = begun(tmp_path)
    before = (folder / "config.json").read_bytes()
    with pytest.raises(ValueError, match="run: the data is not what it was when"):
        opened(Config(training=Training(steps=20_000)), pairs=4, resume=folder)
    assert (folder / "config.json").read_bytes() == before


def test_an_earlier_step_is_a_way_back_from_fewer_steps_and_a_damaged_pointer(tmp_path):
    folder, shorter = begun(tmp_path), Config(training=Training(steps=5))
    for step in (3, 7):
        checkpoints.save(folder / "checkpoints", Checkpoint(step, {}, {}))
    (folder / "checkpoints" / "latest").write_text("gone")
    with pytest.raises(checkpoints.DamagedError, match="on the command line with --step 7"):
        opened(shorter, resume=folder)
    assert opened(shorter, resume=folder, step=3) == folder


@pytest.mark.parametrize("program", ["bin/regard", "regard/__main__.py"])
def test_a_run_keeps_the_command_that_began_it(tmp_path, monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [f"/somewhere/{program}", "train", "translate", "name=a b"])
    folder = begun(tmp_path)
    monkeypatch.setattr(sys, "argv", ["regard", "train", "--resume", "x"])
    opened(resume=folder)
    told = runs.provenance(folder, seconds=1.23, device="cpu")
    assert told["command"] == "regard train translate 'name=a b'"
    assert told["seconds"] == 1.2


def test_how_it_trains_may_change_when_a_run_goes_on(tmp_path):
    folder = begun(tmp_path)
    longer = Config(training=Training(steps=20_000))
    opened(longer, resume=folder)
    told = json.loads((folder / "config.json").read_text())
    assert told["settings"]["training"]["steps"] == 20_000


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(width=9), r"run: only training\.… may change when .* goes on, got another width"),
        (Config(training=Training(seed=1)), "run: the seed and the kind of optimizer may not"),
        (Config(training=Training(optimizer=Optimizer("sgd"))), "run: the seed and the kind of"),
        (Config(training=Training(steps=3)), r"is at step 7 already, got training\.steps=3"),
    ],
    ids=["width", "seed", "optimizer", "steps"],
)
def test_a_refused_change_leaves_the_run_as_it_was(tmp_path, config, message):
    folder = begun(tmp_path)
    before = (folder / "config.json").read_bytes()
    checkpoints.save(folder / "checkpoints", Checkpoint(7, {}, {}))
    with pytest.raises(ValueError, match=message):
        opened(config, resume=folder)
    assert (folder / "config.json").read_bytes() == before


def test_hardware_and_versions_are_told():
    assert runs.hardware().endswith("threads")
    assert {"python", "torch", "numpy"} <= runs.versions().keys()


def test_a_run_that_is_being_trained_is_left_alone(tmp_path):
    folder = begun(tmp_path / "x")
    before = (folder / "config.json").read_bytes()
    with run_lock.hold_lock(folder):
        for told in ({"resume": folder}, {"out": folder}):
            with pytest.raises(BusyError, match=f"run: {folder} is being trained by process"):
                opened(Config(training=Training(steps=20_000)), **told)
    assert (folder / "config.json").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")
def test_of_two_that_begin_at_once_in_one_folder_one_is_refused(tmp_path, monkeypatch):
    written, other = atomic_files.write_file, Config(training=Training(seed=1))

    def write(path, content):
        if path.name == "data.json":  # nothing says yet that there is a run
            with pytest.raises(BusyError, match=f"run: {tmp_path} is being trained by process"):
                runs.create_run_folder("translate", other, data={}, name="b", out=tmp_path)
        return written(path, content)

    monkeypatch.setattr(atomic_files, "write_file", write)
    begun(tmp_path)
    told = json.loads((tmp_path / "config.json").read_text())
    assert told["settings"] == to_json(Config())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"settings": 3}', '{"settings": {"training": 1}}']
)
@pytest.mark.parametrize("file", ["config.json", "data.json"])
def test_a_damaged_run_is_one_sentence(tmp_path, file, text):
    folder = begun(tmp_path)
    (folder / file).write_text(text)
    with pytest.raises(
        ValueError, match=r"config\.json is damaged|data\.json is dama|the data is n"
    ):
        opened(resume=folder)
