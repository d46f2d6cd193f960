"""The attention pointer: a tour is a permutation, and its likelihood that of its steps."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import decode
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig

B, N = 3, 7
SMALL = AttentionPointerConfig(width=32, heads=2, layers=2, feed_forward_width=48)
POINTS, LENGTHS = torch.rand(B, N, 2), torch.tensor([7, 5, 6])


def model(**changed):
    return AttentionPointer(replace(SMALL, **changed)).eval()


def greedy(model, points=POINTS, lengths=LENGTHS):
    return decode.greedy(model, (points, lengths), begin=0, end=0, longest=N + 1)


def test_greedy_answers_are_permutations():
    said = greedy(model())
    for (answer,), length in zip(said.sequences(), LENGTHS.tolist(), strict=True):
        assert sorted(answer) == list(range(1, length + 1))


def test_beams_give_permutations_at_least_as_likely():
    ours = model()
    said = decode.beam(ours, (POINTS, LENGTHS), begin=0, end=0, longest=N + 1, width=3)
    for (answer,), length in zip(said.sequences(), LENGTHS.tolist(), strict=True):
        assert sorted(answer) == list(range(1, length + 1))
    assert (said.log_probabilities >= greedy(ours).log_probabilities - 1e-5).all()


@pytest.mark.parametrize("norm", ["instance", "batch", "layer"])
def test_the_likelihood_of_an_answer_is_that_of_its_steps(norm):
    ours = model(norm=norm)
    said = greedy(ours)
    answers = said.tokens[:, 0, :N] - 1
    assert_close(ours(POINTS, LENGTHS, answers).sum(1), said.log_probabilities[:, 0])


def test_whole_tours_at_once_are_those_of_decoding():
    ours = model()
    whole = ours.decode_tours(ours.encode(POINTS, LENGTHS))[:, 0]
    assert torch.equal(whole, greedy(ours).tokens[:, 0, :N] - 1)


def test_numbers_of_points_have_no_meaning():
    ours, order = model(), torch.randperm(N)
    full = torch.full((B,), N)
    one, other = (
        greedy(ours, points, full).tokens[:, 0, :N] - 1 for points in (POINTS, POINTS[:, order])
    )
    assert torch.equal(order[other], one)


def test_what_is_behind_the_last_point_changes_nothing():
    ours, other = model(), POINTS.clone()
    other[1, 5:], other[2, 6:] = 9.0, -9.0
    assert torch.equal(greedy(ours).tokens, greedy(ours, other).tokens)


def test_a_row_alone_is_the_row_in_a_batch():
    ours = model()
    alone = greedy(ours, POINTS[1:2, :5], LENGTHS[1:2])
    assert alone.sequences()[0] == greedy(ours).sequences()[1]


def test_every_step_can_be_looked_at():
    ours = model()
    with regard.look(ours) as seen:
        said = greedy(ours)
    assert "blocks.0.self_attention" in seen.names()
    assert seen.names()[-2:] == ["decoder.glimpse", "decoder"]
    assert torch.equal(said.tokens, greedy(ours).tokens)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"layers": 0}, "AttentionPointer: expected layers of at least 1, got 0"),
        ({"clip": -1.0}, "AttentionPointer: expected clip of at least 0, got -1.0"),
    ],
)
def test_what_cannot_be_built_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        replace(SMALL, **wrong)


def test_a_norm_that_is_none_is_refused_by_us_or_by_the_type_checks():
    with pytest.raises((ValueError, TypeError), match=r"(?s)norm.*none"):
        replace(SMALL, norm="none")
