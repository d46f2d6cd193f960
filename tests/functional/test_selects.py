"""Selects: a number by hand for each, their laws and gradients, refusals."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from regard import attend, selects, weigh
from regard.functional.selects import HIDDEN, DrawnKeys, is_position_independent
from tests.mechanisms import DRAWN, LOSSY, SELECTS, Sizes

B, H, Q, K, D = 2, 3, 5, 7, 11
ALL = SELECTS | DRAWN


def row(*scores):
    """One row of scores (1, 1, 1, K)."""
    return torch.tensor(scores)[None, None, None]


def test_softmax_by_hand():
    assert selects.softmax(row(0.0, math.log(3))).flatten().tolist() == pytest.approx([0.25, 0.75])


def test_sparsemax_by_hand():
    # the threshold is (0.5 + 0.3 + 0.1 - 1) / 3, as -1 is too far below
    weights = selects.sparsemax(row(0.5, 0.3, -1.0, 0.1)).flatten().tolist()
    assert weights == pytest.approx([0.5 + 0.1 / 3, 0.3 + 0.1 / 3, 0.0, 0.1 + 0.1 / 3])


def test_sparsemax_reads_a_clear_winner_alone():
    assert selects.sparsemax(row(3.0, 1.0, 0.0)).flatten().tolist() == [1, 0, 0]


def test_top_k_by_hand():
    weights = selects.top_k(2)(row(0.0, 5.0, 5.0, -1.0)).flatten().tolist()
    assert weights == [0, 0.5, 0.5, 0]


def test_hard_by_hand():
    assert selects.hard(row(0.0, 2.0, 1.0)).flatten().tolist() == [0, 1, 0]


def test_gaussian_by_hand():
    weights = selects.gaussian(torch.tensor([[[1.0]]]), 0.5)(row(0.0, 0.0)).flatten().tolist()
    assert weights == pytest.approx([0.5 * math.exp(-2), 0.5])


def test_drawn_by_hand():
    index = torch.tensor([[[1, -1]]])
    assert DrawnKeys(index)(torch.zeros(1, 1, 2, 3))[0, 0].tolist() == [[0, 1, 0], [0, 0, 0]]


def test_sparsemax_is_the_nearest_point_of_the_simplex():
    scores = torch.randn(1, 1, 1, 3)
    nearest = selects.sparsemax(scores).flatten()
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 101)] * 2)
    grid = grid[grid.sum(-1) <= 1]
    simplex = torch.cat([grid, 1 - grid.sum(-1, keepdim=True)], -1)
    away = (simplex - scores.flatten()).norm(dim=-1)
    assert (nearest - scores.flatten()).norm() <= away.min() + 1e-6
    assert torch.allclose(simplex[away.argmin()], nearest, atol=0.02)


@pytest.mark.parametrize("name", [n for n in ALL if n not in LOSSY])
def test_rows_sum_to_one(name):
    weights = ALL[name](Sizes())(3 * torch.randn(B, H, Q, K))
    assert torch.allclose(weights.sum(-1), torch.ones(B, H, Q)) and (weights >= 0).all()


@pytest.mark.parametrize("name", LOSSY)
def test_a_lossy_row_sums_to_one_at_most(name):
    assert (ALL[name](Sizes())(torch.randn(B, H, Q, K)).sum(-1) <= 1 + 1e-6).all()


@pytest.mark.parametrize("name", ALL)
def test_a_hidden_score_has_no_weight_and_a_blind_row_none_at_all(name):
    scores = torch.randn(B, H, Q, K).masked_fill(torch.rand(B, H, Q, K) < 0.5, HIDDEN)
    scores[:, :, 0] = HIDDEN
    scores.requires_grad_()
    weights = ALL[name](Sizes())(scores)
    if weights.requires_grad:
        (weights * torch.randn(B, H, Q, K)).sum().backward()
        assert scores.grad.isfinite().all() and scores.grad[scores == HIDDEN].eq(0).all()
    assert weights.isfinite().all() and weights[scores == HIDDEN].eq(0).all()


@pytest.mark.parametrize("name", ALL)
def test_no_keys_and_no_queries_are_no_errors(name):
    for q, k in [(Q, 0), (0, K)]:
        assert ALL[name](Sizes(Q=q, K=k))(torch.ones(B, H, q, k)).shape == (B, H, q, k)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_selected_in_float32(name, dtype):
    assert ALL[name](Sizes())(torch.randn(B, H, Q, K).to(dtype)).dtype == torch.float32


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "top_k", "gaussian"])
def test_gradients_are_exact(name):
    select = SELECTS[name](Sizes(B=1, H=2, Q=3))
    scores = torch.randn(1, 2, 3, K).double().masked_fill(torch.rand(1, 2, 3, K) < 0.3, HIDDEN)
    seen = scores != HIDDEN

    def selected(x):
        return select(x.masked_fill(~seen, HIDDEN))

    assert gradcheck(selected, scores.masked_fill(~seen, 0).requires_grad_())


def test_the_centre_has_a_gradient():
    centre = torch.tensor([[[1.0]]], requires_grad=True)
    selects.gaussian(centre, 1.0)(row(0.0, 0.0))[..., 0].sum().backward()
    # 0.5 exp(-c² / 2) has the slope -c times itself
    assert centre.grad.item() == pytest.approx(-0.5 * math.exp(-0.5))


def test_a_centre_in_float64_keeps_its_digits_far_along():
    centre = torch.tensor([[[50_000.123456]]], dtype=torch.double)
    weights = selects.gaussian(centre, 0.5)(torch.zeros(1, 1, 1, 60_000))
    expected = torch.exp(-torch.tensor([0.123456, 0.876544]).square() / 0.5) / 60_000
    torch.testing.assert_close(weights[0, 0, 0, 50_000:50_002], expected)


def test_a_blind_row_does_not_care_for_its_centre():
    centre = torch.tensor([[[torch.nan, 1.0]]], requires_grad=True)
    scores = torch.tensor([[[[HIDDEN, HIDDEN], [0.0, 1.0]]]], requires_grad=True)
    weights = selects.gaussian(centre, 1.0)(scores)
    weights.sum().backward()
    assert weights.isfinite().all() and scores.grad.isfinite().all() and centre.grad[0, 0, 0] == 0


def test_straight_through_is_hard_forward_and_softmax_backward():
    scores, direction = torch.randn(2, B, H, Q, K)
    one, two = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    out = selects.straight_through(one)
    (out * direction).sum().backward()
    (selects.softmax(two) * direction).sum().backward()
    assert torch.equal(out, selects.hard(scores)) and torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("keys", [3, 13, 130])
def test_top_k_cuts_ties_by_order(keys):
    scores = torch.zeros(1, 1, 1, keys)
    assert selects.top_k(2)(scores).flatten().tolist() == [0.5, 0.5] + [0.0] * (keys - 2)
    scores[..., -1] = 1.0
    assert selects.top_k(2)(scores).nonzero()[:, 3].tolist() == [0, keys - 1]


def test_top_k_of_all_keys_is_softmax():
    scores = torch.randn(B, H, Q, K)
    assert torch.equal(selects.top_k(K)(scores), selects.softmax(scores))


def test_draws_have_the_frequencies_of_softmax():
    scores = torch.tensor([0.0, 1.0, 2.0, HIDDEN]).expand(1, 1, 20000, 4)
    often = selects.sampled()(scores).mean((0, 1, 2))
    assert torch.allclose(often, scores[0, 0, 0].softmax(-1), atol=0.015) and often[3] == 0


def test_a_generator_brings_a_draw_back():
    scores = torch.randn(B, H, 50, K)
    again = [
        selects.sampled(torch.Generator().manual_seed(7)).sample_keys(scores) for _ in range(2)
    ]
    other = selects.sampled(torch.Generator().manual_seed(8)).sample_keys(scores)
    assert torch.equal(*again) and not torch.equal(again[0], other)


def test_a_draw_moves_its_generator_on():
    select = selects.sampled(torch.Generator().manual_seed(7))
    q, k = torch.zeros(B, H, 50, D), torch.zeros(B, H, K, D)
    assert not torch.equal(weigh(q, k, select=select), weigh(q, k, select=select))


@pytest.mark.parametrize("name", SELECTS)
def test_a_local_select_does_not_care_where_keys_stand(name):
    select, scores, order = SELECTS[name](Sizes()), torch.randn(B, H, Q, K), torch.randperm(K)
    moved = torch.allclose(select(scores)[..., order], select(scores[..., order]), atol=1e-6)
    assert moved or not is_position_independent(select)


@pytest.mark.parametrize(
    "made", [DrawnKeys(torch.randint(0, K, (B, H, Q))), None], ids=["drawn", "g"]
)
def test_a_part_is_the_select_of_some_queries_of_one_head(made):
    select = made or SELECTS["gaussian"](Sizes())
    scores, queries = torch.randn(B, H, Q, K), torch.tensor([4, 0])
    part = select.restrict_to_rows(1, 2, queries)(scores[1:, 2:, queries])
    assert torch.allclose(part[0, 0], select(scores)[1, 2, queries])


WRONG = {
    "top_k: expected a whole n >= 1, got 0": lambda: selects.top_k(0),
    "gaussian: expected width > 0, got 0.0": (lambda: selects.gaussian(torch.ones(B, H, Q), 0.0)),
    "gaussian: expected centre of shape (B=2, H=3, Q=5), got (2, 3, 7)": (
        lambda: selects.gaussian(torch.ones(B, H, K), 1.0)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_select_that_cannot_be_meant_is_refused_in_words(message):
    with pytest.raises(ValueError) as refused:
        attend(torch.ones(B, H, Q, D), *torch.ones(2, B, H, K, D), select=WRONG[message]())
    assert str(refused.value) == message


def test_a_centre_for_storing_alone_is_refused_in_words():
    with pytest.raises(ValueError, match=r"gaussian: expected centre in float16.*float8_e5m2"):
        selects.gaussian(torch.ones(1, 1, 2).to(torch.float8_e5m2), 1.0)
