"""What was typed becomes values, or one line that says what there is."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from regard.cli import resolve
from regard.cli.console import escape_unprintable
from regard.cli.resolve import UsageError
from tests.train import tabled
from tests.train.tabled import Config, Training


@pytest.fixture(autouse=True)
def toy(monkeypatch) -> ModuleType:
    """A recipe with whole configs and grids by name."""
    monkeypatch.setitem(resolve.RECIPES, "toy", ("tests.train.tabled", "a toy"))
    return tabled


def test_a_recipe_begins_with_its_own_config_or_with_one_that_it_offers():
    assert resolve.recipe_and_config("toy", None, ["width=3"]) == ("toy", Config(3))
    found = resolve.recipe_and_config("toy", None, ["training.steps=3", "preset=wide"])
    assert found == ("toy", Config(40, training=Training(3)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["preset=wild"],
            "expected preset=… with one of small, wide, got wild; did you mean wide?",
        ),
        (["preset=wide", "preset=small"], "expected preset=… once, got wide and small"),
        (["preset=wide", "big=3"], "Config has no field 'big'; it has width, corpus, training"),
    ],
)
def test_what_is_not_offered_is_refused_with_what_is(settings, words):
    with pytest.raises(UsageError) as refused:
        resolve.recipe_and_config("toy", None, settings)
    assert refused.value.format_message() == words


def test_a_recipe_without_configs_by_name_says_so(monkeypatch):
    monkeypatch.delattr(tabled, "PRESETS")
    with pytest.raises(
        UsageError, match="expected preset=… with nothing: this recipe has none, got"
    ):
        resolve.recipe_and_config("toy", None, ["preset=wide"])


def test_a_run_that_goes_on_has_its_config_already(tmp_path):
    told = {"schema": 1, "recipe": "toy", "settings": {"width": 6}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert resolve.recipe_and_config(None, tmp_path, ["width=7"]) == ("toy", Config(7))
    with pytest.raises(UsageError, match="expected preset=wide for a new run, got --resume"):
        resolve.recipe_and_config(None, tmp_path, ["preset=wide"])
    with pytest.raises(UsageError, match="is a run of toy, got translate"):
        resolve.recipe_and_config("translate", tmp_path, [])


def test_a_grid_goes_where_it_is_told_or_under_its_name():
    assert resolve.grid_plan("toy", "widths", [], None, None).folder == Path("runs/toy/grid-widths")
    found = resolve.grid_plan("toy", "widths", ["training.steps=3"], Path("here"), "as-it-is-seed1")
    assert [cell.folder for cell in found.cells] == [Path("here/as-it-is-seed1")]
    assert found.cells[0].config == Config(40, training=Training(3, 1))


@pytest.mark.parametrize(
    ("grid", "settings", "words"),
    [
        ("width", [], "expected grid=… with one of widths, broken, got width; did you mean widths"),
        (
            "widths",
            ["preset=small"],
            "expected no preset=… beside grid=widths, which begins with its",
        ),
        ("widths", ["depth=3"], "Config has no field 'depth'"),
    ],
)
def test_a_grid_that_makes_no_sense_was_typed_wrongly(grid, settings, words):
    with pytest.raises(UsageError, match=words):
        resolve.grid_plan("toy", grid, settings, None, None)


def test_beams_are_told_to_a_recipe_only_if_they_were_typed():
    def beamed(loaded, text, *, beam=5):
        return beam

    def plain(loaded, text):
        return text

    assert resolve.search_options("toy", beamed, 3) == {"beam": 3}
    assert (
        resolve.search_options("toy", beamed, None)
        == resolve.search_options("toy", plain, None)
        == {}
    )
    with pytest.raises(UsageError, match="toy searches with no beams; leave --beam out"):
        resolve.search_options("toy", plain, 3)


def test_a_proof_is_asked_of_a_recipe_only_if_it_was_typed():
    def proved(loaded, text, *, prove=False):
        return prove

    def plain(loaded, text):
        return text

    assert resolve.proof_options("toy", proved, True) == {"prove": True}
    assert (
        resolve.proof_options("toy", proved, False)
        == resolve.proof_options("toy", plain, False)
        == {}
    )
    with pytest.raises(UsageError, match="toy can prove no answer; leave --prove out"):
        resolve.proof_options("toy", plain, True)


def test_an_answer_may_have_details():
    assert resolve.details(SimpleNamespace(text="a", details={"length": 2.5})) == {
        "details": {"length": 2.5}
    }
    assert resolve.details(SimpleNamespace(text="a", details={})) == {}
    assert resolve.details(SimpleNamespace(text="a")) == {}


def test_a_recipe_may_say_what_its_models_can_be_asked(monkeypatch, toy):
    assert resolve.example_input(toy) == "I see a cat."
    monkeypatch.setattr(toy, "EXAMPLE", "0110", raising=False)
    assert resolve.example_input(toy) == "0110"


def test_a_word_is_taken_out_of_the_settings():
    assert resolve.split_setting("grid", ["a=1", "grid=x", "b=grid=y"]) == (
        "x",
        ["a=1", "b=grid=y"],
    )
    assert resolve.split_setting("grid", ["a=1"]) == (None, ["a=1"])


NO_MEMORY = "not enough memory for what was asked; ask for less at a time"


@pytest.mark.parametrize(
    ("error", "deserved"),
    [
        (BrokenPipeError(), (0, "")),
        (KeyboardInterrupt(), (1, "interrupted")),
        (UsageError("load: no"), (2, "no")),
        (OSError(2, "No such file", "a"), (1, "No such file: a")),
        (ValueError("load: no"), (1, "no")),
        (KeyError("a"), (1, "KeyError: 'a'; run again with --debug to see where")),
        (MemoryError("745 GiB"), (1, NO_MEMORY)),
        (RuntimeError("[enforce fail] can't allocate memory: you tried 9 bytes"), (1, NO_MEMORY)),
    ],
    ids=repr,
)
def test_an_error_deserves_a_code_and_a_line(error, deserved):
    assert resolve.exit_code_and_message(error) == deserved


def test_a_recipe_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(UsageError, match=r"sort, toy\), got tyo; did you"):
        resolve.recipe_module("tyo")
    assert resolve.recipe_module("toy") is sys.modules["tests.train.tabled"]


@pytest.mark.parametrize("kind", [ValueError, resolve.UsageError, KeyError, OSError])
def test_an_error_of_any_length_is_shown_short_with_its_way_out(kind):
    line = resolve.exit_code_and_message(
        kind("expected bits, got " + "0" * 10**6 + "; the way out")
    )[1]
    assert len(line) < 610
    assert "expected bits, got 000" in line and "; the way out" in line


def test_an_error_that_repeats_what_is_no_text_is_short_as_it_is_shown():
    line = resolve.exit_code_and_message(
        ValueError("expected a file, got " + "\udcff\x1b\U0010ffff" * 999)
    )[1]
    assert len(line) < 610
    assert line == escape_unprintable(line)
