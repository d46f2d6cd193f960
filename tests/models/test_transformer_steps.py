"""The steps of a Transformer on a card and for a compiler: nothing waits, nothing is made twice."""

import pytest
import torch
from torch.testing import assert_close

from regard import door, look, use_backend
from regard.decode import beam, states
from regard.kernels import flex, one_query, one_query_attention
from regard.layers.shared import ROOM
from tests.models.test_transformer import KINDS, B, T, V, every, given, stepped

swift = pytest.mark.skipif(
    torch.cuda.is_available() or not flex.has_triton(), reason="needs Triton's interpreter"
)


@pytest.fixture
def launched(monkeypatch):
    """How often one launch attended, on a CPU that passes for a card."""
    found, grown = [], one_query_attention.grown
    watched = lambda *given: found.append(1) or grown(*given)  # noqa: E731
    monkeypatch.setattr(one_query, "DEVICES", ("cuda", "cpu"))
    monkeypatch.setattr(one_query_attention, "grown", watched)
    return found


@swift
@every
@torch.no_grad()
def test_swift_steps_are_one_whole(config, launched):
    model, source, target = given(config)
    assert_close(stepped(model, source, target, size=T), model(source, target))
    every = all(x.score == "scaled_dot" for x in (config.decoder, config.cross))
    everyday = every and config.positions != "relative"
    assert len(launched) == (T * config.layers if everyday else 0)


@every
@torch.no_grad()
def test_swift_steps_of_a_cpu_are_one_whole(config, monkeypatch):
    model, source, target = given(config)
    with use_backend("reference"):
        whole = model(source, target)
    state, asked = model.start(source), counted(monkeypatch)
    steps = list(target.unbind(1))
    for t, word in enumerate(steps):
        steps[t], state = model.step(word, state)
    assert_close(torch.stack(steps, 1), whole)
    every = all(x.score == "scaled_dot" for x in (config.decoder, config.cross))
    everyday = every and config.positions != "relative"
    assert len(asked) == (2 * T * config.layers if everyday else 0)


def counted(monkeypatch):
    """How often a CPU reads swiftly from now on."""
    read, asked = door.read_few, []
    monkeypatch.setattr(door, "read_few", lambda *given: asked.append(1) or read(*given))
    return asked


@pytest.mark.parametrize("name", ["after", "before", "learned", "none"])
@pytest.mark.parametrize("sources", [slice(0, 1), slice(0, B)])
@torch.no_grad()
def test_beams_of_a_cpu_share_what_beams_of_their_own_have(name, sources, monkeypatch):
    model, source, _ = given(KINDS[name])
    source, asked = tuple(x[sources] for x in source), counted(monkeypatch)
    options = {"begin": 1, "end": 2, "longest": 7, "width": 4, "best": 3}
    found = beam(model, source, **options)
    swift = len(asked)
    with use_backend("reference"):
        expected = beam(model, source, **options)
    assert swift and len(asked) == swift
    assert found.sequences() == expected.sequences()
    assert torch.equal(found.parents, expected.parents)
    assert_close(found.scores, expected.scores)


def moving(model, source, backends, *, width=3):
    """The logits of beams that move at random, with a backend for each step."""
    drawn = torch.Generator().manual_seed(3)
    state, fresh = states.spread(model.start(source), width)
    steps = []
    for backend in backends:
        words = torch.randint(3, V, (B * width,), generator=drawn)
        with use_backend(backend):
            logits, state = model.step(words, state)
        parents = torch.randint(width, (B, width), generator=drawn)
        state = states.moved("beam", state, parents, fresh)
        steps.append(logits)
    return torch.stack(steps)


@pytest.mark.parametrize("name", ["after", "before", "learned", "none"])
@pytest.mark.parametrize("swiftly", [0, 2, 8])
@torch.no_grad()
def test_beams_of_a_cpu_go_on_swiftly_and_then_not(name, swiftly, monkeypatch):
    model, source, _ = given(KINDS[name])
    with use_backend("reference"):
        expected = moving(model, source, ["reference"] * 8)
    asked = counted(monkeypatch)
    found = moving(model, source, ["auto"] * swiftly + ["reference"] * (8 - swiftly))
    reading = model.config.layers
    assert len(asked) == reading + 2 * swiftly * model.config.layers
    assert_close(found, expected)


@torch.no_grad()
def test_a_swift_state_can_be_gone_on_from_twice():
    model, source, target = given(KINDS["after"])
    _, state = model.step(target[:, 0], model.start(source))
    one, _ = model.step(target[:, 1], state)
    model.step(target[:, 2], state)
    again, _ = model.step(target[:, 1], state)
    assert_close(one, again)


@torch.no_grad()
def test_a_swift_decoder_goes_on_when_its_room_is_full():
    model, source, _ = given(KINDS["after"])
    target = torch.randint(3, V, (B, 2 * ROOM + 3))
    assert_close(stepped(model, source, target), model(source, target), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_nothing_of_a_swift_step_is_kept_when_weights_change():
    model, source, target = given(KINDS["after"])
    stepped(model, source, target)
    for weight in model.parameters():
        weight.mul_(1.5)
    assert_close(stepped(model, source, target), model(source, target))


@swift
@torch.no_grad()
def test_a_swift_step_goes_on_from_a_plain_one_and_a_plain_one_from_it(launched):
    model, source, target = given(KINDS["after"])
    state, steps = model.start(source, size=T), []
    for t, word in enumerate(target.unbind(1)):
        with use_backend("reference" if t % 2 else "auto"):
            logits, state = model.step(word, state)
        steps.append(logits)
    assert_close(torch.stack(steps, 1), model(source, target))
    assert 0 < len(launched) < T * model.config.layers


@swift
@torch.no_grad()
def test_beams_move_what_a_swift_step_has_written(launched):
    model, source, target = given(KINDS["after"])
    state, fresh = states.spread(model.start(source, size=T), 2)
    _, after = model.step(target[:, 0].repeat_interleave(2), state)
    crossed = states.moved("beam", after, torch.tensor([[1, 0]]).expand(len(target), 2), fresh)
    assert all(
        a.k is not b.k and a.v is not b.v for a, b in zip(crossed.own, after.own, strict=True)
    )
    assert all(a.k is b.k for a, b in zip(crossed.cross, after.cross, strict=True))
    assert launched


@swift
@torch.no_grad()
def test_a_look_sees_every_attention_of_a_step(launched):
    model, source, target = given(KINDS["after"])
    state = model.start(source, size=T)
    with look(model, copy=True) as seen:
        model.step(target[:, 0], state)
    assert len(seen) == 2 * model.config.layers and not launched


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
