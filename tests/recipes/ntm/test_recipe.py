"""A recipe: whose models it takes, and what it knows of one that is trained."""

from dataclasses import replace

import pytest

from regard.data.ntm.copy import Copy
from regard.recipes import copy, ngrams, recall, repeat_copy, sort_bits
from regard.recipes.copy import Evaluation
from regard.recipes.ntm.recipe import no_extra_metrics, training_task
from tests.recipes.untrained import NET, copying, saying, untrained

SHORT = replace(
    copy.RECIPE, card_evaluations={"2": Evaluation(2, 3), "9": Evaluation(9, 3, slots=16)}
)


def test_the_first_of_several_evaluations_stands_on_top():
    found = SHORT.card_metrics(saying(untrained(copy), copying))
    right = {"bits_per_sequence": pytest.approx(0), "perfect": 1}
    assert found == {**right, "9": right}


def test_a_memory_has_as_many_slots_as_an_evaluation_takes_and_not_fewer_than_it_had(monkeypatch):
    asked = []

    def evaluate(self, loaded, evaluation):
        asked.append(evaluation.slots)
        return dict.fromkeys(("sequences", "slots", "seed", "seconds", "hardware", "perfect"), 1)

    monkeypatch.setattr(type(SHORT), "evaluate", evaluate)
    for loaded in (untrained(copy), untrained(copy, NET)):
        SHORT.card_metrics(loaded)
    assert asked == [8, 16, None, None]


def test_what_is_asked_is_what_was_learned_unless_a_recipe_says_otherwise():
    assert training_task(Copy(bits=3), Evaluation()) == Copy(bits=3)
    assert no_extra_metrics(Copy(), Copy().parse_episode("01101001"), {}) == {}


def test_a_model_of_another_recipe_is_refused_in_one_sentence():
    message = (
        "^recall: expected a model that was trained by this recipe, got 'tiny', "
        "which learned 'copy'$"
    )
    with pytest.raises(ValueError, match=message):
        recall.evaluate(untrained(copy), recall.Evaluation())


MACHINES = {
    copy: {"width": 8, "vectors": {"least": 1, "most": 100}},
    repeat_copy: {
        **{"width": 8, "vectors": {"least": 1, "most": 20}},
        **{"count": {"least": 1, "most": 20}},
    },
    recall: {
        **{"width": 6, "vectors": {"least": 3, "most": 3}},
        **{"items": {"least": 2, "most": 12}},
    },
    ngrams: {"width": 1, "vectors": {"least": 1, "most": 500}},
    sort_bits: {
        **{"width": 8, "vectors": {"least": 1, "most": 20}},
        **{"weights": {"least": -1, "most": 1}},
    },
}
every = pytest.mark.parametrize(
    "recipe", MACHINES, ids=lambda recipe: recipe.__name__.rpartition(".")[2]
)


@every
def test_a_page_is_told_how_bits_are_put_together(recipe):
    input = recipe.input_spec(untrained(recipe).card)
    none = dict.fromkeys(("count", "items", "weights"))
    assert (input.kind, input.options) == ("bits", ())
    assert input.form == none | MACHINES[recipe]


@every
def test_what_a_page_shows_as_an_example_can_be_typed(recipe):
    card = untrained(recipe).card
    text = recipe.input_spec(card).example
    assert recipe.parse_input(card, text) == text


def put_together(form):
    """The longest text that a form allows, as docs/page.md says."""
    n = form["vectors"]["most"]
    weight = ":-0.5" if form["weights"] else ""
    vectors = [f"{i:b}".zfill(form["width"])[-form["width"] :] + weight for i in range(n)]
    if form["items"]:
        items = [" ".join([f"{i:06b}"] * n) for i in range(form["items"]["most"])]
        return f"{' | '.join(items)} ? {items[0]}"
    return " ".join(vectors) + (f" x {form['count']['most']}" if form["count"] else "")


@every
def test_the_most_that_a_form_allows_can_be_typed_and_not_much_more(recipe):
    card = untrained(recipe).card
    text = put_together(recipe.input_spec(card).form)
    assert recipe.parse_input(card, text) == text
    assert len(text.split()) <= recipe.input_spec(card).most
    if recipe is copy:
        with pytest.raises(ValueError, match=r"^copy: expected at most 100 vectors, got 200$"):
            recipe.parse_input(card, f"{text} {text}")


def test_more_steps_than_a_page_may_ask_for_are_refused():
    card = untrained(repeat_copy).card
    with pytest.raises(ValueError, match=r"^repeat_copy: expected at most 1000 steps, got 1004$"):
        repeat_copy.parse_input(card, "01101001 x 1000")


def test_what_is_typed_is_never_taken_for_a_file(tmp_path, monkeypatch):
    (tmp_path / "bits.txt").write_text("01101001")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"copy: expected vectors of 8 bits, .* got 'bits\.txt'"):
        copy.parse_input(untrained(copy).card, "bits.txt")


def test_the_numbers_of_maps_are_those_of_the_attention():
    edits = [{"at": "heads", "do": "hide", "cells": [[1, 2]]}]
    assert copy.to_model_edits(untrained(copy).card, "01101001", edits) == edits
