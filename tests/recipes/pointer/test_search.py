"""Searching: answers that hang on nothing but what was asked, and tours that only get shorter."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data.geometry.hulls import Hull
from regard.data.geometry.instances import Instances
from regard.data.geometry.numbers import Numbers
from regard.data.geometry.tours import canonical_tour
from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from regard.recipes import hull, sort, tsp
from regard.recipes.pointer import search
from regard.recipes.pointer.loss import tour_lengths
from regard.recipes.pointer.problems import collate_points
from regard.recipes.pointer.recipe import decode_with_beams
from regard.recipes.pointer.search import (
    SYMMETRIES,
    concatenate_answers,
    decode_instances,
    split_batch,
    with_symmetry,
)
from tests.recipes.pointer.untrained import LSTM, NET, TOURING, untrained

B, N = 5, 7
tourists = pytest.mark.parametrize("config", [TOURING, LSTM], ids=["attention", "lstm"])


@pytest.fixture
def cities():
    return torch.rand(B, N, 2)


def toured(config, cities, **how):
    return search.shortest_tours(untrained(tsp, config).model, cities, **how)


def long(cities, tours):
    return tour_lengths(cities, tours[:, None])[:, 0]


def test_the_eight_symmetries_are_all_different_and_keep_distances(cities):
    seen = [with_symmetry(cities, *symmetry) for symmetry in SYMMETRIES]
    assert len({tuple(each[0].flatten().tolist()) for each in seen}) == 8
    for each in seen:
        assert_close(torch.cdist(each, each), torch.cdist(cities, cities), atol=1e-6, rtol=1e-5)
        assert 0 <= each.min() <= each.max() <= 1


def test_the_first_symmetry_is_none_and_the_last_by_hand():
    point = torch.tensor([[[0.2, 0.7]]])
    assert_close(with_symmetry(point, *SYMMETRIES[0]), point)
    assert_close(with_symmetry(point, *SYMMETRIES[-1]), torch.tensor([[[0.3, 0.8]]]))


@tourists
@pytest.mark.parametrize("how", [{}, {"starts": 1}, {"starts": 3}, {"augment": 8}], ids=str)
def test_every_tour_is_a_permutation(config, cities, how):
    found = toured(config, cities, **how)
    assert torch.equal(found.sort(1).values, torch.arange(N).expand(B, N))


@tourists
def test_reading_the_cities_in_more_ways_never_makes_a_tour_longer(config, cities):
    found = [long(cities, toured(config, cities, augment=n, starts=1)) for n in (1, 2, 5, 8)]
    for more, fewer in zip(found[1:], found, strict=False):
        assert (more <= fewer).all()
    assert (found[-1] < found[0]).any()


@tourists
def test_many_starts_are_never_worse_than_one(config, cities):
    one, every = (long(cities, toured(config, cities, starts=n)) for n in (1, None))
    assert (every <= one).all()
    assert (every < one).any()


def test_more_starts_than_cities_are_all_of_them(cities):
    assert torch.equal(toured(TOURING, cities, starts=N + 4), toured(TOURING, cities))


@tourists
def test_cities_in_another_order_have_the_same_tour(config, cities):
    shuffled = torch.randperm(N)
    one, other = toured(config, cities), toured(config, cities[:, shuffled])
    for first, second in zip(one, shuffled[other], strict=True):
        assert canonical_tour(first.tolist()) == canonical_tour(second.tolist())


@tourists
def test_a_batch_of_many_is_many_of_one(config, cities):
    alone = torch.cat([toured(config, each[None], augment=2) for each in cities])
    assert torch.equal(toured(config, cities, augment=2), alone)


def asked(model, points):
    return decode_with_beams(model, points, Hull(), hull.Evaluation())


@pytest.mark.parametrize("config", [NET, LSTM], ids=["attention", "lstm"])
def test_points_in_another_order_have_the_same_answer(config):
    model, random = untrained(hull, config).model, np.random.default_rng(0)
    for points in random.random((B, N, 2)):
        shuffled = random.permutation(N)
        (one,), (other,) = asked(model, [points]), asked(model, [points[shuffled]])
        assert one == shuffled[other].tolist()


@pytest.mark.parametrize("config", [NET, LSTM], ids=["attention", "lstm"])
def test_instances_of_any_sizes_side_by_side_are_answered_as_alone(config):
    model, random = untrained(hull, config).model, np.random.default_rng(0)
    points = [random.random((n, 2)) for n in (5, 3, 7, 2, 4)]
    assert asked(model, points) == [asked(model, [each])[0] for each in points]


def test_a_part_at_a_time_gives_the_same_answers(monkeypatch, cities):
    model, (batch, _) = untrained(hull).model, collate_points(list(cities.numpy()), "left")
    whole, tours = decode_instances(model, batch), toured(TOURING, cities)
    monkeypatch.setattr(search, "MAX_BATCH_ELEMENTS", {"cpu": 2 * 512 * (N + 1)})
    assert [len(part) for part in split_batch(batch, 512 * (N + 1), torch.device("cpu"))] == [
        2,
        2,
        1,
    ]
    assert np.array_equal(decode_instances(model, batch), whole)
    assert torch.equal(toured(TOURING, cities), tours)


def test_one_that_is_too_large_is_still_taken_alone(cities):
    batch = Instances(cities, torch.full((B,), N), torch.zeros(B, 0).long())
    assert [len(part) for part in split_batch(batch, 2**60, torch.device("cpu"))] == [1] * B


def test_with_as_many_beams_as_there_are_answers_the_likeliest_is_found():
    model, batch = untrained(sort).model, Numbers(3, 3).draw(np.random.default_rng(0), B)
    each = torch.tensor([*permutations(range(3))]).expand(B, 6, 3)
    read = model.encode(batch.points, batch.lengths)
    likeliest = model.log_probability(read, each).sum(-1).argmax(1)
    found = decode_instances(model, batch, beam=6)
    assert np.array_equal(found[:, :3], each[torch.arange(B), likeliest].numpy())


def test_answers_below_one_another_have_minus_one_behind_the_shorter():
    found = concatenate_answers([np.array([[2, 0, 1]]), np.array([[1]])])
    assert found.tolist() == [[2, 0, 1], [1, -1, -1]]
    assert concatenate_answers([]).shape == (0, 0)


def test_a_tour_is_found_again_in_the_way_its_points_were_read():
    model = AttentionPointer(AttentionPointerConfig(width=32, heads=2, layers=1)).eval()
    points = torch.rand(7, 2, generator=torch.Generator().manual_seed(3))
    (tour,) = search.shortest_tours(model, points[None], augment=8)
    seen = search.with_tour_symmetry(model, points, tour)
    ways = [search.with_symmetry(points, *symmetry) for symmetry in search.SYMMETRIES]
    assert any(torch.equal(seen, way) for way in ways)
    (again,) = search.shortest_tours(model, seen[None], starts=7)
    assert (
        tour_lengths(points[None], again[None, None])
        <= tour_lengths(points[None], tour[None, None]) + 1e-6
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_answers_begin_where_they_are_told_to(beam, monkeypatch):
    # one instance at a time, and all side by side
    batch = Numbers(N, N).draw(np.random.default_rng(0), B)
    model, starts = untrained(sort, NET).model, [[i] for i in range(B)]
    whole = decode_instances(model, batch, beam=beam, prefixes=starts)
    monkeypatch.setattr(search, "MAX_BATCH_ELEMENTS", {"cpu": 1})
    assert whole[:, 0].tolist() == list(range(B))
    assert np.array_equal(decode_instances(model, batch, beam=beam, prefixes=starts), whole)
