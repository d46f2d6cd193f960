"""Steps in few launches have the numbers of the model's own steps; the interpreter runs them."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import look
from regard.decode import states
from regard.fast_decode import fast_decoder, gpu
from regard.fast_decode.gpu import GpuState
from regard.kernels.backends import flex
from regard.kernels.decode_step import api as decode_step
from regard.kernels.decode_step.triton import attention
from regard.layers.blocks import DecoderBlock
from regard.layers.feed_forward import FeedForward
from tests.models.test_transformer import KINDS, T, every, given, stepped

needs_interpreter = pytest.mark.skipif(
    torch.cuda.is_available() or not flex.has_triton(), reason="needs Triton's interpreter"
)


@pytest.fixture
def launched(monkeypatch):
    """How often one launch attended, on a CPU that counts as a GPU."""
    found, attend = [], attention.append_and_attend
    counting = lambda *given: found.append(1) or attend(*given)  # noqa: E731
    monkeypatch.setattr(decode_step, "DEVICES", ("cuda", "cpu"))
    monkeypatch.setattr(attention, "append_and_attend", counting)
    return found


@needs_interpreter
@every
@torch.no_grad()
def test_steps_of_a_decoder_are_one_whole(config, launched):
    model, source, target = given(config)
    decoder = fast_decoder(model, static=True)
    assert_close(stepped(decoder, source, target, size=T), model(source, target))
    scaled_dot = all(
        x.score == "scaled_dot" for x in (config.encoder, config.decoder, config.cross)
    )
    plain = scaled_dot and config.positions != "relative"
    assert len(launched) == (T * config.layers if plain else 0)


@needs_interpreter
@torch.no_grad()
def test_beams_move_what_a_step_has_written(launched):
    model, source, target = given(KINDS["after"])
    decoder = fast_decoder(model, static=True)
    state, fresh = states.repeat_rows(decoder.start(source, size=T), 2)
    _, after = decoder.step(target[:, 0].repeat_interleave(2), state)
    parents = torch.tensor([[1, 0]]).expand(len(target), 2)
    crossed = states.reorder_rows("beam", after, parents, fresh)
    own = zip(crossed.self_slots, after.self_slots, strict=True)
    assert all(a.k is not b.k and a.v is not b.v for a, b in own)
    assert all(a.k is b.k for a, b in zip(crossed.cross_caches, after.cross_caches, strict=True))
    assert launched


@needs_interpreter
@torch.no_grad()
def test_a_look_before_start_sees_every_attention_and_one_after_it_is_refused(launched):
    model, source, target = given(KINDS["after"])
    decoder = fast_decoder(model, static=True)
    with look(model, copy=True) as seen:
        decoder.step(target[:, 0], decoder.start(source, size=T))
    assert len(seen) == 3 * model.config.layers and not launched
    state = decoder.start(source, size=T)
    assert isinstance(state, GpuState)
    with look(model), pytest.raises(ValueError, match="open a look before `start`"):
        decoder.step(target[:, 0], state)


@torch.no_grad()
def test_the_kernels_of_a_gpu_are_not_for_a_cpu():
    block = DecoderBlock(8, 2, 8).eval().requires_grad_(False)
    own, cross = block.start(1), block.cross.keys(torch.randn(1, 3, 8))
    assert own.qkv_projection is not None
    assert not gpu.can_step((block,), (own,), (cross,))
    assert not gpu.can_step((block,), (own.to_static(4),), (cross,))


@pytest.mark.parametrize("activation", [F.relu, F.gelu])
@torch.no_grad()
def test_inner_activations_are_those_of_the_layer(activation):
    pytest.importorskip("triton")
    layer, x = FeedForward(12, 20, activation=activation), torch.randn(3, 12)
    assert_close(gpu.inner_activations(layer, x), activation(layer.inner(x)))
