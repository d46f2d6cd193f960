"""Showing: a trace of how sure a model was of every point, in the numbers of who asked."""

import pytest
import torch
from torch.testing import assert_close

from regard import edit
from regard.looking import is_observed
from regard.recipes import delaunay, hull, sort, tsp
from regard.recipes.pointer import traces
from regard.recipes.pointer.traces import Prediction
from regard.view.server.page_edits import parse_edits
from regard.view.traces.pointer_trace import as_pointer_trace, why_not
from tests.recipes.pointer.untrained import LSTM, NET, TOURING, WORDS, untrained

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
    found = as_pointer_trace(traced(recipe, model))
    assert found.weights.argmax(1).tolist()[: len(found.indices)] == found.indices


@pytest.mark.parametrize("model", [TOURING, LSTM], ids=["attention", "lstm"])
def test_a_tour_goes_on_to_the_likeliest_city_from_where_it_was_told_to_begin(model):
    found = as_pointer_trace(traced(tsp, model))
    assert found.weights.argmax(1).tolist() == found.indices
    assert_close(found.weights[0], torch.eye(6)[found.indices[0]])


def test_who_chooses_where_to_begin_is_not_shown_to_be_sure_of_it():
    first = as_pointer_trace(traced(sort, TOURING)).weights[0]
    assert 0 < first.min() <= first.max() < 1


def test_a_point_that_was_taken_is_not_taken_again():
    found = as_pointer_trace(traced(sort, NET))
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
    monkeypatch.setattr(traces, "MAX_ATTENTION_POINTS", 5)
    assert [map.id for map in traced(hull, NET).maps] == ["pointer"]
    assert [map.id for map in traced(hull, LSTM).maps] == ["pointer"]


@every
def test_steps_are_named_by_the_points_they_took(recipe, model, task):
    trace = traced(recipe, model)
    taken = [f"→ {i}" for i in as_pointer_trace(trace).indices]
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


FREE = [(hull, NET), (hull, LSTM), (hull, WORDS), (sort, NET), (tsp, TOURING), (tsp, LSTM)]
free = pytest.mark.parametrize(
    ("recipe", "model"), FREE, ids=lambda x: getattr(x, "__name__", None)
)


@free
@pytest.mark.parametrize("prefix", [[3], [2, 0], [4, 1, 3]])
def test_an_answer_begins_as_it_is_told_to(recipe, model, prefix):
    trace = recipe.trace(
        untrained(recipe, model), recipe.EXAMPLE, prefix=" ".join(map(str, prefix))
    )
    assert trace.outputs["indices"][: len(prefix)] == prefix
    assert trace.axis("steps").labels[: len(prefix)] == tuple(f"→ {i}" for i in prefix)


@free
def test_an_empty_prefix_changes_no_bit(recipe, model):
    loaded = untrained(recipe, model)
    alone, told = (recipe.trace(loaded, recipe.EXAMPLE, **how) for how in ({}, {"prefix": " "}))
    assert alone.outputs == told.outputs
    for map, other in zip(alone.maps, told.maps, strict=True):
        assert torch.equal(map.all_weights(), other.all_weights())


def test_what_it_would_have_chosen_is_shown_beside_what_it_had_to():
    loaded = untrained(sort, NET)
    alone, told = (sort.trace(loaded, "7 1 4 9", prefix=prefix) for prefix in ("", "3 0"))
    first = [trace.map("pointer").weights()[0] for trace in (alone, told)]
    assert torch.equal(*first)
    assert told.map("pointer").weights()[2, [3, 0]].tolist() == [0, 0]


@every
def test_every_step_is_told_and_what_is_said_grows(recipe, model, task):
    told = []
    loaded = untrained(recipe, model)
    trace = recipe.trace(loaded, recipe.EXAMPLE, on_progress=lambda *given: told.append(given))
    answer = list(map(str, trace.outputs["indices"]))
    assert [done for done, _, _ in told] == list(range(len(told)))
    # who never ends is cut off
    assert len(told) - len(answer) == (0 if model is WORDS else 1)
    assert [text for *_, text in told] == [" ".join(answer[:n]) or None for n in range(len(told))]


