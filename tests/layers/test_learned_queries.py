"""A few learned queries read a memory of any length."""

import pytest
import torch
from torch.testing import assert_close

from regard import look
from regard.functional import rules
from regard.layers import LearnedQueries

B, K, E, N = 2, 7, 12, 5


@pytest.mark.parametrize("length", [1, K, 2 * K])
def test_as_many_come_back_as_there_are_queries(length):
    assert LearnedQueries(N, E, heads=3)(torch.randn(B, length, E)).shape == (B, N, E)


def test_a_memory_is_a_set():
    layer, memory = LearnedQueries(N, E), torch.randn(B, K, E)
    assert_close(layer(memory), layer(memory[:, torch.randperm(K)]))


def test_it_is_attention_from_its_queries():
    layer, memory = LearnedQueries(N, E, heads=3, memory_width=3), torch.randn(B, K, 3)
    expected = layer.attention(layer.queries.expand(B, N, E), memory)
    assert_close(layer(memory), expected)
    assert_close(layer(layer.attention.keys(memory)), expected)


def test_padding_changes_nothing():
    layer, memory, lengths = LearnedQueries(N, E), torch.randn(B, K, E), torch.tensor([3, 7])
    out = layer(memory, rule=rules.padding(lengths))
    assert_close(out[:1], layer(memory[:1, :3]))


def test_queries_are_learned_and_saved():
    a, b, memory = LearnedQueries(N, E), LearnedQueries(N, E), torch.randn(B, K, E)
    b.load_state_dict(a.state_dict())
    a(memory).sum().backward()
    assert a.queries.grad.any()
    assert torch.equal(a(memory), b(memory))


def test_a_look_names_its_attention():
    layer = LearnedQueries(N, E, heads=2)
    with look(layer) as seen:
        layer(torch.randn(B, K, E))
    assert seen["attention"].weights().shape == (B, 2, N, K)


def test_no_queries_are_refused():
    with pytest.raises(ValueError, match="LearnedQueries: expected n >= 1, got 0"):
        LearnedQueries(0, E)
