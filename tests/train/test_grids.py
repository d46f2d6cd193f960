"""Tables of trainings: what is trained with which settings, what is skipped, what fails."""

import io
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from regard.train import grids, silent
from regard.train.grids import Grid, Row, plan_grid, train_in_parallel, train_sequentially
from regard.train.run_lock import hold_lock
from tests.train import tabled
from tests.train.tabled import GRIDS, WAITS, Config, Training

ROOT = Path(__file__).parent.parent.parent


def plan(tmp_path, *settings, grid="widths", only=None):
    return plan_grid("toy", grid, GRIDS[grid], settings, tmp_path, only=only)


def trained(plan, run=tabled.run):
    """What was told while the plan was carried out in this process."""
    told = []
    train_sequentially(plan, run, report=lambda cell: silent, log=told.append)
    return told


@pytest.fixture
def apart(monkeypatch):
    """Trainings in processes of their own find the toy recipe."""
    monkeypatch.setattr(grids, "REGARD_COMMAND", (sys.executable, "-m", "tests.train.tabled"))
    monkeypatch.chdir(ROOT)


def test_a_label_is_a_folder_in_letters_digits_and_dashes():
    assert Row("Dot, local-p (D = 10)").slug == "dot-local-p-d-10"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rows": ()}, "Grid: expected rows and seeds, got 0 and 1"),
        ({"seeds": ()}, "Grid: expected rows and seeds, got 2 and 0"),
        ({"rows": (Row("a b"), Row("A, b"))}, "Grid: expected labels that differ in letters or"),
        ({"rows": (Row("…"),)}, "Grid: expected labels that differ in letters or digits, got …"),
        ({"seeds": (1, 1)}, r"Grid: expected every seed once, got \(1, 1\)"),
        ({"against": "c"}, "Grid: expected against as one of a, b, got c"),
    ],
)
def test_a_grid_refuses_what_makes_no_table(changed, words):
    told = {"about": "", "base": Config(), "rows": (Row("a"), Row("b")), **changed}
    with pytest.raises(ValueError, match=words):
        Grid(**told)


def test_every_row_has_its_first_seed_before_any_has_its_second(tmp_path):
    assert [cell.folder for cell in plan(tmp_path).cells] == [
        tmp_path / "narrow-one-seed0",
        tmp_path / "as-it-is-seed0",
        tmp_path / "narrow-one-seed1",
        tmp_path / "as-it-is-seed1",
    ]


def test_what_is_typed_holds_for_all_rows_that_do_not_set_it_themselves(tmp_path):
    cells = plan(tmp_path, "width=5", "training.steps=3").cells
    assert [cell.config for cell in cells] == [
        Config(1, training=Training(3, 0)),
        Config(5, training=Training(3, 0)),
        Config(1, training=Training(3, 1)),
        Config(5, training=Training(3, 1)),
    ]


@pytest.mark.parametrize(
    ("only", "names"),
    [("as-it-is", ["as-it-is-seed0", "as-it-is-seed1"]), ("as-it-is-seed1", ["as-it-is-seed1"])],
)
def test_a_plan_can_be_narrowed_to_a_row_or_to_one_seed_of_it(tmp_path, only, names):
    assert [cell.name for cell in plan(tmp_path, only=only).cells] == names


def test_a_row_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    words = (
        r"grid: expected a row of widths \(narrow-one, as-it-is\), or one with its seed, such as "
        "narrow-one-seed0, got wide"
    )
    with pytest.raises(ValueError, match=words):
        plan(tmp_path, only="wide")


def test_the_seeds_are_those_of_the_grid(tmp_path):
    words = r"grid: widths has its own seeds \(0, 1\), got training.seed"
    with pytest.raises(ValueError, match=words):
        plan(tmp_path, "training.seed=3")


def test_a_folder_with_other_settings_is_refused_before_anything_runs(tmp_path):
    trained(plan(tmp_path, only="narrow-one-seed1"))
    words = "narrow-one-seed1 has a run with another training; take another --out"
    with pytest.raises(ValueError, match=words):
        plan(tmp_path, "training.steps=3")
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_finished_is_not_trained_again(tmp_path):
    trained(plan(tmp_path, only="as-it-is-seed0"))
    told = trained(plan(tmp_path))
    assert "as-it-is-seed0: 2 of 4" not in told
    assert "as-it-is-seed1: 4 of 4" in told
    assert [line for line in told if line.endswith(": finished")] == [
        f"{cell.name}: finished" for cell in plan(tmp_path).cells
    ]


