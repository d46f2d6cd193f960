"""Pointer networks: what they say is allowed, and as likely as its steps, in all their forms."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import decode
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig

B, N = 3, 7
SMALL = PointerNetworkConfig(width=16, heads=2, feed_forward_width=24, max_points=N)
POINTS, LENGTHS = torch.rand(B, N, 2), torch.tensor([7, 5, 6])
FORMS = {
    "the paper's": {},
    "both ways": {"bidirectional": True},
    "two layers": {"layers": 2},
    "a glimpse": {"glimpses": 1},
    "two glimpses": {"glimpses": 2},
    "attention reads": {"encoder": "attention", "layers": 2},
    "each point": {"pointing_rule": "permutation"},
    "triangles": {"pointing_rule": "triangles"},
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))


def model(**changed):
    return PointerNetwork(replace(SMALL, **changed)).eval()


def greedy(model, points=POINTS, lengths=LENGTHS, longest=30):
    return decode.greedy(model, (points, lengths), begin=0, end=0, longest=longest)


@each_form
def test_the_likelihood_of_an_answer_is_that_of_its_steps(form):
    ours = model(**form)
    said = greedy(ours)
    assert said.finished.all()
    found = ours(POINTS, LENGTHS, said.tokens[:, 0] - 1)
    assert_close(found.sum(1), said.log_probabilities[:, 0])


@pytest.mark.parametrize("output", ["attention", "vocabulary"])
def test_a_vocabulary_is_as_likely_as_its_steps_too(output):
    ours = model(output=output)
    answers = torch.tensor([[0, 3, 6, -1], [4, 4, -1, -1], [1, 2, 3, 5]])
    found = ours(POINTS, LENGTHS, answers)
    state, tokens = ours.start((POINTS, LENGTHS)), torch.zeros(B, dtype=torch.long)
    for t in range(5):
        logits, state = ours.step(tokens, state)
        tokens = torch.cat([answers, torch.full((B, 1), -1)], 1)[:, t] + 1
        asked = torch.tensor([t <= 3, t <= 2, t <= 4])
        said = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        assert_close(found[:, t], said.masked_fill(~asked, 0))


def test_a_vocabulary_never_says_a_point_that_is_not_there():
    said = greedy(model(output="vocabulary"), longest=9)
    assert (said.tokens[:, 0] <= LENGTHS[:, None]).all()


@each_form
def test_a_row_alone_is_the_row_in_a_batch(form):
    ours = model(**form)
    alone = greedy(ours, POINTS[1:2, :5], LENGTHS[1:2])
    assert alone.sequences()[0] == greedy(ours).sequences()[1]


@each_form
def test_what_is_behind_the_last_point_changes_nothing(form):
    ours, other = model(**form), POINTS.clone()
    other[1, 5:], other[2, 6:] = 9.0, -9.0
    assert torch.equal(greedy(ours).tokens, greedy(ours, other).tokens)


@pytest.mark.parametrize("encoder", ["lstm", "attention"])
def test_several_answers_at_once_are_each_by_itself(encoder):
    ours = model(encoder=encoder, pointing_rule="permutation")
    encoded = ours.encode(POINTS, LENGTHS)
    tours = ours.decode_tours(encoded, starts=torch.tensor([[0, 3], [4, 1], [2, 2]]), sample=True)
    both = ours.log_probability(encoded, tours)
    for s in (0, 1):
        assert_close(both[:, s], ours(POINTS, LENGTHS, tours[:, s]))


def test_what_was_given_costs_nothing():
    ours = model(pointing_rule="permutation")
    encoded = ours.encode(POINTS, LENGTHS)
    tours = ours.decode_tours(encoded, starts=torch.tensor([[0], [4], [2]]))
    given, chosen = (
        ours.log_probability(encoded, tours, fixed_start=begun) for begun in (True, False)
    )
    assert not given[..., 0].any()
    assert_close(given[..., 1:], chosen[..., 1:])


def test_whole_tours_are_those_of_decoding():
    ours = model(pointing_rule="permutation")
    whole = ours.decode_tours(ours.encode(POINTS, LENGTHS))[:, 0]
    assert torch.equal(whole, greedy(ours).tokens[:, 0, :N] - 1)


def test_tours_that_are_looked_at_are_the_same_and_each_a_row_of_its_own():
    ours, starts = model(pointing_rule="permutation"), torch.tensor([[0, 3], [4, 1], [2, 5]])
    encoded = ours.encode(POINTS, LENGTHS)
    alone = ours.decode_tours(encoded, starts=starts)
    with regard.look(ours) as seen:
        assert torch.equal(ours.decode_tours(encoded, starts=starts), alone)
    assert seen["pointer"].weights().shape == (2 * B, 1, N, N + 1)


def test_a_tour_that_is_edited_goes_elsewhere_at_that_step_or_is_refused():
    ours, starts = model(pointing_rule="permutation"), torch.tensor([[0, 3], [4, 1], [2, 0]])
    encoded, full = ours.encode(POINTS, LENGTHS), torch.arange(N + 1).tolist()
    point = int(ours.decode_tours(encoded, starts=starts)[0, 0, 2])
    with regard.edit(ours, {"pointer": regard.edits.hide([(2, point + 1)])}):
        assert not (ours.decode_tours(encoded, starts=starts)[..., 2] == point).any()
    everything = {"pointer": regard.edits.hide([(3, key) for key in full])}
    words = "nothing is left to point at in step 3"
    with pytest.raises(ValueError, match=words), regard.edit(ours, everything):
        ours.decode_tours(encoded, starts=starts)


def test_an_encoder_by_attention_knows_no_order():
    ours, order, full = model(encoder="attention"), torch.randperm(N), torch.full((B,), N)
    one, other = (greedy(ours, points, full).sequences() for points in (POINTS, POINTS[:, order]))
    assert [[int(order[i - 1]) + 1 for i in row] for (row,) in other] == [row for (row,) in one]


def test_all_that_it_points_by_can_be_looked_at():
    ours = model(glimpses=1)
    with regard.look(ours) as seen:
        said = greedy(ours)
    assert {"pointer", "glimpses.0"} <= set(seen.names())
    assert seen["pointer"].weights().shape == (B, 1, said.tokens.shape[2], N + 1)


def test_the_papers_network_has_as_many_weights_as_by_hand():
    c, E = PointerNetworkConfig(), 256
    lstm = 4 * E * (E + E) + 2 * 4 * E
    pointer = 2 * E * E + E + E
    begins = 2 * E + (E + 1) * 2 * E  # the first vector heard, the end, and how the decoder begins
    by_hand = (2 + 1) * E + 2 * lstm + pointer + begins
    assert sum(weight.numel() for weight in PointerNetwork(c).parameters()) == by_hand


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"width": 0}, "PointerNetwork: expected width of at least 1, got 0"),
        ({"glimpses": -1}, "PointerNetwork: expected glimpses of at least 0, got -1"),
    ],
)
def test_what_cannot_be_built_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        replace(SMALL, **wrong)


@pytest.mark.parametrize("name", ["encoder", "output", "pointing_rule"])
def test_a_choice_that_is_none_is_refused_by_us_or_by_the_type_checks(name):
    with pytest.raises((ValueError, TypeError), match=rf"(?s){name}.*gru"):
        replace(SMALL, **{name: "gru"})
