"""Fast steps and fast encoding: the numbers of the blocks themselves, and who may have them."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import look, use_backend
from regard.decode import beam, states
from regard.fast_decode import cpu, fast_decoder, packed_linear
from regard.fast_decode.shared_cache import MIN_CAPACITY_STEPS
from regard.fast_decode.stack import find_stack
from regard.layers.blocks import DecoderBlock, EncoderBlock
from tests.models.test_transformer import KINDS as MODELS
from tests.models.test_transformer import B as SOURCES
from tests.models.test_transformer import V, given, stepped
from tests.models.test_transformer import every as every_model

E, H, INNER, S, T = 12, 3, 20, 7, 4
KINDS = {
    "after": {"norm": "after"},
    "before": {"norm": "before"},
    "gelu": {"activation": F.gelu},
}
exact = pytest.mark.parametrize("make", [packed_linear.plain, packed_linear.packed])
every = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())


def hiding(B):
    """What hides the padding of sources of several lengths (B, 1, 1, S)."""
    lengths = 1 + torch.arange(B)[:, None, None, None] % S
    return torch.zeros(()).where(torch.arange(S) < lengths, -torch.inf)


def made(options, B):
    torch.manual_seed(2)
    blocks = tuple(DecoderBlock(E, H, INNER, **options).eval() for _ in range(2))
    return blocks, torch.randn(B, S, E)


@every
@exact
@pytest.mark.parametrize("B", [1, 9])
@torch.no_grad()
def test_a_fast_step_is_a_step(options, make, B):
    blocks, memory, bias = *made(options, B), hiding(B)
    own, cross = [b.start(B) for b in blocks], [b.cross.keys(memory) for b in blocks]
    packed = cpu.PackedTransformer.from_blocks((), blocks, torch.nn.Linear(E, 2), make)
    (written, shared), line = (
        packed.start_caches(memory, bias),
        torch.zeros(B, 0, dtype=torch.int64),
    )
    for _ in range(T):
        x = torch.randn(B, E)
        y = x[:, None]
        x, written, line = packed.decode_step(x, written, line, shared, bias)
        for i, block in enumerate(blocks):
            y, own[i] = block.step(y, own[i], cross[i], memory_bias=bias)
        assert_close(x, y[:, 0])


@every
@exact
@torch.no_grad()
def test_fast_encoding_is_the_block(options, make):
    block, x, bias = EncoderBlock(E, H, INNER, **options).eval(), torch.randn(9, S, E), hiding(9)
    assert_close(cpu.PackedEncoderBlock.from_block(block, make)(x, bias), block(x, bias=bias))


@every_model
@torch.no_grad()
def test_steps_of_a_decoder_are_one_whole(config, monkeypatch):
    model, source, target = given(config)
    asked = counted(monkeypatch)
    assert_close(stepped(fast_decoder(model), source, target), model(source, target))
    scaled_dot = all(
        x.score == "scaled_dot" for x in (config.encoder, config.decoder, config.cross)
    )
    plain = scaled_dot and config.positions != "relative"
    assert len(asked) == ((1 + 2 * target.shape[1]) * config.layers if plain else 0)


def counted(monkeypatch):
    """How often a CPU attends in few operations from now on."""
    attend, asked = cpu.attend_few_queries, []
    monkeypatch.setattr(cpu, "attend_few_queries", lambda *given: asked.append(1) or attend(*given))
    return asked


@pytest.mark.parametrize("name", ["after", "before", "learned", "none"])
@pytest.mark.parametrize("sources", [slice(0, 1), slice(0, SOURCES)])
@torch.no_grad()
def test_beams_share_what_beams_of_their_own_have(name, sources, monkeypatch):
    model, source, _ = given(MODELS[name])
    source, asked = tuple(x[sources] for x in source), counted(monkeypatch)
    options = {"begin": 1, "end": 2, "longest": 7, "width": 4, "best": 3}
    found = beam(model, source, **options)
    fast = len(asked)
    with use_backend("reference"):
        expected = beam(model, source, **options)
    assert fast and len(asked) == fast
    assert found.sequences() == expected.sequences()
    assert torch.equal(found.parents, expected.parents)
    assert_close(found.scores, expected.scores)


def moving(decoder, source, *, width=3):
    """The logits of beams that move at random."""
    drawn = torch.Generator().manual_seed(3)
    state, fresh = states.repeat_rows(decoder.start(source), width)
    steps = []
    for _ in range(8):
        words = torch.randint(3, V, (SOURCES * width,), generator=drawn)
        logits, state = decoder.step(words, state)
        parents = torch.randint(width, (SOURCES, width), generator=drawn)
        state = states.reorder_rows("beam", state, parents, fresh)
        steps.append(logits)
    return torch.stack(steps)


@pytest.mark.parametrize("name", ["after", "before", "learned", "none"])
@torch.no_grad()
def test_beams_that_move_are_beams_of_the_model(name):
    model, source, _ = given(MODELS[name])
    assert_close(moving(fast_decoder(model), source), moving(model, source))


@torch.no_grad()
def test_two_continuations_of_one_state_do_not_disturb_each_other():
    model, source, target = given(MODELS["after"])
    decoder = fast_decoder(model)
    _, state = decoder.step(target[:, 0], decoder.start(source))
    one, _ = decoder.step(target[:, 1], state)
    decoder.step(target[:, 2], state)
    again, _ = decoder.step(target[:, 1], state)
    assert_close(one, again)


@torch.no_grad()
def test_decoding_goes_on_when_the_caches_are_full():
    model, source, _ = given(MODELS["after"])
    target = torch.randint(3, V, (SOURCES, 2 * MIN_CAPACITY_STEPS + 3))
    found = stepped(fast_decoder(model), source, target)
    assert_close(found, model(source, target), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_new_decoder_has_the_weights_of_now():
    model, source, target = given(MODELS["after"])
    stepped(fast_decoder(model), source, target)
    for weight in model.parameters():
        weight.mul_(1.5)
    assert_close(stepped(fast_decoder(model), source, target), model(source, target))


@torch.no_grad()
def test_a_look_before_start_sees_every_attention_and_one_after_it_is_refused():
    model, source, target = given(MODELS["after"])
    decoder = fast_decoder(model)
    with look(model) as seen:
        decoder.step(target[:, 0], decoder.start(source))
    assert len(seen) == 3 * model.config.layers
    state = decoder.start(source)
    with look(model), pytest.raises(ValueError, match="open a look before `start`"):
        decoder.step(target[:, 0], state)


@torch.no_grad()
def test_a_stack_decodes_here_if_nothing_observes_it_and_nothing_trains():
    stack = find_stack(given(MODELS["after"])[0])
    assert cpu.can_decode(stack)
    with look():
        assert not cpu.can_decode(stack)
    with torch.enable_grad():
        assert not cpu.can_decode(stack)
    stack.decoder[0].train()
    assert not cpu.can_decode(stack)
