"""What a page is told about a model."""

from dataclasses import replace

from regard.view.server.available_models import Lesson, LoadedModel
from tests.view.server import house


def test_a_model_is_described_by_its_card():
    told = house.offer(house.Toy()).to_json()
    assert told.pop("input") == house.offer(house.Toy()).input.to_json()
    assert told == {
        "name": "toy",
        "about": "a toy",
        "recipe": "toys",
        "family": "toy",
        "run": False,
        "numbers": {"right": 0.5},
        "licence": {},
    }


def test_the_licences_of_data_and_weights_are_told_where_the_card_has_them():
    data = {"name": "research", "means": "no trade", "source": "https://a"}
    licence = {"data": data, "weights": {"name": "x" * 1000}, "code": data}
    told = replace(house.offer(house.Toy()), card={"licence": licence}).to_json()["licence"]
    assert told["data"] == {"name": "research", "means": "no trade"}
    assert told["weights"] == {"name": "x" * 300, "means": ""}
    assert set(told) == {"data", "weights"}


def test_a_card_of_a_strange_form_troubles_nobody():
    strange = replace(house.offer(house.Toy()), card={"numbers": 3, "config": "x", "licence": [1]})
    told = strange.to_json()
    assert (told["numbers"], told["family"], told["recipe"]) == ({}, "", "")


def test_models_and_lessons_are_known_by_what_they_can_do():
    assert isinstance(house.Toy(), LoadedModel)
    assert isinstance(house.Lesson(), Lesson)
    assert not isinstance(house.Lesson(), LoadedModel)
