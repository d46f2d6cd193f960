"""What may be pointed at next: all steps at once are the steps one by one."""

import pytest
import torch

from regard.functional.pointing_rules import NoRepeats, Triangles, visit_steps

K = 8
LENGTHS = torch.tensor([7, 5, 3])
RULES = {"permutation": NoRepeats(), "subset": NoRepeats(min_points=3), "triangles": Triangles()}


def drawn(rule, steps):
    """Answers drawn among what may be pointed at, and what could have been at each step."""
    now, tokens, seen = rule.start(LENGTHS, K), torch.zeros_like(LENGTHS), []
    answers = []
    now = rule.advance(now, tokens)
    for _ in range(steps):
        seen.append(now.mask)
        tokens = now.mask.float().multinomial(1)[:, 0]
        answers.append(tokens)
        now = rule.advance(now, tokens)
    return torch.stack(answers, 1), torch.stack(seen, 1)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(5))
def test_all_steps_at_once_are_the_steps_one_by_one(name, seed):
    torch.manual_seed(seed)
    answers, seen = drawn(RULES[name], steps=31)
    along = RULES[name].mask_all_steps(answers, LENGTHS, K)
    # behind the end nothing is asked any more
    going = torch.cat([torch.ones(3, 1), (answers != 0).cumprod(1)[:, :-1]], 1).bool()
    assert torch.equal(along[going], seen[going])


@pytest.mark.parametrize("name", RULES)
def test_there_is_always_something_to_point_at(name):
    _, seen = drawn(RULES[name], steps=40)
    assert seen.any(2).all()


@pytest.mark.parametrize("name", RULES)
def test_padding_is_never_pointed_at(name):
    answers, _ = drawn(RULES[name], steps=20)
    assert (answers <= LENGTHS[:, None]).all()
    assert not RULES[name].mask_all_steps(answers, LENGTHS, K)[1, :, 6:].any()


def test_each_point_comes_once_and_then_the_end():
    answers, _ = drawn(NoRepeats(), steps=8)
    for row, length in zip(answers.tolist(), LENGTHS.tolist(), strict=True):
        assert sorted(row[:length]) == list(range(1, length + 1))
        assert set(row[length:]) == {0}


def test_some_points_come_once_and_three_at_least():
    for row in drawn(NoRepeats(min_points=3), steps=12)[0].tolist():
        pointed = row[: row.index(0)]
        assert len(set(pointed)) == len(pointed) >= 3


def test_corners_rise_no_triangle_comes_twice_and_after_all_of_them_the_end():
    # five points have ten triangles
    now = Triangles().advance(Triangles().start(torch.tensor([5]), 6), torch.tensor([0]))
    made = []
    for _ in range(10):
        corners = []
        for _ in range(3):
            corner = now.mask[:, 1:].float().multinomial(1)[:, 0] + 1
            now = Triangles().advance(now, corner)
            corners.append(int(corner))
        made.append(tuple(corners))
    assert all(a < b < c for a, b, c in made)
    assert len(set(made)) == 10
    assert now.mask.tolist() == [[True] + [False] * 5]


def test_visit_steps_by_hand():
    assert visit_steps(torch.tensor([[3, 1, 0, 0]]), 5).tolist() == [[2, 1, 4, 0, 4]]
