"""What is learned from: answers, step by step; and tours, each against the mean of all."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.data.geometry import tours
from regard.data.geometry.instances import Instances
from regard.data.geometry.numbers import Numbers
from regard.data.geometry.tours import Tour
from regard.models.attention_pointer import AttentionPointer
from regard.models.pointer_network import PointerNetwork
from regard.recipes import sort, tsp
from regard.recipes.pointer.loss import reinforce_loss, supervised_loss, tour_lengths
from tests.recipes.pointer.untrained import LSTM, NET, TOURING, untrained

SQUARE = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]])
STRAIGHT, CROSSED = [0, 1, 2, 3], [0, 2, 1, 3]
# by how much a tour that crosses the square is longer than one around it, halved
LONGER = math.sqrt(2) - 1


class TwoChoices(nn.Module):
    """Goes around a square or crosses it: the first with the probability `σ(choice)`."""

    def __init__(self, drawn, constant=0.0):
        super().__init__()
        self.choice = nn.Parameter(torch.zeros(()))
        self.drawn, self.constant = torch.tensor([drawn]), constant

    def encode(self, points, lengths):
        return None

    def decode_tours(self, encoded, *, starts, sample):
        assert sample and starts.tolist() == [[0, 1, 2, 3]]
        return self.drawn

    def log_probability(self, encoded, answers, *, fixed_start):
        assert fixed_start
        straight = (answers == torch.tensor(STRAIGHT)).all(-1)
        found = nn.functional.logsigmoid(torch.where(straight, self.choice, -self.choice))
        return torch.stack([torch.full_like(found, self.constant), found], -1)


def gradient(model, **how):
    batch = Instances(SQUARE, torch.tensor([4]), torch.zeros(1, 0).long())
    (found,) = torch.autograd.grad(reinforce_loss(model, batch, **how), [model.choice])
    return float(found)


def test_a_gradient_of_two_choices_by_hand():
    # half of the tours are LONGER than their mean, half shorter; log σ(0) rises by 1/2
    both = [STRAIGHT, CROSSED, STRAIGHT, CROSSED]
    assert gradient(TwoChoices(both)) == pytest.approx(-LONGER / 2)
    # one of four is 3/2 LONGER than the mean, the others by 1/2 shorter
    one = [STRAIGHT, CROSSED, STRAIGHT, STRAIGHT]
    assert gradient(TwoChoices(one)) == pytest.approx(-3 / 8 * LONGER)


def test_a_gradient_with_a_leader_by_hand():
    # of four, one is 3/2 shorter than the mean and counts ten times, the others 1/2 LONGER
    one = [CROSSED, STRAIGHT, CROSSED, CROSSED]
    assert gradient(TwoChoices(one), best_tour_weight=10.0) == pytest.approx(
        -(15 + 3 / 2) / 8 * LONGER
    )


def test_leaders_that_are_as_short_as_each_other_all_lead():
    both = [STRAIGHT, CROSSED, STRAIGHT, CROSSED]
    assert gradient(TwoChoices(both), best_tour_weight=3.0) == pytest.approx(-LONGER)


@pytest.mark.parametrize("only", [STRAIGHT, CROSSED])
def test_tours_of_mean_length_move_nothing(only):
    assert gradient(TwoChoices([only] * 4)) == 0


def test_what_all_tours_gain_together_is_nothing():
    both = [STRAIGHT, CROSSED, CROSSED, CROSSED]
    assert gradient(TwoChoices(both, constant=-7.0)) == pytest.approx(gradient(TwoChoices(both)))


@pytest.mark.parametrize("model", [TOURING, LSTM], ids=["attention", "lstm"])
def test_three_cities_teach_nothing_since_all_their_tours_are_alike(model):
    net = untrained(tsp, model).model.train()
    loss = reinforce_loss(net, Tour(3, 3).draw(np.random.default_rng(0), 5))
    weights = [weight for weight in net.parameters() if weight.requires_grad]
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    assert max(float(each.abs().max()) for each in found if each is not None) < 1e-6


def test_a_model_that_learns_from_tours_draws_them_from_its_own_probabilities():
    net = untrained(tsp, TOURING).model
    read = net.encode(SQUARE.expand(2003, 4, 2), torch.full((2003,), 4))
    drawn = net.decode_tours(read, starts=torch.zeros(2003, 1).long(), sample=True)[:, 0]
    each = torch.tensor([[0, *rest] for rest in permutations((1, 2, 3))])
    first = net.encode(SQUARE, torch.tensor([4]))
    expected = net.log_probability(first, each[None], fixed_start=True).sum(-1).exp()[0]
    shares = (drawn[:, None] == each).all(-1).float().mean(0)
    assert_close(shares, expected, atol=0.05, rtol=0)


@pytest.mark.parametrize(("kind", "config"), [(PointerNetwork, NET), (AttentionPointer, TOURING)])
def test_who_knows_nothing_takes_each_that_is_left_alike(kind, config):
    net = kind(untrained(sort, config).config)
    for weight in net.parameters():
        nn.init.zeros_(weight)
    batch = Numbers(3, 3).draw(np.random.default_rng(0), 5)
    # one of three, then of two, then the last one and the end: 1/3 · 1/2 · 1 · 1
    assert_close(supervised_loss(net, batch), torch.tensor(math.log(6) / 4))


def test_the_loss_is_the_mean_over_all_steps_of_all_answers():
    net = untrained(sort, NET).model
    batch = Numbers(2, 5).draw(np.random.default_rng(0), 7)
    alone = [batch.map_tensors(lambda x, i=i: x[i : i + 1]) for i in range(7)]
    steps = [int(each.lengths) + 1 for each in alone]
    assert len(set(steps)) > 1
    expected = sum(n * supervised_loss(net, one) for n, one in zip(steps, alone, strict=True))
    assert_close(supervised_loss(net, batch), expected / sum(steps))


def test_lengths_of_a_square_by_hand():
    both = torch.tensor([[STRAIGHT, CROSSED, [2, 3, 0, 1]]])
    assert_close(tour_lengths(SQUARE, both), torch.tensor([[4, 2 + 2 * math.sqrt(2), 4]]))


def test_lengths_are_those_of_the_data():
    random = np.random.default_rng(0)
    points = random.random((3, 7, 2))
    walks = np.stack([[random.permutation(7) for _ in range(5)] for _ in range(3)])
    expected = [tours.tour_lengths(points, walks[:, s]) for s in range(5)]
    found = tour_lengths(torch.from_numpy(points), torch.from_numpy(walks))
    assert_close(found, torch.from_numpy(np.stack(expected, 1)))
