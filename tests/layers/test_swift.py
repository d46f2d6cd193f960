"""Swift steps and swift reading: the numbers of the blocks themselves, and who may have them."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import look, use_backend
from regard.layers import swift
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.shared import Shared, Written

E, H, INNER, S, T = 12, 3, 20, 7, 4
KINDS = {
    "after": {"norm": "after"},
    "before": {"norm": "before"},
    "gelu": {"activation": F.gelu},
}
every = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())


def hiding(B):
    """What hides the padding of sources of several lengths (B, 1, 1, S)."""
    lengths = 1 + torch.arange(B)[:, None, None, None] % S
    return torch.zeros(()).where(torch.arange(S) < lengths, -torch.inf)


def begun(options, B):
    torch.manual_seed(2)
    blocks = tuple(DecoderBlock(E, H, INNER, **options).eval() for _ in range(2))
    memory = torch.randn(B, S, E)
    return blocks, [b.start(B) for b in blocks], [b.cross.keys(memory) for b in blocks]


@every
@pytest.mark.parametrize("B", [1, 9])
@torch.no_grad()
def test_a_swift_step_is_a_step(options, B):
    (blocks, own, cross), bias = begun(options, B), hiding(B)
    assert swift.begins(blocks, own, cross)
    fused = tuple(cache.fused for cache in own)
    written, shared = Written.of(own, fused), Shared.of(cross)
    ready, line = swift.Ready.of(blocks, fused), torch.zeros(B, 0, dtype=torch.int64)
    for _ in range(T):
        x = y = torch.randn(B, E)
        written, slots = written.longer()
        line = written.line(line)
        hidden, padding = written.hidden(line), shared.hidden(bias)
        rows = zip(ready.blocks, slots, written.layers(), shared.layers, strict=True)
        for i, (block, slot, back, memory) in enumerate(rows):
            x = swift.step(block, x, swift.Looks(slot, back, hidden, memory, padding))
            y, own[i] = blocks[i].step(y.view(B, 1, E), own[i], cross[i], memory_bias=bias)
            assert_close(x, y.view(B, E))


@every
@torch.no_grad()
def test_swift_reading_is_the_block(options):
    block, x, bias = EncoderBlock(E, H, INNER, **options).eval(), torch.randn(9, S, E), hiding(9)
    assert swift.reads((block,), x)
    assert_close(swift.read(block, x, bias), block(x, bias=bias))


@torch.no_grad()
def test_who_follows_sees_every_step():
    blocks, own, cross = begun({}, 2)
    written = Written.of(own, tuple(cache.fused for cache in own))
    x, (encoder,) = torch.randn(2, S, E), [EncoderBlock(E, H, INNER).eval()]

    def may():
        return (
            swift.begins(blocks, own, cross),
            swift.goes_on(blocks, written),
            swift.reads((encoder,), x),
        )

    assert all(may())
    with look():
        assert not any(may())
    with use_backend("reference"):
        assert not any(may())
    with torch.enable_grad():
        assert not any(may())
    assert not swift.reads((encoder,), torch.randn(1, swift.SHORT + 1, E))
    assert not swift.goes_on(blocks, own)
    for block in (*blocks, encoder):
        block.train()
    assert not any(may())
