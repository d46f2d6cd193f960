"""How likely tours were, in one kernel each way: as its twin says, gradients too."""

import pytest

pytest.importorskip("triton")

from regard.kernels import tour_plain, tour_worth
from regard.kernels.tour_sizes import Tables
from regard.layers.touring import Places, Touring
from tests.kernels.calls import INTERPRETED, QUIET
from tests.kernels.tours import E, N, sizes, starts, tables, when
from tests.oracle import assert_as_good_as

pytestmark = [QUIET, INTERPRETED]


@pytest.mark.parametrize("points", [2, N, 17, 41])
@pytest.mark.parametrize("clip", [0.0, 10.0])
def test_the_likelihood_is_its_twins_gradients_too(points, clip):
    made = tables(points)
    tours = tour_plain.walked(made, sizes(clip), starts(points), True)

    def ours(*leaves):
        given = Tables(*leaves, made.begin, made.lengths)
        return tour_worth.log_probability(given, sizes(clip), tours, when(tours, points))

    def plain(*leaves):
        touring = Touring(E, 2, clip=clip).to(leaves[0].dtype)
        return touring.log_probability(Places(*leaves, made.lengths), tours, begun=True)

    assert_as_good_as(ours, plain, *made[:6], slack=4.0)
