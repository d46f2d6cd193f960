"""How a kernel of tours is started: in its own memory, and with draws of its own."""

import pytest
import torch

pytest.importorskip("triton")

from regard.kernels.tour import launch as tour_launch
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.tours import sizes, starts, tables

pytestmark = [QUIET, INTERPRETED]


def test_tables_that_do_not_lie_together_are_read_alike():
    made, begin = tables(), starts()
    apart = made._replace(keys=made.keys.mT.contiguous().mT, first=made.first.mT.contiguous().mT)
    assert not apart.keys.is_contiguous()
    one, other = (
        tour_launch.launch_decode_tours(each, sizes(), begin, False) for each in (made, apart)
    )
    assert torch.equal(one, other)


def test_nothing_that_was_given_is_written_over():
    made, begin = tables(), starts()
    before = [x.clone() for x in (*made, begin)]
    tour_launch.launch_decode_tours(made, sizes(), begin, True)
    assert all(torch.equal(x, y) for x, y in zip((*made, begin), before, strict=True))


def test_the_same_seed_draws_the_same_tours():
    made, begin, found = tables(), starts(), []
    for _ in range(2):
        torch.manual_seed(3)
        found.append(tour_launch.launch_decode_tours(made, sizes(), begin, True))
    assert torch.equal(*found)
    assert not torch.equal(found[0], tour_launch.launch_decode_tours(made, sizes(), begin, True))
