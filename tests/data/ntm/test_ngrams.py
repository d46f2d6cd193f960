"""N-grams: the estimate is the best there is, and it costs what the paper says."""

import math

import numpy as np
import pytest
import torch

from regard.data.ntm.episodes import Episodes
from regard.data.ntm.ngrams import NGrams


def estimates(bits: list[int], order: int, prior: float = 0.5) -> list[float]:
    """For every bit, the chance of a one by a walk over all that came before it."""
    found = []
    for place in range(len(bits)):
        context = bits[place - order + 1 : place]
        places = range(order - 1, place)
        alike = [bits[i] for i in places if bits[i - order + 1 : i] == context]
        chance = (sum(alike) + prior) / (len(alike) + 2 * prior)
        found.append(chance if place >= order - 1 else 0.5)
    return found


def cost(bits: list[int], chances: list[float]) -> float:
    return -sum(math.log2(p if bit else 1 - p) for bit, p in zip(bits, chances, strict=True))


def rows(drawn: Episodes) -> list[list[int]]:
    return drawn.targets[..., 0].int().tolist()


def test_an_episode_by_hand():
    episode = NGrams().parse_episode("0110")
    assert episode.targets[0, :4, 0].tolist() == [0, 1, 1, 0]
    assert episode.target_mask.tolist() == [[True, True, True, True, False]]
    # each step is given the bit before; the last one typed too, to be asked what is next
    assert episode.inputs[0, :, 0].tolist() == [0, 0, 1, 1, 0]


def test_the_best_estimate_by_hand():
    # Contexts of one bit. Behind 1 come 1, 0 and 1; behind 0 comes 1.
    chances = NGrams(order=2).optimal_probabilities(NGrams(order=2).parse_episode("11011").inputs)
    by_hand = [1 / 2, 1 / 2, 1.5 / 2, 1 / 2, 1.5 / 3, 2.5 / 4]
    assert chances[0, :, 0].tolist() == pytest.approx(by_hand)


def test_the_best_cost_by_hand():
    # a first bit and a new context cost one bit each; 0 behind 1, which 1 has followed, has ¼
    task = NGrams(order=2)
    assert task.optimal_bits(task.parse_episode("11")).tolist() == pytest.approx([2])
    assert task.optimal_bits(task.parse_episode("110")).tolist() == pytest.approx([4])
    assert task.optimal_bits(task.parse_episode("1101")).tolist() == pytest.approx([5])


@pytest.mark.parametrize("order", [2, 3, 6])
def test_the_best_estimate_counts_what_followed_the_same_context(order):
    task = NGrams(order=order, length=60)
    drawn = task.draw(np.random.default_rng(0), 20)
    expected = [estimates(bits, order) for bits in rows(drawn)]
    assert task.optimal_probabilities(drawn.inputs)[..., 0].tolist() == [
        pytest.approx(row) for row in expected
    ]
    costs = [cost(bits, row) for bits, row in zip(rows(drawn), expected, strict=True)]
    assert task.optimal_bits(drawn).tolist() == pytest.approx(costs)


def test_a_text_shorter_than_a_context_is_a_matter_of_chance():
    task = NGrams(order=6)
    assert task.optimal_probabilities(task.parse_episode("01").inputs).unique().tolist() == [0.5]
    assert task.optimal_bits(task.parse_episode("0110")).tolist() == [4]


def test_no_other_prior_costs_less():
    task = NGrams(order=3, length=60)
    drawn = task.draw(np.random.default_rng(0), 1500)
    best = float(task.optimal_bits(drawn).mean())
    for prior in (0.2, 0.35, 0.7, 1.0):
        others = [cost(bits, estimates(bits, 3, prior)) for bits in rows(drawn)]
        assert best < sum(others) / len(others)


def test_no_other_order_costs_less():
    drawn = NGrams(order=3).draw(np.random.default_rng(0), 500)
    costs = [float(NGrams(order=order).optimal_bits(drawn).mean()) for order in (2, 3, 4)]
    assert costs[1] < min(costs[0], costs[2])


def test_the_best_cost_is_that_of_the_paper():
    task = NGrams()
    costs = task.optimal_bits(task.draw(np.random.default_rng(0), 20_000))
    # 133 bits a sequence; the mean of so many errs by 0.25
    assert float(costs.mean()) == pytest.approx(133, abs=0.75)


def test_the_sizes_are_those_of_the_paper():
    task = NGrams()
    assert (task.inputs, task.outputs, task.steps, task.slots) == (1, 1, 200, 32)


def test_every_step_is_given_the_bit_before():
    drawn = NGrams().draw(np.random.default_rng(0), 20)
    assert torch.equal(drawn.inputs[:, 1:], drawn.targets[:, :-1])
    assert not drawn.inputs[:, 0].any()
    assert drawn.target_mask.all()


def test_the_first_bits_are_fair_and_have_nothing_to_do_with_each_other():
    first = NGrams(order=3, length=10).draw(np.random.default_rng(0), 8000).targets[:, :2, 0]
    counts = torch.bincount((first @ torch.tensor([1.0, 2.0])).long())
    # of 2,000 each, with a deviation of 39
    assert all(abs(count - 2000) < 150 for count in counts.tolist())


def test_a_context_is_followed_as_beta_one_half_says():
    first, second, third, fourth = (
        NGrams(order=2, length=4).draw(np.random.default_rng(0), 40_000).targets[..., 0].T
    )
    # what followed once follows again at (1 + ½) / 2, what followed twice at (2 + ½) / 3
    once = first == second
    assert float((second == third)[once].float().mean()) == pytest.approx(3 / 4, abs=0.01)
    twice = once & (second == third)
    assert float((third == fourth)[twice].float().mean()) == pytest.approx(5 / 6, abs=0.01)
    # and a context that is new says nothing
    assert float((second == third)[~once].float().mean()) == pytest.approx(1 / 2, abs=0.01)


@pytest.mark.parametrize("text", ["", " ", "012", "0.5"])
def test_what_is_no_bits_is_refused(text):
    with pytest.raises(ValueError, match=f"^ngrams: expected bits, as in 0110100110, got '{text}'"):
        NGrams().parse_episode(text)


@pytest.mark.parametrize("settings", [{"order": 1}, {"order": 201}, {"length": 5}])
def test_sequences_that_cannot_be_drawn_are_refused(settings):
    with pytest.raises(ValueError, match=r"NGrams: expected 2 ≤ order ≤ length, got NGrams\(order"):
        NGrams(**settings)
