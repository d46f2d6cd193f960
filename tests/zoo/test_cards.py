"""The cards of the zoo say what may be done with a model, and how its seed was chosen."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from regard import load, zoo
from regard.train.grids import Row

ROOT = Path(__file__).parent.parent.parent
CARDS = {name: zoo.card(name) for name in zoo.names()}
EVERY = pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
# Those that a table trained, and no other command.
TABLED = {name: card for name, card in CARDS.items() if "grid=" in card["command"]}


def row(card: dict[str, Any]) -> dict[str, Any]:
    """The row of the table that a model is from."""
    grid, only = re.search(r"grid=(\w+) .*--only (\S+)", card["command"]).groups()
    text = (ROOT / "docs" / "results" / f"{card['recipe']}-{grid}.json").read_text()
    rows = {Row(row["label"]).slug: row for row in json.loads(text)["rows"]}
    return rows[only.removesuffix(f"-seed{card['seed']}")]


@EVERY
def test_every_card_says_the_licences_of_its_data_and_weights(card):
    assert set(card["licence"]) == {"data", "weights"}
    for licence in card["licence"].values():
        assert set(licence) == {"name", "means", "source"}
        assert licence["name"] and licence["means"]
        assert licence["source"].startswith("https://")


@EVERY
def test_what_learned_from_captions_is_for_research_alone(card):
    captions = card["settings"]["data"].get("name", "").startswith("multi30k")
    assert (zoo.licence(card) == "research, non-commercial") == captions
    assert captions or zoo.licence(card) == "Apache-2.0"


@EVERY
def test_every_card_says_how_its_seed_was_chosen(card):
    choice = card["seed_choice"]
    assert card["seed"] in choice["seeds"] and choice["how"]
    assert list(choice["development"]["numbers"]) == [str(seed) for seed in choice["seeds"]]


@pytest.mark.parametrize("card", TABLED.values(), ids=TABLED)
def test_a_card_names_every_seed_of_its_table(card):
    assert card["seed_choice"]["seeds"] == row(card)["seeds"]


def test_the_development_numbers_of_several_seeds_are_those_of_the_table():
    card = CARDS["repeat_copy"]
    numbers = card["seed_choice"]["development"]["numbers"]
    assert list(numbers.values()) == [x.get("solved_after") for x in row(card)["numbers"]]


@EVERY
def test_the_seed_of_every_card_is_the_best_by_development_numbers_or_the_default(card):
    if "was not chosen by any number" in card["seed_choice"]["how"]:
        assert card["seed"] == 0 and "training.seed" not in card["command"]
        return
    development, training = card["seed_choice"]["development"], card["settings"]["training"]
    solved = development["measure"].startswith("solved_after")
    sign = 1 if solved or training["monitor_mode"] == "lowest" else -1
    known = {seed: sign * x for seed, x in development["numbers"].items() if x is not None}
    assert min(known, key=known.__getitem__) == str(card["seed"])


def test_a_model_that_is_loaded_shows_its_licence():
    assert load("translate-en-de-rnn").card["licence"] == CARDS["translate-en-de-rnn"]["licence"]


def test_the_package_says_that_not_all_in_it_is_free():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "Non-Commercial" in told["project"]["license"]
    assert "regard/zoo/LICENCES.md" in told["project"]["license-files"]
    assert "zoo/LICENCES.md" in told["tool"]["setuptools"]["package-data"]["regard"]
