"""Round trips: lengths by hand, gaps above the best ones, and proofs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import edit, edits, load, look
from regard.data.geometry import optimal_tours, tours
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes import tsp
from regard.recipes.pointer.problems import Problems, example_points
from regard.view.server.page_edits import parse_edits
from tests.recipes.pointer.untrained import LSTM, TOURING, WORDS, untrained

SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)
AROUND, ACROSS = [0, 1, 2, 3], [0, 2, 1, 3]
CROSSING = 2 + 2 * math.sqrt(2)


def judged(answers, truths=None, points=SQUARE, **how):
    posed = Problems([points] * len(answers), truths)
    return tsp.RECIPE.answer_metrics(posed, answers, tsp.Evaluation(**how))


def test_lengths_and_gaps_by_hand():
    found = judged([AROUND, ACROSS])
    assert found["length"] == pytest.approx((4 + CROSSING) / 2)
    assert found["optimal"] == 4
    assert found["gap"] == pytest.approx((4 + CROSSING) / 8 - 1)


def test_the_tours_of_a_file_are_what_a_gap_is_above():
    found = judged([AROUND], [ACROSS])
    assert found["optimal"] == pytest.approx(CROSSING)
    assert found["gap"] == pytest.approx(4 / CROSSING - 1)


def test_of_many_cities_the_best_tours_are_found_only_if_asked_for():
    points = np.random.default_rng(0).random((13, 2))
    tour = [*range(13)]
    assert judged([tour], points=points) == {
        "length": tours.tour_length(points, tour),
        "optimal": None,
        "gap": None,
    }
    found = judged([tour], points=points, prove=True)
    best = tours.tour_length(points, tours.held_karp_tour(points))
    assert found["optimal"] == pytest.approx(best)


def test_a_tour_is_said_from_city_0_on():
    text, details = tsp.RECIPE.describe_answer(SQUARE, [2, 1, 0, 3], False)
    assert text == "0 1 2 3\nlength 4"
    assert details == {"indices": AROUND, "length": 4, "optimal": None, "gap": None}


def test_a_proof_says_how_far_the_best_is():
    text, details = tsp.RECIPE.describe_answer(SQUARE, ACROSS, True)
    assert text == "0 2 1 3\nlength 4.82843, 20.71 % above the shortest, 4"
    assert (details["optimal"], details["best"], details["proved"]) == (4, AROUND, True)
    assert details["gap"] == pytest.approx(CROSSING / 4 - 1)


@pytest.mark.parametrize("cities", [5, 11, 13])
def test_a_proof_agrees_with_dynamic_programming(cities):
    points = np.random.default_rng(cities).random((cities, 2))
    typed = " ".join(f"{x!r},{y!r}" for x, y in points.tolist())
    found = tsp.predict(untrained(tsp, TOURING), typed, prove=True).details
    best = tours.held_karp_tour(points)
    assert (found["best"], found["proved"]) == (best, True)
    assert found["optimal"] == pytest.approx(tours.tour_length(points, best))
    assert found["gap"] == pytest.approx(found["length"] / found["optimal"] - 1)


def test_what_is_not_proved_in_time_says_what_is_known(monkeypatch):
    late = optimal_tours.Proof(AROUND, 4.0, False, 3.5)
    monkeypatch.setattr(tsp, "_best_tour", lambda points: late)
    text, details = tsp.RECIPE.describe_answer(SQUARE, AROUND, True)
    assert text.endswith("0.00 % above the shortest found in a minute, 4; none is shorter than 3.5")
    assert (details["proved"], details["bound"]) == (False, 3.5)


@pytest.mark.parametrize("config", [TOURING, LSTM], ids=["attention", "lstm"])
def test_cities_that_are_all_one_have_a_tour_of_no_length(config):
    found = tsp.predict(untrained(tsp, config), "2,3 2,3 2,3 2,3 2,3", prove=True)
    assert found.text.endswith("\nlength 0, 0.00 % above the shortest, 0")
    assert sorted(found.details["indices"]) == [0, 1, 2, 3, 4]
    assert found.details["gap"] == 0
    assert judged([AROUND], points=0 * SQUARE)["gap"] == 0


@pytest.mark.parametrize("text", ["0.1,0.2 0.3,0.4", " ".join(["0.5,0.5"] * 1001)])
def test_too_few_or_too_many_cities_are_refused(text):
    count = len(text.split())
    with pytest.raises(ValueError, match=f"^tsp: expected 3 to 1000 cities, got {count}$"):
        tsp.predict(untrained(tsp, TOURING), text)


@pytest.mark.parametrize("augment", [0, 9])
def test_there_are_eight_ways_to_turn_a_square(augment):
    with pytest.raises(ValueError, match=f"tsp: expected augment .*, got {augment}"):
        tsp.Evaluation(augment=augment)


@pytest.mark.parametrize("weight", [0.5, math.nan, math.inf])
def test_the_shortest_tour_counts_no_less_than_another(weight):
    with pytest.raises(
        ValueError, match=f"^tsp: expected best_tour_weight of at least 1, got {weight}$"
    ):
        tsp.Config(best_tour_weight=weight)


def test_a_vocabulary_makes_no_tours():
    few = replace(tsp.Config().data, min_points=3, max_points=7, points_step=1)
    with pytest.raises(
        ValueError, match="tsp: expected a model that points, got output=vocabulary"
    ):
        tsp.Config(data=few, model=WORDS)


def test_files_may_hold_instances_of_several_sizes():
    random = np.random.default_rng(0)
    points = [random.random((n, 2)) for n in (5, 7, 5, 3)]
    model = untrained(tsp, TOURING).model
    answers = tsp.RECIPE.decode_answers(model, points, tsp.Tour(), tsp.Evaluation())
    assert [sorted(answer) for answer in answers] == [[*range(n)] for n in (5, 7, 5, 3)]
    alone = [tsp.RECIPE.decode_answers(model, [p], tsp.Tour(), tsp.Evaluation())[0] for p in points]
    assert answers == alone


def test_the_lstm_of_the_paper_is_offered_by_name():
    assert isinstance(tsp.PRESETS["lstm"].model, PointerNetworkConfig)
    assert (tsp.PRESETS["lstm"].data.min_points, tsp.PRESETS["lstm"].data.max_points) == (5, 20)


@pytest.mark.parametrize("beam", [1, 4])
def test_beams_search_for_tours_that_go_to_every_city(beam):
    points = list(np.random.default_rng(0).random((3, 6, 2)))
    how, model = tsp.Evaluation(beam=beam), untrained(tsp, TOURING).model
    for tour in tsp.RECIPE.decode_answers(model, points, tsp.Tour(5, 6), how):
        assert sorted(tour) == [*range(6)]


def test_beams_and_many_ways_to_read_are_refused_together():
    with pytest.raises(ValueError, match="tsp: expected beam without augment and starts"):
        tsp.Evaluation(beam=2, augment=8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="tsp: expected a GPU for device=cuda, got none"):
        tsp.Evaluation(device="cuda")


def test_tours_are_looked_for_where_that_is_said():
    found = tsp.evaluate(untrained(tsp, TOURING), tsp.Evaluation(5, 3, device="cpu"))
    assert found == tsp.evaluate(untrained(tsp, TOURING), tsp.Evaluation(5, 3)) | {
        "seconds": found["seconds"]
    }


CITIES = " ".join(f"{x:.3f},{y:.3f}" for x, y in np.random.default_rng(1).random((9, 2)))


def test_an_edit_is_made_to_the_tour_that_begins_at_city_0():
    loaded = untrained(tsp, TOURING)
    alone = tsp.trace(loaded, CITIES, prefix="0")
    with edit(loaded.model, {"decoder": edits.heat(1.0)}):
        same, said = tsp.trace(loaded, CITIES), tsp.predict(loaded, CITIES)
    assert same.outputs == alone.outputs
    assert said.details["indices"] == tours.canonical_tour(alone.outputs["indices"])


@pytest.mark.parametrize("model", [TOURING, LSTM], ids=["attention", "lstm"])
def test_what_is_hidden_from_it_is_not_gone_to(model):
    loaded = untrained(tsp, model)
    given = tsp.parse_input(loaded.card, CITIES)
    second = tsp.trace(loaded, given, prefix="0").outputs["indices"][1]
    at = "decoder" if model is TOURING else "pointer"
    hide = [{"at": at, "do": "hide", "cells": [[1, second]]}]
    with edit(loaded.model, parse_edits(tsp.to_model_edits(loaded.card, given, hide))):
        edited, said = tsp.trace(loaded, given), tsp.predict(loaded, CITIES)
    assert edited.outputs["indices"][1] != second
    assert said.details["indices"] == tours.canonical_tour(edited.outputs["indices"])


def test_a_model_of_the_zoo_goes_another_way_without_some_of_its_heads():
    loaded, many = load("tsp"), example_points(2, 40)
    ablated = {f"blocks.{i}.self_attention": edits.ablate(*range(8)) for i in range(4)}
    with edit(loaded.model, ablated):
        edited = tsp.trace(loaded, many)
    alone = tsp.trace(loaded, many, prefix="0")
    assert edited.outputs["length"] > alone.outputs["length"]
    assert (edited.map("reading").all_weights() == 0).all()


def test_a_look_that_is_open_changes_no_tour():
    loaded = untrained(tsp, TOURING)
    with look(loaded.model):
        seen = tsp.trace(loaded, CITIES).outputs
    assert seen == tsp.trace(loaded, CITIES).outputs
