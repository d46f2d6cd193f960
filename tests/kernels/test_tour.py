"""Whole tours: who takes which way, and what every way keeps to."""

import torch

from regard.kernels import tour, tour_plain
from regard.kernels.tour_sizes import Sizes
from tests.kernels.tours import LENGTHS, E, sizes, starts, tables


def test_off_a_card_the_plain_way_is_taken(monkeypatch):
    given = []
    monkeypatch.setattr(tour_plain, "walked", lambda *all: given.extend(all) or LENGTHS)
    made = tables()
    assert tour.walked(made, sizes(), drawn=True) is LENGTHS
    assert given == [made, sizes(), None, True]


def test_what_no_kernel_holds_is_left_to_the_plain_way(monkeypatch):
    monkeypatch.setattr(tour, "DEVICES", ("cpu",))
    assert tour.fused(tables(), sizes()) == tour.has_triton()
    assert not tour.fused(tables(tour.MOST + 1), sizes())
    assert not tour.fused(tables(dtype=torch.float64), sizes())
    # heads of one number are no tile of a tensor core
    assert not tour.fused(tables(), Sizes(heads=E))


def test_nothing_learns_on_the_way():
    made = tables()
    leaf = made.keys.requires_grad_()
    assert not tour.walked(made._replace(keys=leaf), sizes()).requires_grad


def test_drawn_tours_differ_and_greedy_ones_do_not():
    made, begin = tables(), starts()
    one, other = (tour.walked(made, sizes(), starts=begin, drawn=True) for _ in range(2))
    assert not torch.equal(one, other)
    one, other = (tour.walked(made, sizes(), starts=begin) for _ in range(2))
    assert torch.equal(one, other)


def test_every_tour_begins_where_it_is_told_and_ends_with_its_points():
    begin = starts()
    found = tour.walked(tables(), sizes(), starts=begin, drawn=True)
    assert torch.equal(found[..., 0], begin)
    assert torch.equal((found >= 0).sum(-1), LENGTHS[:, None].expand_as(begin))
