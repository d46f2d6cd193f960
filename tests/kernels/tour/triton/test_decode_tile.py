"""All steps in one kernel are those of the plain twin."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.tour import launch as tour_launch
from regard.kernels.tour import reference as tour_reference
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.tours import B, N, likely, sizes, starts, tables

pytestmark = [QUIET, INTERPRETED]


@pytest.mark.parametrize("points", [1, 2, N, 17, 33])
def test_greedy_tours_are_those_of_the_twin(points):
    made, begin = tables(points), starts(points)
    theirs = tour_reference.decode_tours(made, sizes(), begin, False)
    assert torch.equal(tour_launch.launch_decode_tours(made, sizes(), begin, False), theirs)


@pytest.mark.parametrize("points", [1, N])
def test_a_tour_that_chooses_its_own_start_is_that_of_the_twin(points, monkeypatch):
    monkeypatch.setattr(tour_launch, "SINGLE_MAX_TOURS", 0)
    made = tables(points)
    theirs = tour_reference.decode_tours(made, sizes(), None, False)
    assert torch.equal(tour_launch.launch_decode_tours(made, sizes(), None, False), theirs)


def test_more_tours_than_a_tile_are_each_as_alone():
    made, begin = tables(7), torch.arange(7).repeat(3).expand(B, -1)
    found = tour_launch.launch_decode_tours(made, sizes(), begin, False)
    assert torch.equal(found[:, :7], found[:, 7:14])
    assert torch.equal(
        found[:, :7], tour_reference.decode_tours(made, sizes(), begin[:, :7], False)
    )


def test_drawn_tours_visit_each_point_once():
    made, begin = tables(), starts()
    found = tour_launch.launch_decode_tours(made, sizes(), begin, True)
    for row, length in zip(found, made.lengths.tolist(), strict=True):
        assert torch.equal(row[:, :length].sort().values, torch.arange(length).expand(5, -1))
        assert (row[:, length:] == -1).all()


@pytest.mark.parametrize("clip", [0.0, 10.0])
def test_points_are_drawn_as_often_as_they_are_likely(clip):
    made, begin = tables(5), torch.zeros(B, 480, dtype=torch.long)
    drawn = tour_launch.launch_decode_tours(made, sizes(clip), begin, True)[..., 1]
    often = torch.stack([(drawn == k).double().mean(1) for k in range(5)], 1)
    assert_close(often.float(), likely(made, clip), atol=0.08, rtol=0)
