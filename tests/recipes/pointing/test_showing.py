"""Showing: a trace of how sure a model was of every point, in the numbers of who asked."""

import pytest
import torch
from torch.testing import assert_close

from regard.recipes import delaunay, hull, sort, tsp
from regard.recipes.pointing import showing
from regard.recipes.pointing.showing import Prediction
from regard.view.pointers import pointing, why_not
from tests.recipes.pointing.untrained import LSTM, NET, TOURING, WORDS, untrained

CASES = [
    (hull, NET, "hull"),
    (hull, LSTM, "hull"),
    (hull, WORDS, "hull"),
    (delaunay, NET, "triangles"),
    (tsp, TOURING, "tour"),
    (tsp, LSTM, "tour"),
    (sort, NET, "order"),
]
every = pytest.mark.parametrize(
    ("recipe", "model", "task"), CASES, ids=lambda x: getattr(x, "__name__", None)
)


def traced(recipe, model, text=None):
    return recipe.trace(untrained(recipe, model), text or recipe.EXAMPLE)


@every
def test_a_trace_is_one_of_points(recipe, model, task):
    trace = traced(recipe, model)
    assert why_not(trace) is None
    assert trace.outputs["task"] == task
    assert trace.axis("points").size == len(recipe.EXAMPLE.split())


@every
def test_rows_sum_to_one_at_most_and_the_rest_is_the_end(recipe, model, task):
    sums = traced(recipe, model).map("pointer").weights().sum(-1)
    assert (sums <= 1 + 1e-5).all()
    assert (sums[:3] > 0).all()


@pytest.mark.parametrize(
    ("recipe", "model"), [(hull, NET), (hull, LSTM), (sort, NET), (sort, TOURING)]
)
def test_the_likeliest_point_of_each_step_is_the_one_it_pointed_at(recipe, model):
    found = pointing(traced(recipe, model))
    assert found.weights.argmax(1).tolist()[: len(found.indices)] == found.indices


@pytest.mark.parametrize("model", [TOURING, LSTM], ids=["attention", "lstm"])
def test_a_tour_goes_on_to_the_likeliest_city_from_where_it_was_told_to_begin(model):
    found = pointing(traced(tsp, model))
    assert found.weights.argmax(1).tolist() == found.indices
    assert_close(found.weights[0], torch.eye(6)[found.indices[0]])


def test_who_chooses_where_to_begin_is_not_shown_to_be_sure_of_it():
    first = pointing(traced(sort, TOURING)).weights[0]
    assert 0 < first.min() <= first.max() < 1


def test_a_point_that_was_taken_is_not_taken_again():
    found = pointing(traced(sort, NET))
    for step, index in enumerate(found.indices):
        assert (found.weights[step + 1 :, index] == 0).all()


def test_points_stand_where_they_were_given():
    xy = traced(hull, NET, "10,20 90,10 50,50 80,90").axis("points").xy
    assert xy.tolist() == [[10, 20], [90, 10], [50, 50], [80, 90]]
    assert traced(sort, NET, "7 1 4").axis("points").xy.tolist() == [[0, 7], [1, 1], [2, 4]]


def test_points_in_another_order_are_shown_in_that_order():
    one = traced(hull, NET, "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9")
    other = traced(hull, NET, "0.8,0.9 0.5,0.5 0.1,0.2 0.9,0.1")
    moved = torch.tensor([3, 2, 0, 1])
    for name in ("pointer", "reading"):
        assert len(one.map(name).weights()) == len(other.map(name).weights())
    assert_close(one.map("pointer").weights(), other.map("pointer").weights()[:, moved.argsort()])
    reading = other.map("reading").weights()[moved.argsort()][:, moved.argsort()]
    assert_close(one.map("reading").weights(), reading)


def test_who_looked_at_whom_while_it_read_is_kept_for_few_points(monkeypatch):
    rows = traced(hull, NET).map("reading").weights()
    assert_close(rows.sum(-1), torch.ones(6))
    monkeypatch.setattr(showing, "MOST_READ", 5)
    assert [map.id for map in traced(hull, NET).maps] == ["pointer"]
    assert [map.id for map in traced(hull, LSTM).maps] == ["pointer"]


@every
def test_steps_are_named_by_the_points_they_took(recipe, model, task):
    trace = traced(recipe, model)
    taken = [f"→ {i}" for i in pointing(trace).indices]
    assert list(trace.axis("steps").labels) in (taken, [*taken, "end"])


@every
def test_looking_changes_no_answer(recipe, model, task):
    loaded = untrained(recipe, model)
    said = recipe.predict(loaded, recipe.EXAMPLE)
    trace = recipe.trace(loaded, recipe.EXAMPLE)
    assert sorted(trace.outputs["indices"]) == sorted(said.details["indices"])
    assert trace.header.title.endswith(f"points → {said.text.splitlines()[0]}")


def test_a_pointer_makes_no_other_candidates():
    assert Prediction("0 1 2").candidates == []
