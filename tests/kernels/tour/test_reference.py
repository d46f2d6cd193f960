"""Tours in few operations: as by their definition, a few instances at a time, drawn as likely."""

import torch
from torch.testing import assert_close

from regard.kernels.tour import reference as tour_reference
from regard.layers.tour_decoder import PointTables, TourDecoder
from tests.kernels.tours import LENGTHS, B, E, H, N, likely, sizes, starts, tables


def test_a_few_instances_at_a_time_are_all_at_once(monkeypatch):
    made, begin = tables(), starts()
    whole = tour_reference.decode_tours(made, sizes(), begin, False)
    monkeypatch.setattr(tour_reference, "CHUNK_ELEMENTS", 1)
    assert torch.equal(tour_reference.decode_tours(made, sizes(), begin, False), whole)


def test_no_instance_has_no_tour():
    none = tables()._replace(lengths=LENGTHS[:0])
    none = none._replace(**{name: getattr(none, name)[:0] for name in none._fields[:6]})
    assert tour_reference.decode_tours(none, sizes(), None, False).shape == (0, 1, N)


def test_every_step_is_the_likeliest_of_what_is_left():
    made = tables(7)
    touring = TourDecoder(E, H)
    places = PointTables(*made[:6], made.lengths)
    tours = tour_reference.decode_tours(made, sizes(), starts(7), False)
    left = torch.ones(B, tours.shape[1], 7, dtype=torch.bool)
    for t in range(1, 7):
        left.scatter_(2, tours[..., t - 1 : t], False)
        queries = touring.queries(places, tours[..., 0], tours[..., t - 1])
        assert torch.equal(touring(places, queries, left).argmax(-1), tours[..., t])


def test_points_are_drawn_as_often_as_they_are_likely():
    made, begin = tables(5), torch.zeros(B, 4000, dtype=torch.long)
    drawn = tour_reference.decode_tours(made, sizes(), begin, True)[..., 1]
    often = torch.stack([(drawn == k).double().mean(1) for k in range(5)], 1)
    assert_close(often.float(), likely(made), atol=0.03, rtol=0)


def test_all_that_is_made_is_made_where_the_points_are():
    made, begin = tables(), starts()
    there = tour_reference.decode_tours(made, sizes(), begin, False)
    with torch.device("meta"):
        assert torch.equal(tour_reference.decode_tours(made, sizes(), begin, False), there)
