"""A recipe: whose models it takes, what it tells of them, and what it knows of a trained one."""

from dataclasses import replace

import numpy as np
import pytest

from regard.data.geometry import hulls, tours, vinyals
from regard.recipes import delaunay, hull, sort, tsp
from regard.recipes.pointer.problems import to_unit_square
from regard.recipes.pointer.recipe import Recipe
from tests.recipes.pointer.untrained import LSTM, TOURING, WORDS, untrained

RECIPES = {hull: LSTM, delaunay: LSTM, tsp: TOURING, sort: LSTM}
every = pytest.mark.parametrize(
    "recipe", RECIPES, ids=lambda recipe: recipe.__name__.rpartition(".")[2]
)
SHARED = {"instances", "seed", "seconds", "hardware"}
TOLD = {
    hull: {"accuracy", "area", "crossing"},
    delaunay: {"accuracy", "coverage"},
    tsp: {"length", "optimal", "gap"},
    sort: {"accuracy"},
}


def tiny(recipe):
    return untrained(recipe, RECIPES[recipe])


@every
def test_evaluations_tell_what_their_contract_says(recipe):
    found = recipe.evaluate(tiny(recipe), recipe.Evaluation(points=5, instances=3, seed=7))
    assert set(found) == TOLD[recipe] | SHARED
    assert (found["instances"], found["seed"]) == (3, 7)


@every
def test_evaluating_twice_gives_the_same_numbers(recipe):
    how = recipe.Evaluation(points=5, instances=7)
    one, other = (recipe.evaluate(tiny(recipe), how) for _ in range(2))
    assert {name: one[name] for name in TOLD[recipe]} == {n: other[n] for n in TOLD[recipe]}


def test_another_seed_asks_something_else():
    one, other = (tsp.evaluate(tiny(tsp), tsp.Evaluation(5, 7, seed)) for seed in (0, 1))
    assert one["length"] != other["length"]


@every
def test_a_model_of_another_recipe_is_refused_in_one_sentence(recipe):
    name = recipe.__name__.rpartition(".")[2]
    loaded = replace(tiny(recipe), card={"name": "tiny", "recipe": "copy"})
    message = (
        f"^{name}: expected a model that was trained by this recipe, got 'tiny', "
        "which learned 'copy'$"
    )
    for ask in (recipe.predict, recipe.trace):
        with pytest.raises(ValueError, match=message):
            ask(loaded, recipe.EXAMPLE)


@pytest.mark.parametrize(("other", "recipe"), [(sort, hull), (hull, tsp), (hull, delaunay)])
def test_a_model_with_the_card_of_another_recipe_is_refused_in_one_sentence(other, recipe):
    loaded = replace(tiny(other), card=tiny(recipe).card)
    words = r"expected a model of inputs=2 and pointing_rule=\w+, got another; .* in its card\.json"
    for ask in (recipe.predict, recipe.trace):
        with pytest.raises(ValueError, match=words):
            ask(loaded, recipe.EXAMPLE)
    with pytest.raises(ValueError, match=words):
        recipe.evaluate(loaded, recipe.Evaluation(points=5, instances=3))


@every
def test_its_example_can_be_asked_and_shown(recipe):
    said = recipe.predict(tiny(recipe), recipe.EXAMPLE)
    assert said.text and said.details["indices"] and said.candidates == []
    assert recipe.trace(tiny(recipe), recipe.EXAMPLE).outputs["text"] == said.text.splitlines()[0]


