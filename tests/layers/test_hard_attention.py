"""What REINFORCE needs of a draw: how likely it was, and how open it had been."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard import attend, look
from regard.layers.hard_attention import ReinforceSelect

B, H, Q, K, D = 2, 3, 5, 7, 4
HARD, SOFT = torch.tensor(0.0), torch.tensor(1.0)


def scored() -> torch.Tensor:
    return torch.randn(B, H, Q, K, dtype=torch.float64, requires_grad=True)


def test_one_key_a_query_is_read_and_it_is_the_one_that_was_drawn():
    draw, scores = ReinforceSelect(HARD), scored()
    weights = draw(scores)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(weights.argmax(-1), draw.index)
    assert weights.sum(-1).eq(1).all()


def test_the_log_probability_is_that_of_the_softmax_at_the_drawn_key_gradient_too():
    draw, scores = ReinforceSelect(HARD), scored()
    draw(scores)
    expected = scores.log_softmax(-1).gather(-1, draw.index[..., None])[..., 0]
    assert_close(draw.log_probability, expected)
    reward = torch.randn(B, H, Q, dtype=torch.float64)
    found = torch.autograd.grad((reward * draw.log_probability).sum(), scores, retain_graph=True)
    assert_close(found, torch.autograd.grad((reward * expected).sum(), scores))


def test_read_softly_it_is_the_softmax_and_nothing_was_drawn():
    draw, scores = ReinforceSelect(SOFT), scored()
    assert_close(draw(scores), scores.softmax(-1))
    assert not draw.log_probability.any()
    gradient = torch.autograd.grad(draw.log_probability.sum(), scores)[0]
    assert not gradient.any()


def test_the_entropy_by_hand():
    draw = ReinforceSelect(HARD)
    draw(torch.tensor([[[[0.0, 0.0, -math.inf]], [[0.0, math.log(3), -math.inf]]]]))
    one_in_four = math.log(4) - 0.75 * math.log(3)
    assert_close(draw.entropy, torch.tensor([[[math.log(2)], [one_in_four]]]))


def test_keys_are_drawn_as_often_as_they_are_likely():
    scores = torch.tensor([0.7, 0.2, 0.1]).log().expand(1, 1, 20_000, 3)
    shares = ReinforceSelect(HARD)(scores).mean(2)[0, 0]
    assert_close(shares, torch.tensor([0.7, 0.2, 0.1]), rtol=0, atol=0.02)


def test_a_query_that_sees_nothing_draws_nothing_forward_and_backward():
    draw, scores = ReinforceSelect(HARD), scored()
    weights = draw(scores.masked_fill(torch.arange(Q)[:, None] == 2, -math.inf))
    assert not weights[:, :, 2].any() and (draw.index[:, :, 2] == -1).all()
    assert not draw.log_probability[:, :, 2].any() and not draw.entropy[:, :, 2].any()
    (draw.log_probability.sum() + draw.entropy.sum()).backward()
    assert scores.grad.isfinite().all() and not scores.grad[:, :, 2].any()


def test_a_look_shows_the_draw_that_was_read():
    q, k, v = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    with look() as seen:
        out = attend(q, k, v, select=ReinforceSelect(HARD))
    weights = seen["attend.0"].weights()
    assert_close(weights @ v, out)
    assert torch.equal(weights, seen["attend.0"].weights())


def test_before_the_call_there_is_nothing_to_ask():
    for name in ("log_probability", "entropy"):
        with pytest.raises(AssertionError, match="nothing was drawn yet"):
            getattr(ReinforceSelect(HARD), name)
