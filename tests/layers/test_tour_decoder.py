"""Going from point to point: the paper's equations, and all steps at once."""

import pytest
import torch
from torch.testing import assert_close

from regard import edit, edits
from regard.layers.tour_decoder import TourDecoder

B, N, E, H = 3, 7, 32, 2
LENGTHS = torch.tensor([7, 5, 6])


def made(clip=10.0):
    decoder = TourDecoder(E, H, clip=clip)
    return decoder, decoder.point_tables(torch.randn(B, N, E), LENGTHS)


def sampled_tours(decoder, tables):
    """Tours drawn from several points of each row."""
    starts = torch.randint(5, (B, 4))
    return decoder.decode_tours(tables, starts=starts, sample=True)


def test_a_step_is_the_papers_by_hand():
    decoder, x = TourDecoder(E, H), torch.randn(1, N, E)
    tables = decoder.point_tables(x, torch.tensor([N]))
    keys, values, chosen = decoder.nodes(x[0]).chunk(3, -1)
    query = decoder.fixed(x[0].mean(0)) + decoder.context(torch.cat([x[0, 2], x[0, 4]]))
    D, heads = E // H, []
    for h in range(H):
        part = slice(h * D, (h + 1) * D)
        weights = (keys[:, part] @ query[part] / D**0.5).softmax(0)
        heads.append(weights @ values[:, part])
    u = chosen @ decoder.out(torch.cat(heads)) / E**0.5
    queries = decoder.queries(tables, torch.tensor([[2]]), torch.tensor([[4]]))
    all_left = torch.ones(1, 1, N, dtype=torch.bool)
    assert_close(decoder(tables, queries, all_left)[0, 0], 10 * torch.tanh(u))


@pytest.mark.parametrize("clip", [0.0, 10.0])
def test_all_steps_at_once_are_the_steps_one_by_one(clip):
    decoder, tables = made(clip)
    tours = sampled_tours(decoder, tables)
    found = decoder.log_probability(tables, tours, fixed_start=True)
    for t in range(1, N):
        left = torch.ones(B, 4, N + 1, dtype=torch.bool)
        left.scatter_(2, tours[..., :t] % (N + 1), False)
        left = left[..., :N] & (torch.arange(N) < LENGTHS[:, None])[:, None]
        queries = decoder.queries(tables, tours[..., 0], tours[..., t - 1].clamp_min(0))
        said = decoder(tables, queries, left).log_softmax(-1)
        step = said.gather(2, tours[..., t : t + 1].clamp_min(0))[..., 0]
        over = tours[..., t] < 0
        assert_close(found[..., t], step.masked_fill(over, 0))


def test_what_was_given_costs_nothing_and_what_was_chosen_does():
    decoder, tables = made()
    tours = sampled_tours(decoder, tables)
    given = decoder.log_probability(tables, tours, fixed_start=True)
    chosen = decoder.log_probability(tables, tours)
    assert not given[..., 0].any()
    assert (chosen[..., 0] < 0).all()
    assert_close(given[..., 1:], chosen[..., 1:])


def test_a_tour_with_nowhere_to_go_is_refused_where_an_edit_hides_all():
    decoder, tables = made()
    everything = {"TourDecoder": edits.hide([(0, key) for key in range(N)])}
    words = "nothing is left to point at in step 0"
    with pytest.raises(ValueError, match=words), edit(decoder, everything):
        decoder.decode_tours(tables)


def test_a_tour_of_one_point_is_its_first_step():
    decoder = TourDecoder(E, H)
    tables = decoder.point_tables(torch.randn(1, 1, E), torch.tensor([1]))
    found = decoder.log_probability(tables, torch.zeros(1, 1, 1, dtype=torch.long))
    assert_close(found, torch.zeros(1, 1, 1))


def test_every_tour_goes_to_every_point_once():
    decoder, tables = made()
    for row, length in zip(sampled_tours(decoder, tables), LENGTHS.tolist(), strict=True):
        for tour in row.tolist():
            assert sorted(tour[:length]) == list(range(length))
            assert set(tour[length:]) <= {-1}


def test_greedy_tours_take_the_likeliest_point_at_every_step():
    decoder, tables = made()
    starts = torch.zeros(B, 1, dtype=torch.long)
    tours = decoder.decode_tours(tables, starts=starts)
    left = (torch.arange(N) < LENGTHS[:, None])[:, None].clone()
    for t in range(1, 5):
        left.scatter_(2, tours[..., t - 1 : t], False)
        queries = decoder.queries(tables, tours[..., 0], tours[..., t - 1])
        assert torch.equal(decoder(tables, queries, left).argmax(-1), tours[..., t])


def test_heads_that_do_not_split_a_width_are_refused():
    with pytest.raises(ValueError, match="TourDecoder: width 32 does not split into 3 heads"):
        TourDecoder(32, 3)
