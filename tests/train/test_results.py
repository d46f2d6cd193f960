"""A grid's numbers as a table: means by hand, commands that can be typed, no place of a machine."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import results as kept
from regard.recipes import translate
from regard.train import results, silent
from regard.train.grids import Grid, Row, plan_grid, train_sequentially
from tests.train import tabled
from tests.train.tabled import GRIDS, Config


def gathered(folder, *settings, grid="widths", module=tabled):
    held = GRIDS[grid] if isinstance(grid, str) else grid
    plan = plan_grid("toy", grid if isinstance(grid, str) else "own", held, settings, folder)
    train_sequentially(plan, tabled.run, report=lambda cell: silent, log=lambda line: None)
    return results.collect_table(plan, module)


def test_a_table_is_gathered_by_hand(tmp_path):
    found = gathered(tmp_path, "training.steps=3")
    narrow = found["rows"][0]
    assert narrow["seeds"] == [0, 1]
    assert narrow["numbers"] == [
        {"bleu": 1, "test_2017.bleu": 0.5},
        {"bleu": 2, "test_2017.bleu": 0.5},
    ]
    assert (narrow["seconds"], narrow["failed"]) == ([60.0, 60.0], {})
    assert narrow["settings"] == ["training.steps=3", "width=1"]
    assert found["command"] == "regard train toy grid=widths training.steps=3"
    assert (found["hardware"], found["versions"]) == ("a card", {"torch": "2.0"})


def test_a_number_is_the_mean_and_half_the_range(tmp_path):
    assert results.table_rows(gathered(tmp_path)) == [
        ["", "BLEU", "2017", "against as it is", "time"],
        [
            "Narrow, one",
            "1.500 ± 0.500",
            "0.500 ± 0.000",
            "narrow-one-seed0<as-it-is-seed0 narrow-one-seed1<as-it-is-seed1",
            "1:00",
        ],
        ["as it is", "40.50 ± 0.50", "0.500 ± 0.000", "–", "1:00"],
    ]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([37.125, 37.375], "37.25 ± 0.12"),
        ([0, 0], "0.000 ± 0.000"),
        ([-2.0], "-2.000"),
        ([1e-5, 2e-5], "1.5e-05 ± 5e-06"),
        ([11_000_000], "11,000,000"),
    ],
)
def test_a_number_has_as_many_places_as_can_be_read(numbers, words):
    row = {"label": "a", "numbers": [{"x": n} for n in numbers], "failed": {}, "seconds": []}
    table = {"rows": [row | {"compared": None}], "columns": {"X": "x"}, "against": None}
    assert results.table_rows(table)[1] == ["a", words, "–"]


def test_without_columns_of_its_own_a_recipe_shows_every_number(tmp_path):
    plain = SimpleNamespace(Config=Config)
    head, *rows = results.table_rows(gathered(tmp_path, grid="broken", module=plain))
    assert head == ["", "bleu", "test_2017.bleu", "time"]
    assert rows == [["13", "failed", "failed", "–"], ["as it is", "4.000", "0.500", "1:00"]]


def test_what_failed_is_told_below_the_table_without_the_place_where(tmp_path):
    text = results.table_markdown(gathered(tmp_path, grid="broken"))
    assert text.endswith("\nFailed:\n\n- 13, seed 0: DivergedError: the loss is nan in 13\n")


@pytest.mark.parametrize(
    ("base", "command"),
    [
        (Config(), "regard train toy training.steps=3 width=1"),
        (tabled.WIDE, "regard train toy preset=wide training.steps=3 width=1"),
        (Config(41), "regard train toy grid=own training.steps=3 --only narrow-one"),
    ],
)
def test_the_command_of_a_row_trains_it(tmp_path, base, command):
    found = gathered(tmp_path, "training.steps=3", grid=Grid("", base, tabled.ROWS))
    assert found["rows"][0]["command"] == command


def test_no_place_of_the_machine_is_written(tmp_path):
    found = gathered(tmp_path, "corpus=/home/me/my pairs.tsv", grid="broken")
    results.write_table(tmp_path, found)
    text = (tmp_path / "table.json").read_text() + (tmp_path / "table.md").read_text()
    assert "/home" not in text and str(tmp_path) not in text
    assert shlex.split(found["command"])[-1] == "corpus=my pairs.tsv"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("~/data/a.tsv", "a.tsv"),
        ("'/a/b/c d'", "'c d'"),
        ("runs/a/b", "runs/a/b"),
        ("../a/b", "../a/b"),
        ("https://a.org/b/c", "https://a.org/b/c"),
        ("1 / 2, tokens/s", "1 / 2, tokens/s"),
    ],
)
def test_only_paths_from_the_root_or_home_are_shortened(text, left):
    assert results.without_folders(text) == left


def test_a_section_says_what_its_numbers_may_depend_on(tmp_path):
    text = results.table_markdown(gathered(tmp_path))
    assert text.startswith("## toy: widths\n\nHow wide it must be.\n\n")
    assert (
        "a card · torch 2.0 · seeds 0, 1 · 4:00 in total\n\n`regard train toy grid=widths`" in text
    )
    assert "| as it is | 40.50 ± 0.50 | 0.500 ± 0.000 | – | 1:00 | `regard train toy preset" in text


def test_what_a_recipe_says_of_a_table_stands_below_it(tmp_path):
    assert gathered(tmp_path)["notes"] == []
    said = SimpleNamespace(
        Config=Config, notes=lambda table: [f"{len(table['rows'])} rows.", "So."]
    )
    found = gathered(tmp_path, module=said)
    assert found["notes"] == ["2 rows.", "So."]
    assert results.table_markdown(found).endswith("` |\n\n- 2 rows.\n- So.\n")


def test_a_picture_of_a_table_stands_between_it_and_what_is_said(tmp_path):
    found = gathered(tmp_path) | {"picture": "images/a.png", "notes": ["So."]}
    assert results.table_markdown(found).endswith(
        "|\n\n![How wide it must be](images/a.png)\n\n- So.\n"
    )


def test_a_line_in_a_label_does_not_end_its_cell(tmp_path):
    found = gathered(tmp_path, grid=Grid("", Config(), (Row("p(y|x)"),)))
    assert "| p(y\\|x) | 4.000 |" in results.table_markdown(found)


def test_a_page_has_all_tables_in_order(tmp_path):
    found = [gathered(tmp_path / name, grid=name) for name in ("widths", "broken")]
    text = results.page_markdown(found)
    assert text.startswith("# Results\n\nWritten by `python -m benchmarks.results`")
    assert text.index("## toy: broken") < text.index("## toy: widths")
    assert text == results.page_markdown(found[::-1])


def test_tables_are_kept_and_what_is_no_table_is_left_out(tmp_path):
    results.write_table(tmp_path, gathered(tmp_path))
    place = kept.kept(tmp_path, tmp_path / "docs")
    assert place == tmp_path / "docs" / "results" / "toy-widths.json"
    (place.parent / "other.json").write_text('{"lines": {}}')
    assert kept.page(tmp_path / "docs") == results.page_markdown([json.loads(place.read_text())])


def long_table() -> dict:
    numbers = {f"{n}1-{n + 1}0.bleu_lc_tok": 40.0 - 5 * n for n in range(1, 7)}
    row = {"label": "Bahdanau", "numbers": [numbers], "seconds": [], "failed": {}, "compared": None}
    told = {"about": "Long", "command": "", "hardware": "", "versions": {}, "seeds": [0]}
    named = {"schema": 1, "recipe": "translate", "grid": "long", "columns": {}, "against": None}
    return named | told | {"rows": [row | {"command": ""}]}


def test_the_page_says_what_the_recipe_says_now_and_shows_the_picture(tmp_path, monkeypatch):
    for name in ("results", "images"):
        (tmp_path / name).mkdir()
    (tmp_path / "results" / "translate-long.json").write_text(json.dumps(long_table()))
    monkeypatch.setattr(translate, "notes", lambda table: ["So it is."], raising=False)
    assert "![Long](images/lengths.png)\n\n- So it is.\n" in kept.page(tmp_path)
    pytest.importorskip("matplotlib")
    assert kept.pictures(tmp_path) == [tmp_path / "images" / "lengths.png"]
    assert (tmp_path / "images" / "lengths.png").stat().st_size > 1000
    assert kept.pictures(tmp_path / "empty") == []


def test_a_folder_without_a_table_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"results: expected .*table.json, as a grid leaves it"):
        kept.kept(tmp_path)
    (tmp_path / "table.json").write_text("{}")
    with pytest.raises(SystemExit, match="results: expected a table of schema 1 in"):
        kept.kept(tmp_path)


def test_the_page_in_docs_is_what_its_tables_say():
    path = Path(kept.DOCS / "results.md")
    assert path.read_text(encoding="utf-8") == kept.page()
