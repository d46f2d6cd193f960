"""Masks: what is hidden weighs nothing, nothing leaks, and a blind row reads zeros."""

import pytest

from regard.view.lessons.masks import LESSON, TOKENS, visible_mask

SHAPES = {
    "all": "██████ ██████ ██████ ██████ ██████ ██████",
    "causal": "█░░░░░ ██░░░░ ███░░░ ████░░ █████░ ██████",
    "window": "███░░░ ████░░ █████░ ░█████ ░░████ ░░░███",
    "prefix": "██░░░░ ██░░░░ ██░░░░ ██░░░░ ██░░░░ ██░░░░",
    "padding": "██░░░░ ██░░░░ ██░░░░ ██░░░░ ██░░░░ ██░░░░",
}


@pytest.mark.parametrize("rule", SHAPES)
def test_a_rule_hides_what_it_says(rule):
    found = LESSON.answer({"rule": rule, "size": 2})
    drawn = [[int(cell == "█") for cell in row] for row in SHAPES[rule].split()]
    assert found["seen"] == drawn
    assert [[int(s is not None) for s in row] for row in found["hidden"]] == drawn
    assert [[int(w > 0) for w in row] for row in found["weights"]] == drawn


@pytest.mark.parametrize("changed", range(TOKENS))
def test_under_a_causal_rule_the_future_does_not_leak(changed):
    moved = LESSON.answer({"rule": "causal", "changed": changed})["moved"]
    assert moved[:changed] == [0.0] * changed and min(moved[changed:]) > 0.001


def test_without_a_rule_every_output_moves():
    assert min(LESSON.answer({"rule": "all"})["moved"]) > 0.001


def test_one_painted_cell_lets_the_future_in():
    painted = [0 * TOKENS + TOKENS - 1]
    moved = LESSON.answer({"rule": "causal", "painted": painted})["moved"]
    assert moved[0] > 0.001 and moved[1 : TOKENS - 1] == [0.0] * (TOKENS - 2)


def test_painting_turns_cells_round():
    shown = visible_mask("causal", 0, [0, 1])
    assert shown[0].tolist() == [False, True, False, False, False, False]


def test_a_row_that_sees_nothing_reads_zeros_where_a_plain_softmax_is_no_number():
    found = LESSON.answer({"rule": "causal", "painted": [0]})
    assert found["weights"][0] == [0.0] * TOKENS and found["read"][0] == [0.0] * 4
    assert found["naive"][0] == [None] * TOKENS and None not in found["naive"][1]
