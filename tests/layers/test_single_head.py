"""The layers of sequence-to-sequence models, beside loops written from the papers."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import look
from regard.functional import rules, selects
from regard.layers import Additive, Dot, General, Location

B, Q, K, E, M, W = 2, 3, 5, 7, 4, 11

LAYERS = {
    "additive": lambda: Additive(E, M, W),
    "general": lambda: General(E, M),
    "location": lambda: Location(E, K + 4),
    "dot": Dot,
}


def some(name: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    wide = M if name == "dot" else E
    return torch.randn(B, Q, wide, dtype=dtype), torch.randn(B, K, M, dtype=dtype)


def test_additive_by_hand():
    layer = Additive(1, 1, 1)
    for weight in layer.parameters():
        nn.init.ones_(weight)
    nn.init.zeros_(layer.key.bias)
    memory = torch.tensor([[[0.0], [1.0]]])
    # the scores are tanh(0) and tanh(1) beside a query of 0
    a, b = 1.0, math.exp(math.tanh(1))
    assert layer(torch.zeros(1, 1, 1), memory).item() == pytest.approx(b / (a + b))


def test_additive_is_the_paper_step_by_step():
    layer, (x, memory) = Additive(E, M, W), some("additive")
    v, out = layer.score.vector[0], layer(x, memory)
    for b in range(B):
        for t in range(Q):
            energies = []
            for j in range(K):
                inside = layer.query.weight @ x[b, t] + layer.key.weight @ memory[b, j]
                energies.append(v @ torch.tanh(inside + layer.key.bias))
            weights = torch.stack(energies).exp() / torch.stack(energies).exp().sum()
            assert_close(out[b, t], (weights[:, None] * memory[b]).sum(0))


def test_general_and_location_are_the_paper():
    x, memory = some("general")
    general, location = General(E, M), Location(E, K + 4)
    energies = torch.einsum("bqe,em,bkm->bqk", x, general.score.weight[0], memory)
    assert_close(general(x, memory), energies.softmax(-1) @ memory)
    energies = torch.einsum("bqe,en->bqn", x, location.score.weight[0])[..., :K]
    assert_close(location(x, memory), energies.softmax(-1) @ memory)


def test_general_with_the_identity_is_dot():
    general, (x, memory) = General(M, M), some("dot")
    with torch.no_grad():
        general.score.weight.copy_(torch.eye(M)[None])
    assert_close(general(x, memory), Dot()(x, memory))


@pytest.mark.parametrize("name", LAYERS)
def test_one_query_at_a_time_with_keys_made_once_is_all_at_once(name):
    layer, (x, memory) = LAYERS[name](), some(name)
    keys = layer.keys(memory)
    steps = [layer(part, memory, keys=keys) for part in x.split(1, 1)]
    assert_close(torch.cat(steps, 1), layer(x, memory))


@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_is_its_rows(name):
    layer, (x, memory) = LAYERS[name](), some(name)
    rows = [layer(x[i : i + 1], memory[i : i + 1]) for i in range(B)]
    assert_close(layer(x, memory), torch.cat(rows))


@pytest.mark.parametrize("name", LAYERS)
def test_a_bias_of_minus_infinity_hides_what_a_rule_hides(name):
    layer, (x, memory) = LAYERS[name](), some(name)
    bias = torch.where(torch.arange(K) < 3, 0.0, -math.inf).expand(B, 1, 1, K)
    assert_close(layer(x, memory, bias=bias), layer(x, memory[:, :3]))


@pytest.mark.parametrize("name", LAYERS)
def test_padding_changes_nothing_not_even_if_it_is_nan(name):
    layer, (x, memory) = LAYERS[name](), some(name)
    more = torch.cat([memory, torch.full((B, 3, M), math.nan)], 1)
    rule = rules.padding(torch.full((B,), K))
    assert_close(layer(x, more, rule=rule), layer(x, memory))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_right(name):
    layer, (x, memory) = LAYERS[name]().double(), some(name, torch.float64)
    inputs = (x[:1, :2].requires_grad_(), memory[:1, :3].requires_grad_(), *layer.parameters())
    assert torch.autograd.gradcheck(lambda x, memory, *_: layer(x, memory), inputs)


@pytest.mark.parametrize("name", ["additive", "general", "location"])
def test_weights_are_saved_and_loaded(name):
    (x, memory), a, b = some(name), LAYERS[name](), LAYERS[name]()
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(x, memory), b(x, memory))


def test_a_select_may_be_passed():
    layer, (x, memory) = General(E, M), some("general")
    with look(layer) as seen:
        layer(x, memory, select=selects.hard)
    assert set(seen["General"].weights().unique().tolist()) == {0.0, 1.0}


def test_tensors_of_another_width_are_refused():
    x, memory = torch.zeros(B, Q, E), torch.zeros(B, K, M)
    for layer in (Additive(E, M, W), General(E, M), Location(E, K)):
        where = type(layer).__name__
        with pytest.raises(ValueError, match=rf"{where}: expected x of shape \(B, Q, E=7\), got"):
            layer(memory, memory)
    for layer in (Additive(E, M, W), General(E, M)):
        where = type(layer).__name__
        with pytest.raises(ValueError, match=rf"{where}: expected memory of shape \(B, K, E=4\)"):
            layer(x, x)


def test_more_keys_than_places_are_refused():
    with pytest.raises(ValueError, match="Location: 5 keys, but weight has N=4 places"):
        Location(E, 4)(*some("location"))
