"""What may be pointed at next: all steps at once are the steps one by one."""

import pytest
import torch

from regard.functional.pointing import Once, Triples, taken

K = 8
LENGTHS = torch.tensor([7, 5, 3])
COURSES = {"each": Once(), "some": Once(least=3), "triangles": Triples()}


def drawn(course, steps):
    """Answers drawn among what may be pointed at, and what could have been at each step."""
    now, tokens, seen = course.start(LENGTHS, K), torch.zeros_like(LENGTHS), []
    answers = []
    now = course.after(now, tokens)
    for _ in range(steps):
        seen.append(now.seen)
        tokens = now.seen.float().multinomial(1)[:, 0]
        answers.append(tokens)
        now = course.after(now, tokens)
    return torch.stack(answers, 1), torch.stack(seen, 1)


@pytest.mark.parametrize("name", ["each", "some"])
def test_all_steps_at_once_are_the_steps_one_by_one(name):
    answers, seen = drawn(COURSES[name], steps=9)
    along = COURSES[name].along(answers, LENGTHS, K)
    # behind the end nothing is asked any more
    going = torch.cat([torch.ones(3, 1), (answers != 0).cumprod(1)[:, :-1]], 1).bool()
    assert torch.equal(along[going], seen[going])


def test_triangles_at_once_are_those_one_by_one_but_for_ones_made_before():
    answers, seen = drawn(Triples(), steps=7)
    along = Triples().along(answers, LENGTHS, K)
    going = torch.cat([torch.ones(3, 1), (answers != 0).cumprod(1)[:, :-1]], 1).bool()
    assert (along | ~seen)[going].all()
    differs = (along != seen).any(2) & going
    assert not differs[:, [0, 1, 3, 4, 6]].any(), "only a third corner may have been taken before"


@pytest.mark.parametrize("name", COURSES)
def test_there_is_always_something_to_point_at(name):
    _, seen = drawn(COURSES[name], steps=40)
    assert seen.any(2).all()


@pytest.mark.parametrize("name", COURSES)
def test_padding_is_never_pointed_at(name):
    answers, _ = drawn(COURSES[name], steps=20)
    assert (answers <= LENGTHS[:, None]).all()
    assert not COURSES[name].along(answers, LENGTHS, K)[1, :, 6:].any()


def test_each_point_comes_once_and_then_the_end():
    answers, _ = drawn(Once(), steps=8)
    for row, length in zip(answers.tolist(), LENGTHS.tolist(), strict=True):
        assert sorted(row[:length]) == list(range(1, length + 1))
        assert set(row[length:]) == {0}


def test_some_points_come_once_and_three_at_least():
    for row in drawn(Once(least=3), steps=12)[0].tolist():
        pointed = row[: row.index(0)]
        assert len(set(pointed)) == len(pointed) >= 3


def test_corners_rise_and_no_triangle_is_made_twice():
    # five points make ten triangles, and after all of them only the end is left
    lengths = torch.full((1,), 5)
    now = Triples().after(Triples().start(lengths, 6), torch.zeros(1, dtype=torch.long))
    made = []
    for _ in range(10):
        corners = []
        for _ in range(3):
            now = Triples().after(now, corner := now.seen[:, 1:].float().argmax(1) + 1)
            corners.append(int(corner))
        made.append(tuple(corners))
    assert all(a < b < c for a, b, c in made)
    assert len(set(made[:3])) == 3


def test_where_a_token_is_taken_by_hand():
    assert taken(torch.tensor([[3, 1, 0, 0]]), 5).tolist() == [[2, 1, 4, 0, 4]]