@every
def test_a_model_is_asked_with_a_file_or_with_what_stands_in_it(recipe, tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("\n".join(recipe.EXAMPLE.split()))
    assert recipe.predict(tiny(recipe), str(path)) == recipe.predict(tiny(recipe), recipe.EXAMPLE)


@pytest.mark.parametrize("recipe", [hull, tsp])
def test_points_in_another_order_are_answered_alike(recipe):
    points = recipe.EXAMPLE.split()
    shuffled = np.random.default_rng(0).permutation(len(points))
    one = recipe.predict(tiny(recipe), recipe.EXAMPLE).details["indices"]
    other = recipe.predict(tiny(recipe), " ".join(points[i] for i in shuffled)).details["indices"]
    assert hulls.is_same_polygon(one, shuffled[other].tolist())


@pytest.mark.parametrize("recipe", [hull, tsp])
def test_points_elsewhere_and_larger_are_answered_alike(recipe):
    points = np.array([each.split(",") for each in recipe.EXAMPLE.split()], float)
    moved = " ".join(f"{x},{y}" for x, y in points * 512 + [1024, -4096])
    one, other = (recipe.predict(tiny(recipe), text) for text in (recipe.EXAMPLE, moved))
    assert one.details["indices"] == other.details["indices"]


def told(recipe, answers):
    """A recipe whose answers are made up."""
    return replace(recipe.RECIPE, decode_answers=lambda model, points, task, how: answers)


@pytest.fixture
def file(tmp_path):
    """Three instances of seven cities with their best tours, and those tours."""
    points = np.random.default_rng(0).random((3, 7, 2))
    best = [tours.held_karp_tour(each) for each in points]
    return vinyals.write_instances(tmp_path / "tours.txt", zip(points, best, strict=True)), best


def test_who_answers_with_the_tours_of_a_file_has_no_gap(file):
    path, best = file
    found = told(tsp, best).evaluate(tiny(tsp), tsp.Evaluation(file=path))
    assert (found["gap"], found["length"]) == (0, found["optimal"])
    assert (found["instances"], found["seed"]) == (3, None)


def test_a_gap_is_above_the_tours_of_a_file(file):
    path, _ = file
    found = tsp.evaluate(tiny(tsp), tsp.Evaluation(file=path, starts=1))
    assert found["gap"] == pytest.approx(found["length"] / found["optimal"] - 1)
    assert found["gap"] > 0


def test_who_answers_with_the_hulls_of_a_file_is_right(tmp_path):
    points = np.random.default_rng(0).random((3, 7, 2))
    truths = [hulls.hull(each) for each in points]
    path = vinyals.write_instances(tmp_path / "hulls.txt.gz", zip(points, truths, strict=True))
    found = told(hull, truths).evaluate(tiny(hull), hull.Evaluation(file=path))
    assert (found["accuracy"], found["area"], found["crossing"]) == (1, pytest.approx(1), 0)


def test_points_of_a_file_are_read_as_they_are_or_moved_into_the_unit_square(tmp_path):
    points, seen = np.random.default_rng(0).random((7, 2)) * 0.5, []

    def answered(model, points, task, how):
        seen.append(points[0])
        return [[*range(7)]]

    for scale in (1, 1000):
        path = vinyals.write_instances(tmp_path / "a.txt", [(points * scale, [*range(7)])])
        replace(tsp.RECIPE, decode_answers=answered).evaluate(tiny(tsp), tsp.Evaluation(file=path))
    assert np.array_equal(seen[0], points)
    assert np.allclose(seen[1], to_unit_square(points))


def test_the_first_of_several_evaluations_stands_on_top():
    sizes = {str(n): sort.Evaluation(n, 3) for n in (5, 2)}
    found = replace(sort.RECIPE, card_evaluations=sizes).card_metrics(tiny(sort))
    assert set(found) == {"accuracy", "2"}
    assert set(found["2"]) == {"accuracy"}


def test_a_vocabulary_is_measured_up_to_its_last_word(monkeypatch):
    asked = []

    def evaluate(self, loaded, evaluation):
        asked.append(evaluation.points)
        return dict.fromkeys([*SHARED, "accuracy"], 1)

    monkeypatch.setattr(Recipe, "evaluate", evaluate)
    hull.card_metrics(untrained(hull, replace(WORDS, max_points=10)))
    hull.card_metrics(tiny(hull))
    assert asked == [5, 10, 50, 5, 10, 100, 200, 500]


@pytest.mark.parametrize("ask", [hull.predict, hull.trace])
def test_a_vocabulary_is_not_asked_for_more_points_than_it_has_words(ask):
    eight = " ".join(f"0.{i},0.{i * i % 7}" for i in range(8))
    with pytest.raises(ValueError, match=r"^hull: a vocabulary of 7 places cannot say 8 points$"):
        ask(untrained(hull, WORDS, max_points=7), eight)


def test_a_vocabulary_is_not_measured_beyond_its_last_word():
    with pytest.raises(ValueError, match="hull: a vocabulary of 7 places cannot say 50 points"):
        hull.evaluate(untrained(hull, WORDS, max_points=7), hull.Evaluation(50, 3))


@every
def test_columns_of_tables_are_among_the_numbers(recipe):
    names = [*recipe.RECIPE.card_evaluations]
    numbers = dict.fromkeys(TOLD[recipe], 1.0)
    known = numbers | dict.fromkeys(names[1:], numbers)
    for path in recipe.COLUMNS.values():
        first, *rest = path.split(".")
        assert (known[first][rest[0]] if rest else known[first]) == 1.0


@every
def test_a_page_is_told_what_to_give(recipe):
    input = recipe.input_spec(tiny(recipe).card)
    assert input.kind == ("numbers" if recipe is sort else "points")
    square = {} if recipe is sort else {"square": True}
    assert input.form == {"least": 0, "most": 1, **square}
    assert [option.name for option in input.options] == ([] if recipe is delaunay else ["prefix"])


@every
def test_what_a_page_shows_as_an_example_can_be_typed_and_traced(recipe):
    loaded = tiny(recipe)
    points = recipe.parse_input(loaded.card, recipe.input_spec(loaded.card).example)
    assert points.shape == (recipe.RECIPE.page_example_points, 1 if recipe is sort else 2)
    assert recipe.trace(loaded, points).axis("points").size == recipe.RECIPE.page_example_points


@every
def test_what_is_typed_is_asked_as_a_file_of_it_would_be(recipe):
    loaded = tiny(recipe)
    one = recipe.trace(loaded, recipe.EXAMPLE)
    other = recipe.trace(loaded, recipe.parse_input(loaded.card, recipe.EXAMPLE))
    assert (one.outputs, one.header) == (other.outputs, other.header)


@every
@pytest.mark.parametrize("text", ["points.csv", "./points.csv", "/etc/passwd", "~"])
def test_what_is_typed_is_never_taken_for_a_file(recipe, text, tmp_path, monkeypatch):
    (tmp_path / "points.csv").write_text("\n".join(recipe.EXAMPLE.split()))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="expected points, as in"):
        recipe.parse_input(tiny(recipe).card, text)


@every
def test_more_points_than_a_page_may_ask_about_are_refused(recipe):
    card, most = tiny(recipe).card, recipe.RECIPE.max_page_points
    point = "0.5" if recipe is sort else "0.5,0.5"
    assert len(recipe.parse_input(card, " ".join([point] * most))) == most
    with pytest.raises(ValueError, match=f"expected at most {most} points, got {most + 1}"):
        recipe.parse_input(card, " ".join([point] * (most + 1)))


@pytest.mark.parametrize("recipe", [hull, sort, tsp])
def test_a_prefix_that_is_none_is_refused(recipe):
    with pytest.raises(ValueError, match="expected a prefix of points from 0 to"):
        recipe.trace(tiny(recipe), recipe.EXAMPLE, prefix="99")
