"""Swift steps and swift reading: the numbers of the blocks themselves, and who may have them."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import look, use_backend
from regard.layers import products, swift
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.shared import Written

E, H, INNER, S, T = 12, 3, 20, 7, 4
KINDS = {
    "after": {"norm": "after"},
    "before": {"norm": "before"},
    "gelu": {"activation": F.gelu},
}
exact = pytest.mark.parametrize("make", [products.plain, products.packed])
every = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())


def hiding(B):
    """What hides the padding of sources of several lengths (B, 1, 1, S)."""
    lengths = 1 + torch.arange(B)[:, None, None, None] % S
    return torch.zeros(()).where(torch.arange(S) < lengths, -torch.inf)


def begun(options, B):
    torch.manual_seed(2)
    blocks = tuple(DecoderBlock(E, H, INNER, **options).eval() for _ in range(2))
    return blocks, torch.randn(B, S, E)


@every
@exact
@pytest.mark.parametrize("B", [1, 9])
@torch.no_grad()
def test_a_swift_step_is_a_step(options, make, B):
    blocks, memory, bias = *begun(options, B), hiding(B)
    own, cross = [b.start(B) for b in blocks], [b.cross.keys(memory) for b in blocks]
    assert swift.begins(blocks, memory)
    ready = swift.Ready.of((), blocks, torch.nn.Linear(E, 2), make)
    (written, shared), line = ready.begun(memory, bias), torch.zeros(B, 0, dtype=torch.int64)
    for _ in range(T):
        x = torch.randn(B, E)
        y = x[:, None]
        x, written, line = ready.written(x, written, line, shared, bias)
        for i, block in enumerate(blocks):
            y, own[i] = block.step(y, own[i], cross[i], memory_bias=bias)
        assert_close(x, y[:, 0])


@every
@exact
@torch.no_grad()
def test_swift_reading_is_the_block(options, make):
    block, x, bias = EncoderBlock(E, H, INNER, **options).eval(), torch.randn(9, S, E), hiding(9)
    assert swift.reads((block,), x)
    assert_close(swift.Reading.of(block, make)(x, bias), block(x, bias=bias))


@torch.no_grad()
def test_who_follows_sees_every_step():
    blocks, memory = begun({}, 2)
    own = [block.start(2) for block in blocks]
    written = Written.of(own)
    x, (encoder,) = torch.randn(2, S, E), [EncoderBlock(E, H, INNER).eval()]

    def may():
        return (
            swift.begins(blocks, memory),
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
