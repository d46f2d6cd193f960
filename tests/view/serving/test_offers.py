"""What a page is told about a model."""

from dataclasses import replace

from regard.view.serving.offers import Lesson, Model
from tests.view.serving import house


def test_a_model_is_described_by_its_card():
    told = house.offer(house.Toy()).described()
    assert told.pop("input") == house.offer(house.Toy()).input.described()
    assert told == {
        "name": "toy",
        "about": "a toy",
        "recipe": "toys",
        "family": "toy",
        "run": False,
        "numbers": {"right": 0.5},
    }


def test_a_card_of_a_strange_form_troubles_nobody():
    strange = replace(house.offer(house.Toy()), card={"numbers": 3, "config": "x"})
    told = strange.described()
    assert (told["numbers"], told["family"], told["recipe"]) == ({}, "", "")


def test_models_and_lessons_are_known_by_what_they_can_do():
    assert isinstance(house.Toy(), Model)
    assert isinstance(house.Lesson(), Lesson)
    assert not isinstance(house.Lesson(), Model)
