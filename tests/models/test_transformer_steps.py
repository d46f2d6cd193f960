"""Static steps of a Transformer on a GPU and for a compiler: no sync, one graph."""

import pytest
import torch
from torch.testing import assert_close

from tests.models.test_transformer import KINDS, T, every, given, stepped


def on_the_card(config):
    """The same as `given`, on a card."""
    model, source, target = given(config)
    return model.cuda(), tuple(x.cuda() for x in source), target.cuda()


@pytest.mark.gpu
@every
@torch.no_grad()
def test_no_step_waits_for_the_card(config):
    model, source, target = on_the_card(config)
    whole = model(source, target)
    torch.cuda.set_sync_debug_mode("error")
    try:
        static = stepped(model, source, target, size=T)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_close(static, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@every
@torch.no_grad()
def test_a_step_is_captured_in_a_cuda_graph(config):
    model, source, target = on_the_card(config)
    word, state, steps = target[:, 0].clone(), model.start(source, size=T), []
    model.step(word, state)  # warms up; the slot is written again below
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits, after = model.step(word, state)
        state.position.copy_(after.position)
        for cache, longer in zip(state.self_caches, after.self_caches, strict=True):
            cache.length.copy_(longer.length)
    for each in target.unbind(1):
        word.copy_(each)
        graph.replay()
        steps.append(logits.clone())
    assert_close(torch.stack(steps, 1), model(source, target), rtol=1e-4, atol=1e-4)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["after", "relative", "factors", "additive"])
@torch.no_grad()
def test_a_step_is_one_graph_compiled_once(name):
    torch._dynamo.reset()
    model, source, target = given(KINDS[name])
    whole, step = model(source, target), model.step
    model.step = torch.compile(step, fullgraph=True, backend="aot_eager")
    torch._dynamo.utils.counters.clear()
    assert_close(stepped(model, source, target, size=T), whole)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
