"""Whole tours: who takes which way, and what every way keeps to."""

import torch

from regard.kernels.tour import api as tour_kernel
from regard.kernels.tour import reference as tour_reference
from regard.kernels.tour.types import Sizes
from tests.kernels.tours import LENGTHS, E, sizes, starts, tables


def test_off_a_card_the_plain_way_is_taken(monkeypatch):
    given = []
    monkeypatch.setattr(tour_reference, "decode_tours", lambda *all: given.extend(all) or LENGTHS)
    made = tables()
    assert tour_kernel.decode_tours(made, sizes(), sample=True) is LENGTHS
    assert given == [made, sizes(), None, True]


def test_what_no_kernel_holds_is_left_to_the_plain_way(monkeypatch):
    monkeypatch.setattr(tour_kernel, "DEVICES", ("cpu",))
    assert tour_kernel.can_use_kernel(tables(), sizes()) == tour_kernel.has_triton()
    assert not tour_kernel.can_use_kernel(tables(tour_kernel.MAX_POINTS + 1), sizes())
    assert not tour_kernel.can_use_kernel(tables(dtype=torch.float64), sizes())
    # heads of one number are no tile of a tensor core
    assert not tour_kernel.can_use_kernel(tables(), Sizes(heads=E))


def test_nothing_learns_on_the_way():
    made = tables()
    leaf = made.keys.requires_grad_()
    assert not tour_kernel.decode_tours(made._replace(keys=leaf), sizes()).requires_grad


def test_drawn_tours_differ_and_greedy_ones_do_not():
    made, begin = tables(), starts()
    one, other = (
        tour_kernel.decode_tours(made, sizes(), starts=begin, sample=True) for _ in range(2)
    )
    assert not torch.equal(one, other)
    one, other = (tour_kernel.decode_tours(made, sizes(), starts=begin) for _ in range(2))
    assert torch.equal(one, other)


def test_every_tour_begins_where_it_is_told_and_ends_with_its_points():
    begin = starts()
    found = tour_kernel.decode_tours(tables(), sizes(), starts=begin, sample=True)
    assert torch.equal(found[..., 0], begin)
    assert torch.equal((found >= 0).sum(-1), LENGTHS[:, None].expand_as(begin))
