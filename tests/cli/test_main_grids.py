"""Whole configs and whole tables by name, from the command line."""

import json
import sys

import pytest

from regard.cli import main
from regard.train import grids
from tests.train import tabled
from tests.train.test_grids import ROOT


@pytest.fixture
def regard(capsys, monkeypatch, tmp_path):
    """Run a command of a recipe with grids: its exit code, what it printed, what it noted."""
    monkeypatch.setitem(main.RECIPES, "toy", ("tests.train.tabled", "a toy"))
    monkeypatch.chdir(tmp_path)

    def run(words: str) -> tuple[int, str, str]:
        code = main.main(words.split())
        return (code, *capsys.readouterr())

    return run


def test_a_grid_is_trained_and_shown_and_written(regard, tmp_path):
    code, out, err = regard("train toy grid=widths training.steps=3")
    folder = tmp_path / "runs" / "toy" / "grid-widths"
    assert code == 0
    assert "  as it is     40.50 ± 0.50   0.500 ± 0.000  –" in out
    assert "as-it-is-seed1: 4 of 4\nas-it-is-seed1: begins with width 40\n" in err
    found = json.loads((folder / "table.json").read_text())
    assert [row["label"] for row in found["rows"]] == ["Narrow, one", "as it is"]
    assert (folder / "table.md").read_text().startswith("## toy: widths\n")


def test_a_grid_asked_for_again_trains_nothing_and_says_the_same(regard, monkeypatch):
    before = regard("train toy grid=widths --json")[1]
    monkeypatch.setattr(tabled, "run", lambda config, **where: 1 / 0)
    after = regard("train toy grid=widths --json")[1]
    assert json.loads(before) == json.loads(after)
    assert json.loads(after)["grid"] == "widths"


def test_one_row_alone_writes_no_table(regard, tmp_path):
    assert regard("train toy grid=widths --only as-it-is --out here")[:2] == (0, "")
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == [
        "as-it-is-seed0",
        "as-it-is-seed1",
    ]


def test_a_row_that_fails_is_exit_code_1_and_the_table_is_there(regard, tmp_path):
    code, out, err = regard("train toy grid=broken --out here")
    assert code == 1
    assert err.endswith("regard train: 1 of 2 failed: 13-seed0\n")
    assert "  13        failed  failed  –" in out
    row = json.loads((tmp_path / "here" / "table.json").read_text())["rows"][0]
    assert row["failed"] == {"0": "DivergedError: the loss is nan in 13"}


def test_an_interrupted_grid_says_how_to_go_on(regard, monkeypatch, tmp_path):
    stopped = tabled.SimpleNamespace(stopped="interrupted")
    monkeypatch.setattr(tabled, "run", lambda config, **where: stopped)
    code, out, err = regard("train toy grid=widths --out here")
    assert (code, out) == (0, "")
    assert err.endswith("4 of 4 not finished; the same command goes on\n")


def test_runs_side_by_side_make_the_same_table(regard, monkeypatch, tmp_path):
    alone = json.loads(regard("train toy grid=broken width=6 --out alone --json")[1])
    monkeypatch.setattr(grids, "REGARD_COMMAND", (sys.executable, "-m", "tests.train.tabled"))
    monkeypatch.chdir(ROOT)
    words = f"train toy grid=broken width=6 --out {tmp_path / 'together'} --jobs 2 --json"
    together = json.loads(regard(words)[1])
    assert together.pop("folder") != alone.pop("folder")
    assert together == alone


def test_help_lists_whole_configs_and_grids(regard):
    _, out, _ = regard("train toy --help")
    assert "Whole configs for `regard train toy preset=NAME`:\n  small, wide\n" in out
    assert "  widths  How wide it must be\n" in out
    assert "  width           4     a whole number\n" in out


def test_help_shows_the_fields_as_they_would_be(regard):
    assert "  width           40    a whole number\n" in regard("train toy preset=wide --help")[1]
    code, out, _ = regard("train toy preset=gone --help")
    assert code == 0 and "  width           4     a whole number\n" in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("toy --jobs 2", "expected --jobs and --only beside grid=NAME"),
        ("toy --only a", "expected --jobs and --only beside grid=NAME"),
        ("toy grid=widths --resume a", "expected grid=NAME without --resume: the same command"),
        ("toy grid=wide", "expected grid=… with one of widths, broken, got wide; did you mean w"),
        ("grid=wide", f"expected a recipe ({', '.join(main.RECIPES)}, toy), got grid=wide"),
        ("toy grid=widths --only a", "grid: expected a row of widths (narrow-one, as-it-is)"),
    ],
)
def test_a_grid_asked_for_wrongly_is_one_line_and_exit_code_2(regard, words, line):
    code, out, err = regard(f"train {words}")
    assert (code, out) == (2, "")
    assert err.startswith(f"regard train: {line}")
    assert err.count("\n") == 1