@every
def test_what_is_told_may_end_it_at_once_and_nothing_is_left_open(recipe, model, task):
    loaded = untrained(recipe, model)

    def tell(done, total, text):
        if done == 2:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        recipe.trace(loaded, recipe.EXAMPLE, on_progress=tell)
    hooks = [m._forward_hooks or m._forward_pre_hooks for m in loaded.model.modules()]
    assert not any(hooks) and not is_observed()


@pytest.mark.parametrize(
    ("recipe", "model", "names"),
    [
        (hull, NET, {"pointer": ("pointer",), "reading": ("encoder.blocks.0.self_attention",)}),
        (hull, LSTM, {"pointer": ("pointer",)}),
        (hull, WORDS, {"pointer": ()}),
        (
            tsp,
            TOURING,
            {
                **{"pointer": ("decoder",), "reading": ("blocks.0.self_attention",)},
                **{"glimpse": ("decoder.glimpse",)},
            },
        ),
    ],
    ids=["attention", "lstm", "words", "tour"],
)
def test_maps_name_the_attention_that_they_are_of(recipe, model, names):
    assert {map.id: map.names for map in traced(recipe, model).maps} == names


def test_a_glimpse_is_what_each_head_saw_of_what_was_left():
    trace = traced(tsp, TOURING)
    cells, indices = trace.map("glimpse").all_weights()[0], trace.outputs["indices"]
    assert_close(cells.sum(-1), torch.ones(2, 6))
    for step, index in enumerate(indices):
        assert (cells[:, step + 1 :, index] == 0).all()


def hidden(recipe, model, at, cell):
    """A trace with one cell of a map hidden by a name of that map."""
    loaded = untrained(recipe, model)
    given = recipe.parse_input(loaded.card, recipe.EXAMPLE)
    edits = [{"at": at, "do": "hide", "cells": [cell]}]
    with edit(loaded.model, parse_edits(recipe.to_model_edits(loaded.card, given, edits))):
        return recipe.trace(loaded, given)


@pytest.mark.parametrize(
    ("recipe", "model", "at", "map"),
    [
        (hull, NET, "pointer", "pointer"),
        (hull, NET, "encoder.blocks.0.self_attention", "reading"),
        (hull, LSTM, "pointer", "pointer"),
        (tsp, TOURING, "decoder", "pointer"),
        (tsp, TOURING, "decoder.glimpse", "glimpse"),
        (tsp, TOURING, "blocks.0.self_attention", "reading"),
        (sort, NET, "pointer", "pointer"),
    ],
)
def test_a_cell_that_is_hidden_in_a_map_is_hidden_there_and_nowhere_else(recipe, model, at, map):
    trace = hidden(recipe, model, at, [1, 3])
    seen = trace.map(map).all_weights()[:, :, 1]
    zeros = (seen == 0).all(0).all(0).nonzero().flatten().tolist()
    # at its second step, an answer cannot go to where it began
    gone = set() if map == "reading" else {trace.outputs["indices"][0]}
    assert set(zeros) == {3} | gone


def test_a_cell_that_is_forced_in_a_map_is_the_one_that_was_meant():
    loaded = untrained(hull, NET)
    given = hull.parse_input(loaded.card, hull.EXAMPLE)
    force = {"at": "pointer", "do": "force", "query": 2, "key": 4, "weight": 0.875}
    with edit(loaded.model, parse_edits(hull.to_model_edits(loaded.card, given, [force]))):
        trace = hull.trace(loaded, given, prefix="0 1")
    assert float(trace.map("pointer").weights()[2, 4]) == pytest.approx(0.875)


def test_a_point_that_is_not_there_cannot_be_edited():
    loaded = untrained(hull, NET)
    with pytest.raises(ValueError, match="edit: expected points from 0 to 5, got 6"):
        hidden(hull, NET, "pointer", [0, 6])
    odd = [{"at": "pointer", "do": "heat", "temperature": 2}, {"do": "hide", "cells": 3}]
    assert hull.to_model_edits(loaded.card, hull.EXAMPLE, odd) == odd
