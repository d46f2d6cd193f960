"""The likeliest tokens: those that PyTorch finds among all, with the same log-probabilities."""

import pytest
import torch
from torch.testing import assert_close

from regard.decode import top_tokens

# below and above what is looked through in parts; evenly split, and with a rest
SIZES = [1, 7, 399, 400, 1000, 1037, 10_000]


def scores(V, *, rows=5):
    # few values, so that many are equal
    drawn = torch.Generator().manual_seed(V)
    return torch.randint(-40, 40, (rows, V), generator=drawn).float() / 8


@pytest.mark.parametrize("V", SIZES)
def test_the_best_is_the_first_of_the_largest(V):
    given = scores(V)
    first = [row.index(max(row)) for row in given.tolist()]
    assert top_tokens.argmax(given).tolist() == first


@pytest.mark.parametrize("V", SIZES)
def test_the_top_are_the_largest_and_stand_where_they_say(V):
    given = scores(V)
    n = min(V, 2)
    values, places = top_tokens.topk(given, n)
    assert torch.equal(values, given.topk(n).values)
    assert torch.equal(given.gather(1, places), values)
    assert all(len(set(row)) == n for row in places.tolist())


@pytest.mark.parametrize("V", SIZES)
def test_log_probabilities_are_those_of_the_softmax(V):
    given = scores(V) * 20
    values, places = top_tokens.topk(given, min(V, 2))
    expected = given.double().log_softmax(-1).gather(1, places)
    assert_close(
        top_tokens.top_log_probabilities(values, given, places).double(),
        expected,
        rtol=1e-5,
        atol=1e-5,
    )


def test_what_is_forbidden_is_never_among_the_best():
    given = scores(1000).masked_fill(torch.arange(1000) != 613, -torch.inf)
    assert top_tokens.argmax(given).tolist() == [613] * 5
    values, places = top_tokens.topk(given, 1)
    assert places.tolist() == [[613]] * 5
    assert top_tokens.top_log_probabilities(values, given, places).abs().max() == 0
