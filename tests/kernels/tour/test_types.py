"""What a tour goes by: tables in the order in which a kernel takes them."""

from regard.kernels.tour.types import Sizes, Tables
from regard.layers.tour_decoder import PointTables


def test_tables_are_what_a_layer_knows_of_points_and_how_it_begins():
    assert Tables._fields == (*PointTables._fields[:-1], "begin", "lengths")


def test_nothing_is_clipped_unless_told():
    assert Sizes(8).clip == 0
