"""A recipe: whose models it takes, and what it knows of one that is trained."""

from dataclasses import replace

import pytest

from regard.data.copying import Copy
from regard.recipes import copy, recall
from regard.recipes.copy import Evaluation
from regard.recipes.machines.recipe import itself, nothing
from tests.recipes.untrained import NET, copying, saying, untrained

SHORT = replace(copy.RECIPE, numbers={"2": Evaluation(2, 3), "9": Evaluation(9, 3, slots=16)})


def test_the_first_of_several_evaluations_stands_on_top():
    found = SHORT.known(saying(untrained(copy), copying))
    right = {"bits_per_sequence": pytest.approx(0), "perfect": 1}
    assert found == {**right, "9": right}


def test_a_memory_has_as_many_slots_as_an_evaluation_takes_and_not_fewer_than_it_had(monkeypatch):
    asked = []

    def evaluate(self, loaded, evaluation):
        asked.append(evaluation.slots)
        return dict.fromkeys(("sequences", "slots", "seed", "seconds", "hardware", "perfect"), 1)

    monkeypatch.setattr(type(SHORT), "evaluate", evaluate)
    for loaded in (untrained(copy), untrained(copy, NET)):
        SHORT.known(loaded)
    assert asked == [8, 16, None, None]


def test_what_is_asked_is_what_was_learned_unless_a_recipe_says_otherwise():
    assert itself(Copy(bits=3), Evaluation()) == Copy(bits=3)
    assert nothing(Copy(), Copy().read("01101001"), {}) == {}


def test_a_model_of_another_recipe_is_refused_in_one_sentence():
    message = (
        "^recall: expected a model that was trained by this recipe, got 'tiny', "
        "which learned 'copy'$"
    )
    with pytest.raises(ValueError, match=message):
        recall.evaluate(untrained(copy), recall.Evaluation())
