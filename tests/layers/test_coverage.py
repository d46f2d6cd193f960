"""Attention that remembers, beside loops written from the papers."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard import look
from regard.functional import selects
from regard.layers.coverage import Coverage, LocationAware

B, K, E, M, W, REACH = 2, 5, 7, 3, 11, 1
LAYERS = {
    "coverage": lambda: Coverage(E, M, W),
    "location_aware": lambda: LocationAware(E, M, W, reach=REACH, filters=2),
}
every = pytest.mark.parametrize("name", LAYERS)


def energies(layer, x, memory, features):
    """`v · tanh(W x + U memory + V features)` of one batch row, a place at a time."""
    content = layer.content
    inside = [content.query.weight @ x + content.key.weight @ m + content.key.bias for m in memory]
    vector = content.score.vector[0]
    pairs = zip(inside, features, strict=True)
    return torch.stack([vector @ torch.tanh(i + layer.past.weight @ f) for i, f in pairs])


def test_coverage_goes_by_the_sum_of_all_weights():
    layer, memory = Coverage(E, M, W), torch.randn(B, K, M)
    past, total = layer.init_past(memory), torch.zeros(B, K)
    for x in torch.randn(4, B, 1, E):
        context, past = layer(x, memory, past=past)
        for b in range(B):
            weights = energies(layer, x[b, 0], memory[b], total[b, :, None]).softmax(0)
            assert_close(context[b, 0], weights @ memory[b])
            total[b] += weights.detach()
        assert_close(past, total)


def test_location_awareness_goes_by_filters_over_the_weights_before():
    layer, memory = LAYERS["location_aware"](), torch.randn(B, K, M)
    past, before = layer.init_past(memory), torch.zeros(B, K)
    for x in torch.randn(4, B, 1, E):
        context, past = layer(x, memory, past=past)
        for b in range(B):
            wide = [0.0, *before[b].tolist(), 0.0]
            heard = torch.tensor([wide[k : k + 2 * REACH + 1] for k in range(K)])
            features = heard @ layer.filters.weight[:, 0].T
            weights = energies(layer, x[b, 0], memory[b], features).softmax(0)
            assert_close(context[b, 0], weights @ memory[b])
            before[b] = weights.detach()
        assert_close(past, before)


@every
def test_keys_may_be_made_once(name):
    layer, x, memory = LAYERS[name](), torch.randn(B, 1, E), torch.randn(B, K, M)
    past = torch.rand(B, K)
    keys = layer.keys(memory)
    assert_close(layer(x, memory, past=past, keys=keys), layer(x, memory, past=past))


@every
def test_a_bias_hides_the_padding(name):
    layer, x, memory = LAYERS[name](), torch.randn(B, 1, E), torch.randn(B, K, M)
    bias = torch.where(torch.arange(K) < 3, 0.0, -math.inf).expand(B, 1, 1, K)
    context, past = layer(x, memory, past=layer.init_past(memory), bias=bias)
    short, its = layer(x, memory[:, :3], past=layer.init_past(memory[:, :3]))
    assert_close((context, past[:, :3]), (short, its))
    assert not past[:, 3:].any()


@every
def test_a_look_sees_the_weights_that_read(name):
    layer, x, memory = LAYERS[name](), torch.randn(B, 1, E), torch.randn(B, K, M)
    with look(layer) as seen:
        context, _ = layer(x, memory, past=torch.rand(B, K))
    [path] = seen.names()
    assert_close(seen[path].weights()[:, 0] @ memory, context)


@every
def test_a_select_may_be_passed_and_is_what_is_remembered(name):
    layer, x, memory = LAYERS[name](), torch.randn(B, 1, E), torch.randn(B, K, M)
    _, past = layer(x, memory, past=layer.init_past(memory), select=selects.hard)
    assert past.sum(1).tolist() == [1.0, 1.0] and past.max(1).values.tolist() == [1.0, 1.0]


@every
def test_gradients_are_right_through_what_is_remembered(name):
    layer = LAYERS[name]().double()
    x, memory = torch.randn(2, 1, 1, E).double(), torch.randn(1, 3, M).double()

    def twice(x, memory, *_):
        _, past = layer(x[0], memory, past=layer.init_past(memory))
        return layer(x[1], memory, past=past)[0]

    inputs = (x.requires_grad_(), memory.requires_grad_(), *layer.parameters())
    assert torch.autograd.gradcheck(twice, inputs)


@every
def test_inputs_that_do_not_fit_are_refused(name):
    layer, memory = LAYERS[name](), torch.randn(B, K, M)
    where, past = type(layer).__name__, torch.zeros(B, K)
    with pytest.raises(ValueError, match=rf"{where}: expected x of shape \(B=2, Q=1, E\), got"):
        layer(torch.randn(B, 2, E), memory, past=past)
    with pytest.raises(ValueError, match=rf"{where}: expected past of shape \(B=2, K=5\), got"):
        layer(torch.randn(B, 1, E), memory, past=past[:, 1:])


def test_a_reach_below_zero_is_refused():
    with pytest.raises(ValueError, match="LocationAware: expected reach >= 0, got -1"):
        LocationAware(E, M, W, reach=-1)
