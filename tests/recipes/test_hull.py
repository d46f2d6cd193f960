"""Convex hulls: polygons judged by hand, and what is said of them."""

import numpy as np
import pytest

from regard.config import override
from regard.data.geometry import hulls
from regard.recipes import hull
from regard.recipes.pointer.problems import Problems
from tests.recipes.pointer.untrained import LSTM, untrained

#  3 · 2
#  · 4 ·
#  0 · 1
POINTS = np.array([[0, 0], [2, 0], [2, 2], [0, 2], [1, 1]], float)
RIM = [0, 1, 2, 3]


def judged(*answers):
    posed = Problems([POINTS] * len(answers), [RIM] * len(answers))
    return hull.RECIPE.answer_metrics(posed, [*answers], hull.Evaluation())


def said(answer):
    return hull.RECIPE.describe_answer(POINTS, answer, False)


@pytest.mark.parametrize("answer", [RIM, [2, 3, 0, 1], [1, 0, 3, 2]])
def test_a_polygon_is_right_wherever_it_begins_and_whichever_way_it_goes(answer):
    assert judged(answer) == {"accuracy": 1, "area": 1, "crossing": 0}


def test_a_polygon_without_one_vertex_covers_the_rest():
    assert judged([0, 1, 2]) == {"accuracy": 0, "area": 0.5, "crossing": 0}
    # the square without the triangle between 0, 3 and the middle
    assert judged([0, 1, 2, 3, 4]) == {"accuracy": 0, "area": 0.75, "crossing": 0}


@pytest.mark.parametrize("answer", [[0, 2, 1, 3], [0, 1], [], [0, 1, 1, 2], [0, 4, 2]])
def test_what_crosses_itself_or_is_no_polygon_has_no_area(answer):
    assert judged(answer) == {"accuracy": 0, "area": 0, "crossing": 1}


def test_numbers_are_means_and_areas_of_those_that_do_not_cross():
    found = judged(RIM, [2, 3, 0, 1], [0, 1, 2], [0, 2, 1, 3])
    assert found == {"accuracy": 0.5, "area": pytest.approx((1 + 1 + 0.5) / 3), "crossing": 0.25}


def test_a_right_polygon_is_said_from_its_lowest_index_on():
    text, details = said([2, 3, 0, 1])
    assert text == "0 1 2 3\narea 4, which is the hull"
    assert details == {"indices": RIM, "area": 4, "hull": RIM, "hull_area": 4, "correct": True}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([1, 2, 0], "0 1 2\narea 2, 50.00 % of the hull's 4; the hull is 0 1 2 3"),
        ([0, 2, 1, 3], "0 2 1 3\nthis crosses itself; the hull is 0 1 2 3, area 4"),
        ([3, 1], "1 3\nthis is no polygon; the hull is 0 1 2 3, area 4"),
        ([1, 1, 1], "1 1 1\nthis is no polygon; the hull is 0 1 2 3, area 4"),
        ([], "\nthis is no polygon; the hull is 0 1 2 3, area 4"),
    ],
)
def test_a_wrong_polygon_is_said_beside_the_right_one(answer, text):
    found, details = said(answer)
    assert (found, details["correct"]) == (text, False)
    assert details["area"] == (2 if answer == [1, 2, 0] else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,0 1,1", "hull: expected three different points or more, got 2"),
        ("0,0 1,1 0,0", "hull: expected three different points or more, got 2"),
        ("0,0 1,1 2,2 5,5", "hull: expected points that span an area, got 4 on one line"),
        (
            "0,0 1e-99,0 0,1e-299",
            "hull: expected points that span an area, got one too small to be",
        ),
    ],
)
@pytest.mark.parametrize("ask", [hull.predict, hull.trace])
def test_points_without_a_hull_are_refused(ask, text, message):
    with pytest.raises(ValueError, match=message):
        ask(untrained(hull, LSTM), text)


def test_more_points_than_can_be_read_in_seconds_are_refused(monkeypatch):
    monkeypatch.setattr(hull, "MAX_POINTS", 5)
    with pytest.raises(ValueError, match=r"^hull: expected at most 5 points, got 6$"):
        hull.predict(untrained(hull, LSTM), hull.EXAMPLE)


def test_points_far_away_have_the_hull_of_points_that_are_near():
    near = np.random.default_rng(0).integers(-1000, 1000, (11, 2)) / 2.0**20
    text = " ".join(f"{x!r},{y!r}" for x, y in (near + 2**20).tolist())
    found = hull.predict(untrained(hull, LSTM), text).details
    assert found["hull"] == hulls.hull(near)
    assert found["hull_area"] == hulls.polygon_area(near, found["hull"])


def test_what_is_drawn_is_judged_by_its_own_hull():
    model = untrained(hull, LSTM)
    found = hull.evaluate(model, hull.Evaluation(3, 5))
    # three points have one polygon, and a pointer must take three
    assert (found["accuracy"], found["area"], found["crossing"]) == (1, pytest.approx(1), 0)


def test_rows_of_the_table_are_configs_that_can_be():
    grid = hull.GRIDS["paper"]
    rows = [override(grid.base, row.settings) for row in grid.rows]
    assert len({repr(config) for config in rows}) == len(rows) == 5
    assert [c.model.output for c in rows] == ["pointer"] * 3 + ["attention", "vocabulary"]
