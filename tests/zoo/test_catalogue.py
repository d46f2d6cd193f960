"""A model is found by its name or by its folder, and an error says what there is."""

import json

import pytest

from regard.zoo import catalogue

CARD = {"schema": 1, "recipe": "copy", "model": "ntm", "config": {}}


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    for name in ("translate-en-fr-small", "copy"):
        (tmp_path / "zoo" / name).mkdir(parents=True)
        (tmp_path / "zoo" / name / "card.json").write_text(json.dumps(CARD | {"name": name}))
    (tmp_path / "zoo" / "__pycache__").mkdir()
    monkeypatch.setattr(catalogue, "HERE", tmp_path / "zoo")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "zoo"


def test_the_zoo_is_the_folders_that_have_a_card(zoo):
    assert catalogue.names() == ["copy", "translate-en-fr-small"]
    assert catalogue.card("copy") == CARD | {"name": "copy"}
    assert catalogue.find_model_folder("copy") == zoo / "copy"


def test_a_name_of_the_zoo_goes_before_a_folder_of_that_name(zoo, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "card.json").write_text("{}")
    assert catalogue.find_model_folder("copy") == zoo / "copy"
    assert catalogue.find_model_folder("./copy").resolve() == tmp_path / "copy"
    assert catalogue.find_model_folder(tmp_path / "copy") == tmp_path / "copy"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("translate-en-fr", "^load: no trained model named 'translate-en-fr'; the zoo has copy, "),
        ("translate-en-fr", "did you mean translate-en-fr-small?"),
        ("xyz", "the zoo has copy, translate-en-fr-small$"),
        ("", "^load: no trained model named ''"),
        (
            "runs/translate/3",
            "^load: no folder runs/translate/3; expected a run's folder or",
        ),
        ("../zoo/copies", "^load: no folder ../zoo/copies"),
        ("zoo/copy/card.json", "^load: expected a folder, got the file zoo/copy/card.json"),
        ("a\0b", "^load: no trained model named 'a.x00b'"),
        ("x" * 100_000, "^load: no trained model named"),
        ("https://example.org/model", "^load: no folder https://example.org/model"),
        ("two\nlines", r"^load: no trained model named 'two\\nlines'"),
    ],
)
def test_an_unknown_model_is_one_line_that_says_what_there_is(zoo, name, words):
    with pytest.raises(ValueError, match=words) as error:
        catalogue.find_model_folder(name)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 400


def test_an_empty_zoo_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "HERE", tmp_path)
    with pytest.raises(ValueError, match="no trained model named 'copy'; the zoo has nothing yet"):
        catalogue.find_model_folder("copy")


def test_a_run_that_has_not_finished_says_how_to_go_on(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ValueError, match="a run that has not finished; `regard train --resume /"):
        catalogue.find_model_folder(tmp_path)


def test_a_folder_that_is_no_model_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"has no card.json, so it is no trained model"):
        catalogue.find_model_folder(tmp_path)


def test_a_run_remembers_its_recipe_and_settings(tmp_path):
    told = {"schema": 1, "recipe": "translate", "settings": {"seed": 3}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert catalogue.read_run_settings(tmp_path) == ("translate", {"seed": 3})


@pytest.mark.parametrize(
    "told", [{}, {"schema": 2, "recipe": "a", "settings": {}}, {"schema": 1, "recipe": ["a"]}]
)
def test_a_run_that_says_too_little_cannot_go_on(tmp_path, told):
    (tmp_path / "config.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"config.json: expected schema 1, a recipe and its sett"):
        catalogue.read_run_settings(tmp_path)


def test_a_folder_that_is_no_run_cannot_go_on(tmp_path):
    with pytest.raises(ValueError, match=r"has no config.json"):
        catalogue.read_run_settings(tmp_path)
    with pytest.raises(ValueError, match=r"no folder .*, so there is no run to go on with"):
        catalogue.read_run_settings(tmp_path / "gone")


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ({"licence": {"weights": {"name": "CC-BY-2.0"}}}, "CC-BY-2.0"),
        ({}, "unknown"),
        ({"licence": "free"}, "unknown"),
        ({"licence": {"weights": {"name": 3}}}, "unknown"),
    ],
)
def test_a_licence_that_a_card_does_not_name_is_unknown(card, name):
    assert catalogue.licence(card) == name


@pytest.mark.parametrize(
    ("card", "line"),
    [
        (
            {"about": "English to French", "numbers": {"bleu": 31.25, "loss": 2}},
            "English to French, bleu 31.25",
        ),
        ({"recipe": "translate", "numbers": {}}, "translate"),
        ({"recipe": "translate", "numbers": [3]}, "translate"),
    ],
)
def test_a_card_makes_a_line(card, line):
    assert catalogue.describe_card(card) == line
