"""Selects that were edited: a few rows of them are rows of the whole, and a draw is kept."""

import pytest
import torch
from torch.testing import assert_close

from regard.functional import selects
from regard.functional.edited_selects import (
    ForcedWeightSelect,
    TemperatureSelect,
    log_weights,
    restrict_to_rows,
    with_drawn_keys,
)

B, H, Q, K = 2, 3, 5, 7
ROWS = torch.tensor([1, 0, 1, 1, 0]).bool()
INNER = {
    "softmax": selects.softmax,
    "hard": selects.hard,
    "gaussian": selects.gaussian(torch.rand(B, H, Q) * K, 1.5),
    "drawn": selects.DrawnKeys(torch.randint(K, (B, H, Q))),
}


def scores():
    return torch.randn(B, H, Q, K).masked_fill(torch.rand(B, H, Q, K) < 0.2, -torch.inf)


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_a_part_gives_rows_of_the_whole(inner):
    select, s, queries = (
        ForcedWeightSelect(TemperatureSelect(inner, 0.5), ROWS, 3, 0.4),
        scores(),
        torch.tensor([4, 0]),
    )
    some = restrict_to_rows(select, 1, 2, queries)(s[1:, 2:, queries])
    assert_close(some[0, 0], select(s)[1, 2, queries])


@pytest.mark.parametrize("sizes", [(B, H, Q, K), (1, 1, K), (1, Q, K)], ids=str)
def test_a_key_that_a_mask_hides_is_not_forced_in_a_part_either(sizes):
    s, mask, queries = scores(), torch.rand(sizes) < 0.5, torch.tensor([4, 0])
    select = ForcedWeightSelect(selects.softmax, ROWS, 3, 0.4, mask)
    found, forced = select(s), mask[..., 3].expand(B, H, Q) & ROWS & s[..., 3].isfinite()
    assert_close(found[forced][:, 3], torch.full((int(forced.sum()),), 0.4))
    assert torch.equal(found[~forced], selects.softmax(s)[~forced])
    some = restrict_to_rows(select, 1, 2, queries)(s[1:, 2:, queries])
    assert_close(some[0, 0], found[1, 2, queries])


def test_what_nobody_knows_has_no_part():
    unknown = lambda s: selects.softmax(2 * s)  # noqa: E731
    for select in (
        unknown,
        TemperatureSelect(unknown, 2.0),
        ForcedWeightSelect(unknown, ROWS, 0, 0.5),
    ):
        assert restrict_to_rows(select, 0, 0, torch.tensor([1])) is None


def test_rows_that_are_not_forced_keep_every_bit():
    s = scores()
    found, before = ForcedWeightSelect(selects.softmax, ROWS, 2, 0.7)(s), selects.softmax(s)
    assert torch.equal(found[:, :, ~ROWS], before[:, :, ~ROWS])


def test_a_draw_is_made_once_of_the_heated_scores():
    s = torch.tensor([[[[0.0, 1.0]]]])
    select = with_drawn_keys(
        ForcedWeightSelect(TemperatureSelect(selects.sampled(), 1e-3), ROWS[:1], 0, 0.25), lambda: s
    )
    assert torch.equal(select(s), select(s))
    assert select(s)[0, 0, 0].tolist() == [0.25, 0.75]


def test_scores_are_not_formed_where_nothing_is_drawn():
    def formed():
        raise AssertionError

    assert (
        with_drawn_keys(TemperatureSelect(selects.hard, 2.0), formed)(torch.zeros(1, 1, 1, 2)).sum()
        == 1
    )


def test_no_temperature_makes_what_is_seen_unseen():
    s = torch.tensor([[[[-5.0, -4.0, -torch.inf]]]])
    assert TemperatureSelect(selects.softmax, 1e-45)(s).isfinite().all()
    assert_close(TemperatureSelect(selects.softmax, 1e-38)(s).sum(), torch.tensor(1.0))


def test_the_softmax_of_logs_is_the_weights_and_zeros_pass_no_gradient():
    s = scores().requires_grad_()
    w = selects.sparsemax(s)
    assert_close(selects.softmax(log_weights(selects.sparsemax, s)), w)
    log_weights(selects.sparsemax, s)[w > 0].sum().backward()
    assert s.grad.isfinite().all()


NEARLY = {
    "heated": TemperatureSelect(selects.softmax, 0.5),
    "forced": ForcedWeightSelect(
        TemperatureSelect(selects.softmax, 0.5), torch.ones(1, 1, 1).bool(), 3, 0.5
    ),
    "own": lambda s: selects.softmax(2 * s),
}


@pytest.mark.parametrize("select", NEARLY)
def test_logs_of_weights_that_are_all_but_zero_have_finite_gradients(select):
    s = torch.tensor([[[[0.0, -46.0, -48.5, -60.0]]]], requires_grad=True)
    select = NEARLY[select]
    found = log_weights(select, s)
    grad = torch.autograd.grad(5 * found.masked_fill(found.isinf(), 0).sum(), s)[0]
    assert grad.isfinite().all()


def test_logs_of_a_heated_softmax_do_not_underflow():
    s = torch.tensor([[[[0.0, -30.0, -200.0, -torch.inf]], [[-torch.inf] * 4]]])
    expected = torch.tensor([[[[0.0, -60.0, -400.0, -torch.inf]], [[-torch.inf] * 4]]])
    assert_close(log_weights(TemperatureSelect(selects.softmax, 0.5), s), expected)


def test_gradients_of_a_forced_row_whose_rest_nearly_underflows_are_finite():
    scores = torch.tensor([[[[0.0, -87.0, -87.5]]]], requires_grad=True)
    forced = ForcedWeightSelect(selects.softmax, torch.ones(1, 1, 1).bool(), 0, 0.25)
    weights = forced(scores)
    torch.testing.assert_close(weights[..., 1:].sum(-1), torch.tensor([[[0.75]]]))
    (gradient,) = torch.autograd.grad((weights * torch.tensor([1.0, 300.0, 2.0])).sum(), scores)
    assert gradient.isfinite().all()