def test_what_is_begun_goes_on_in_its_folder(tmp_path):
    trained(plan(tmp_path, only="as-it-is-seed0"))
    (tmp_path / "as-it-is-seed0" / "card.json").unlink()
    told = []

    def run(config, **where):
        told.append({name: path for name, path in where.items() if name != "report"})
        return tabled.run(config, **where)

    trained(plan(tmp_path), run)
    assert {"resume": tmp_path / "as-it-is-seed0"} in told
    assert {"out": tmp_path / "as-it-is-seed1"} in told


def test_a_run_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    found = plan(tmp_path, grid="broken")
    assert "13-seed0: failed: DivergedError: the loss is nan in /home/me/runs/13" in trained(found)
    assert [cell.is_finished for cell in found.cells] == [False, True]
    recorded = json.loads((tmp_path / "13-seed0" / "failed.json").read_text())
    assert "Traceback (most recent call last)" in recorded["traceback"]


def test_a_run_that_failed_is_tried_again(tmp_path, monkeypatch):
    trained(plan(tmp_path, grid="broken"))
    monkeypatch.setattr(tabled, "DIVERGES", 0)
    found = plan(tmp_path, grid="broken")
    trained(found)
    assert [(cell.state, cell.failure) for cell in found.cells] == [("finished", None)] * 2


def test_a_run_that_is_interrupted_ends_the_table_for_now(tmp_path):
    found = plan(tmp_path)
    run = tabled.SimpleNamespace(stopped="interrupted")
    assert trained(found, lambda config, **where: run) == ["narrow-one-seed0: 1 of 4"]
    assert {cell.state for cell in found.cells} == {"not finished"}


def test_side_by_side_comes_to_what_one_by_one_comes_to(tmp_path, apart):
    alone = plan(tmp_path / "alone", grid="broken")
    trained(alone)
    together, told = plan(tmp_path / "together", grid="broken"), []
    train_in_parallel(together, 2, told.append)
    assert [c.state for c in together.cells] == [c.state for c in alone.cells]
    assert told == ["13-seed0: begun, 1 to come", "as-it-is-seed0: begun, 0 to come"]


def test_a_process_that_dies_without_a_word_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(grids, "REGARD_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    found, told = plan(tmp_path, only="as-it-is-seed0"), []
    train_in_parallel(found, 1, told.append)
    assert found.cells[0].failure == "its process ended with code 3"
    assert told[1:] == ["as-it-is-seed0: failed: its process ended with code 3"]


def test_a_wish_to_stop_is_passed_on_and_nothing_has_failed(tmp_path, apart):
    found = plan(tmp_path, f"width={WAITS}", only="as-it-is")

    def stop():
        while not found.cells[0].has_run:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    train_in_parallel(found, 1, lambda line: None)
    assert [cell.state for cell in found.cells] == ["not finished"] * 2
    assert [cell.has_run for cell in found.cells] == [True, False]


def test_every_line_says_whose_it_is():
    stream = io.StringIO()
    named = grids.PrefixedStream(stream, "dot-seed0")
    named.write("one\ntwo\n")
    named.flush()
    assert stream.getvalue() == "dot-seed0: one\ndot-seed0: two\n"


def test_a_row_that_another_process_trains_is_left_to_it(tmp_path):
    table = plan(tmp_path, only="narrow-one")
    busy, other = table.cells
    with hold_lock(busy.folder):
        told = trained(table)
    assert f"{busy.name}: run: {busy.folder} is being trained by process {os.getpid()}" in told[1]
    assert (busy.failure, busy.is_finished, other.is_finished) == (None, False, True)
    trained(table)
    assert busy.is_finished


def test_a_damaged_folder_of_a_row_is_one_sentence(tmp_path):
    cell = plan(tmp_path).cells[0]
    cell.folder.mkdir(parents=True)
    (cell.folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"grid: .*config\.json is damaged: it has no settings"):
        plan(tmp_path)
    (cell.folder / "failed.json").write_text("[]")
    with pytest.raises(ValueError, match=r"failed\.json is damaged: expected a JSON"):
        _ = cell.failure
