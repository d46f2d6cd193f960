"""Every layer is one graph for torch.compile."""

import pytest
import torch
from torch.testing import assert_close

from regard import layers
from regard.functional import rules

pytestmark = pytest.mark.compiled

B, Q, K, E, H = 2, 5, 7, 12, 3

# Reading Python and tracing gradients is what can fail; a few generate code as well.
TRACED = "aot_eager"
LAYERS = {
    "multi_head": (layers.MultiHead(E, H, kv_heads=1, rotary=layers.Rotary()), 2),
    "additive_score": (layers.MultiHead(E, H, score=layers.AdditiveScore(H, 4)), 2),
    "cosine_score": (layers.MultiHead(E, H, score=layers.CosineScore(H)), 2),
    "general_score": (layers.MultiHead(E, H, score=layers.GeneralScore(H, 4)), 2),
    "location_score": (layers.MultiHead(E, H, score=layers.LocationScore(H, 4, K)), 2),
    "relative_score": (layers.MultiHead(E, H, score=layers.RelativeScore(H, 4, 2)), 2),
    "factors_score": (layers.MultiHead(E, H, score=layers.FactorsScore(H, 4, 2)), 2),
    "dot": (layers.Dot(), 2),
    "additive": (layers.Additive(E, E, 11), 2),
    "general": (layers.General(E, E), 2),
    "location": (layers.Location(E, K), 2),
    "local_m": (layers.LocalM(E, E, reach=1), 2),
    "local_p": (layers.LocalP(E, E, reach=1), 2),
    "learned_queries": (layers.LearnedQueries(5, E), 1),
    "sinusoidal": (layers.Sinusoidal(E), 1),
    "learned": (layers.Learned(K, E), 1),
    "feed_forward": (layers.FeedForward(E, 11), 1),
    "encoder_block": (layers.EncoderBlock(E, H, 11, norm="after"), 1),
    "decoder_block": (layers.DecoderBlock(E, H, 11), 2),
}


@pytest.fixture(autouse=True)
def forgetting():
    torch._dynamo.reset()


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_graph_forward_and_backward(name):
    layer, takes = LAYERS[name]
    given = [torch.randn(B, n, E, requires_grad=True) for n in (Q, K)[:takes]]
    out = torch.compile(layer, fullgraph=True, backend=TRACED)(*given)
    expected = layer(*given)
    assert_close(out, expected)
    grads = (torch.autograd.grad(y.square().sum(), given) for y in (out, expected))
    assert_close(next(grads), next(grads))


def test_rules_are_traced():
    layer, x = layers.MultiHead(E, H), torch.randn(B, Q, E)
    rule = rules.both(rules.causal, rules.window(2), rules.padding(torch.tensor([2, 5])))
    run = torch.compile(lambda x: layer(x, rule=rule), fullgraph=True, backend=TRACED)
    assert_close(run(x), layer(x, rule=rule))


def test_code_is_generated_for_multi_head():
    layer, x = layers.MultiHead(E, H), torch.randn(B, Q, E)
    run = torch.compile(lambda x: layer(x, rule=rules.causal), fullgraph=True)
    assert_close(run(x), layer(x, rule=rules.causal))


@torch.no_grad()
def test_a_growing_cache_is_one_graph():
    layer, x = layers.MultiHead(E, H, rotary=layers.Rotary()), torch.randn(B, K, E)
    cache, step = layer.keys(x[:, :3]), torch.compile(layer.step, fullgraph=True, backend=TRACED)
    out, longer = step(x[:, 3:], cache)
    assert len(longer) == K
    assert_close(out, layer(x, rule=rules.causal)[:, 3:])


@pytest.mark.parametrize("backend", [TRACED, "inductor"])
@torch.no_grad()
def test_steps_with_a_static_cache_are_compiled_once(backend):
    layer, x = layers.MultiHead(E, H, rotary=layers.Rotary()), torch.randn(B, K, E)
    cache, outs = layer.start(B).to_static(K + 2), []
    step = torch.compile(layer.step, fullgraph=True, backend=backend)
    torch._dynamo.utils.counters.clear()
    for part in x.split(1, 1):
        out, cache = step(part, cache)
        outs.append(out)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert_close(torch.cat(outs, 1), layer(x, rule=rules.causal))


@torch.no_grad()
def test_steps_of_a_decoder_block_are_compiled_once():
    block, x, memory = layers.DecoderBlock(E, H, 11), torch.randn(B, K, E), torch.randn(B, Q, E)
    cache, keys, outs = block.start(B).to_static(K + 2), block.cross.keys(memory), []
    step = torch.compile(block.step, fullgraph=True, backend=TRACED)
    torch._dynamo.utils.counters.clear()
    for part in x.split(1, 1):
        out, cache = step(part, cache, keys)
        outs.append(out)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert_close(torch.cat(outs, 1), block(x, memory))
