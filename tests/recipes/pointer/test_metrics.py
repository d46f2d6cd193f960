"""What evaluations share: evaluations of nothing are refused, in all recipes alike."""

import pytest

from regard.recipes import delaunay, hull, sort, tsp
from regard.recipes.pointer.metrics import CARD_SEED, check_evaluation, format_percent

RECIPES = (hull, delaunay, tsp, sort)
MOST_POINTS = {
    **{hull: hull.MAX_POINTS, delaunay: delaunay.MAX_POINTS},
    **{tsp: tsp.MAX_CITIES, sort: sort.MAX_NUMBERS},
}
every = pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.__name__.rpartition(".")[2])


@every
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"points": 0}, "expected points of at least [13], got 0"),
        ({"instances": 0}, "expected instances of at least 1, got 0"),
        ({"seed": -1}, "expected seed of at least 0, got -1"),
    ],
)
def test_evaluations_of_nothing_are_refused(recipe, fields, message):
    name = recipe.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=f"^{name}: {message}$"):
        recipe.Evaluation(**fields)


@pytest.mark.parametrize("recipe", [hull, delaunay, sort])
def test_a_search_without_a_beam_is_refused(recipe):
    with pytest.raises(ValueError, match="expected beam of at least 1, got 0"):
        recipe.Evaluation(beam=0)


def test_what_may_be_left_out_is_checked_where_it_is_given():
    check_evaluation("tsp", tsp.Evaluation(starts=None), max_points=50, starts=1)
    with pytest.raises(ValueError, match=r"^tsp: expected starts of at least 1, got 0$"):
        tsp.Evaluation(starts=0)


@every
def test_evaluations_of_more_points_than_can_be_answered_are_refused(recipe):
    name, most = recipe.__name__.rpartition(".")[2], MOST_POINTS[recipe]
    assert recipe.Evaluation(points=most).points == most
    message = f"^{name}: expected points of at most {most}, got {most + 1}$"
    with pytest.raises(ValueError, match=message):
        recipe.Evaluation(points=most + 1)


def test_shares_are_told_with_two_digits():
    assert [format_percent(share) for share in (0.0, 1.0, 2 / 3)] == [
        "0.00 %",
        "100.00 %",
        "66.67 %",
    ]
    # what is less than nothing by rounding alone
    assert format_percent(-1e-16) == "0.00 %"


@every
def test_the_numbers_of_a_card_are_drawn_with_a_seed_of_their_own(recipe):
    assert {each.seed for each in recipe.RECIPE.card_evaluations.values()} == {CARD_SEED}
    assert recipe.Evaluation().seed != CARD_SEED
