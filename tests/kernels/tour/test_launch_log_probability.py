"""How likely tours were, started on a card: nothing is kept where nothing learns."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.tour import launch_log_probability
from regard.kernels.tour import reference as tour_reference
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.tours import B, N, S, sizes, starts, tables, when

pytestmark = [QUIET, INTERPRETED]


def said(made, tours):
    return launch_log_probability.log_probability(made, sizes(), tours, when(tours))


def test_the_first_point_is_given_and_what_is_over_costs_nothing():
    made = tables()
    tours = tour_reference.decode_tours(made, sizes(), starts(), True)
    found = said(made, tours)
    assert found.shape == (B, S, N)
    assert not found[..., 0].any()
    assert not found[tours < 0].any()
    assert (found[..., 1][tours[..., 1] >= 0] < 0).all()


def test_nothing_is_kept_where_nothing_learns():
    made = tables()
    tours = tour_reference.decode_tours(made, sizes(), starts(), True)
    with torch.no_grad():
        quiet = said(made, tours)
    assert not quiet.requires_grad
    loud = said(made._replace(keys=made.keys.clone().requires_grad_()), tours)
    assert loud.requires_grad
    assert_close(loud, quiet)


def test_tours_may_be_spread_over_any_number_of_programs(monkeypatch):
    made, found = tables(), []
    tours = tour_reference.decode_tours(made, sizes(), starts(), True)
    for parts in (1, 2, 8):
        monkeypatch.setattr(launch_log_probability, "BACKWARD_PROGRAMS", parts)
        leaf = made.values.clone().requires_grad_()
        said(made._replace(values=leaf), tours).sum().backward()
        found.append(leaf.grad)
    assert_close(found[0], found[1])
    assert_close(found[0], found[2])
