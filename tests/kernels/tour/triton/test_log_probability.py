"""How likely tours were, in one kernel each way: as its twin says, gradients too."""

import pytest

pytest.importorskip("triton")

from regard.kernels.tour import launch_log_probability
from regard.kernels.tour import reference as tour_reference
from regard.kernels.tour.types import Tables
from regard.layers.tour_decoder import PointTables, TourDecoder
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.tours import E, N, sizes, starts, tables, when
from tests.oracle import assert_as_good_as

pytestmark = [QUIET, INTERPRETED]


@pytest.mark.parametrize("points", [2, N, 17, 41])
@pytest.mark.parametrize("clip", [0.0, 10.0])
def test_the_likelihood_is_its_twins_gradients_too(points, clip):
    made = tables(points)
    tours = tour_reference.decode_tours(made, sizes(clip), starts(points), True)

    def ours(*leaves):
        given = Tables(*leaves, made.begin, made.lengths)
        return launch_log_probability.log_probability(
            given, sizes(clip), tours, when(tours, points)
        )

    def plain(*leaves):
        touring = TourDecoder(E, 2, clip=clip).to(leaves[0].dtype)
        return touring.log_probability(PointTables(*leaves, made.lengths), tours, fixed_start=True)

    assert_as_good_as(ours, plain, *made[:6], slack=4.0)
