"""Score functions side by side: what each makes of a longer key."""

import math

import pytest

from regard.view.lessons.score_functions import FORMULAS, LESSON

GIVEN = {"query": [1.0, 2.0], "keys": [[0.5, 0.25], [-1.0, 1.0]], "focus": 0}


def table(given) -> dict[str, tuple[float, float]]:
    rows = LESSON.answer(given)["table"]
    return {row["score"]: (row["now"], row["longer"]) for row in rows}


def test_all_scores_of_one_key_by_hand():
    now = {name: pair[0] for name, pair in table(GIVEN).items()}
    cosine = 1 / math.sqrt(5 * 0.3125)
    additive = math.tanh(1.5) + math.tanh(2.25)
    # the mirror turns (1, 2) into (2, 1); the first place lies to the right
    expected = [1.0, 1 / math.sqrt(2), cosine, 1.25, additive, 1.0]
    assert list(now.values()) == pytest.approx(expected, abs=1e-6)


def test_the_dot_product_prefers_long_keys_and_the_cosine_does_not():
    found = table(GIVEN)
    assert found["dot"][1] == pytest.approx(2 * found["dot"][0])
    assert found["cosine"][1] == pytest.approx(found["cosine"][0])
    assert found["location"][1] == found["location"][0]


def test_the_additive_score_is_bounded():
    given = {"score": "additive", "query": [2.0, 2.0], "keys": [[2.0, 2.0], [-2.0, -2.0]]}
    found = LESSON.answer(given)
    assert max(found["landscape"]) <= 2.0 and found["scores"][0] < 2.0
    assert LESSON.answer({**given, "score": "dot"})["scores"][0] == 8.0


@pytest.mark.parametrize("score", FORMULAS)
def test_the_ground_is_what_a_query_there_would_get(score):
    found = LESSON.answer({**GIVEN, "score": score})
    side, reach = found["side"], found["reach"]
    at = 7 * side + 20
    spot = [-reach + 20 * 2 * reach / (side - 1), reach - 7 * 2 * reach / (side - 1)]
    there = LESSON.answer({**GIVEN, "score": score, "query": spot})
    assert there["scores"][0] == pytest.approx(found["landscape"][at], abs=0.01)
    assert there["weights"] == pytest.approx(found["shares"][at], abs=0.01)


def test_location_does_not_look_at_the_keys():
    far = {**GIVEN, "keys": [[2.0, -2.0], [0.1, 0.1]], "score": "location"}
    assert LESSON.answer(far)["scores"] == LESSON.answer({**GIVEN, "score": "location"})["scores"]


def test_a_focus_beyond_the_keys_is_refused():
    with pytest.raises(ValueError, match="focus: expected one of 2 keys, counted from 0, got 5"):
        LESSON.answer({**GIVEN, "focus": 5})
