"""A tour in a program of its own is that of the plain twin, and that of a tile of tours."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.tour import launch as tour_launch
from regard.kernels.tour import reference as tour_reference
from regard.kernels.tour.triton.decode_single import decode_single_tour_kernel
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.tours import B, N, likely, sizes, starts, tables

pytestmark = [QUIET, INTERPRETED]


@pytest.mark.parametrize("points", [1, 2, N, 33])
def test_greedy_tours_are_those_of_the_twin(points):
    made, begin = tables(points), starts(points)[:, :3]
    theirs = tour_reference.decode_tours(made, sizes(), begin, False)
    assert torch.equal(tour_launch.launch_decode_tours(made, sizes(), begin, False), theirs)


@pytest.mark.parametrize("points", [1, N])
def test_a_tour_that_chooses_its_own_start_is_that_of_the_twin(points):
    made = tables(points)
    theirs = tour_reference.decode_tours(made, sizes(), None, False)
    assert torch.equal(tour_launch.launch_decode_tours(made, sizes(), None, False), theirs)


def test_alone_and_in_a_tile_it_is_the_same_tour(monkeypatch):
    made, begin = tables(), starts()[:, :2]
    alone = tour_launch.launch_decode_tours(made, sizes(), begin, False)
    monkeypatch.setattr(tour_launch, "SINGLE_MAX_TOURS", 0)
    assert torch.equal(tour_launch.launch_decode_tours(made, sizes(), begin, False), alone)


class Begun:
    """The kernel, which ends tours with their second point: a draw takes the interpreter long."""

    def __init__(self, tours):
        self.tours = tours

    def __getitem__(self, grid):
        # in the place of the whole tours, and of how many points they have
        return lambda *given, **how: decode_single_tour_kernel[grid](
            *given[:10], self.tours, *given[11:13], 2, *given[14:], **how
        )


@pytest.mark.parametrize("clip", [0.0, 10.0])
def test_points_are_drawn_as_often_as_they_are_likely(clip, monkeypatch):
    made, begin = tables(5), torch.zeros(B, 480, dtype=torch.long)
    drawn = torch.full((B, 480, 2), -1)
    monkeypatch.setattr(tour_launch, "SINGLE_MAX_TOURS", 10**9)
    monkeypatch.setattr(tour_launch, "decode_single_tour_kernel", Begun(drawn))
    tour_launch.launch_decode_tours(made, sizes(clip), begin, True)
    often = torch.stack([(drawn[..., 1] == k).double().mean(1) for k in range(5)], 1)
    assert_close(often.float(), likely(made, clip), atol=0.08, rtol=0)
