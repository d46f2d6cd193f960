"""Beams that share keys read what each would read from a cache of its own."""

import pytest
import torch
from torch.testing import assert_close

from regard import attend
from regard.fast_decode.shared_cache import MIN_CAPACITY_STEPS, SharedBeamCache, SharedMemoryCache
from regard.kernels.decode_step.api import CPU_MIN_KEYS
from regard.layers.caches import Cache

L, B, H, D, W = 2, 3, 2, 4, 3


def memories(size):
    return [Cache(*torch.randn(2, B, H, size, D)) for _ in range(L)]


def nothing():
    return SharedBeamCache.from_caches([Cache.empty(B, H, D) for _ in range(L)])


@pytest.mark.parametrize("size", [5, CPU_MIN_KEYS, 20])
@pytest.mark.parametrize("width", [1, W])
@pytest.mark.parametrize("padded", [True, False])
def test_a_memory_is_read_by_the_beams_of_its_source(size, width, padded):
    caches, q = memories(size), torch.randn(B, H, width, D)
    lengths = torch.tensor([size, 1, size - 2] if padded else [size] * 3)[:, None, None, None]
    bias = torch.zeros(()).where(torch.arange(size) < lengths, -torch.inf)
    shared = SharedMemoryCache.from_caches(caches, bias).expand_beams(width)
    hidden = shared.score_bias(bias.repeat_interleave(width, 0))
    for layer, own, rows in zip(shared.layers, caches, shared.to_caches(), strict=True):
        expected = attend(q, own.k, own.v, bias=bias)
        assert_close(attend(q, layer.k, layer.v, bias=hidden), expected)
        assert torch.equal(rows.k, own.k.repeat_interleave(width, 0))
        assert torch.equal(rows.v, own.v.repeat_interleave(width, 0))


def grown(written, line, caches):
    """One step more, written here and to a cache for each beam."""
    new = torch.randn(L, 2, len(line), H, D)
    longer, slots = written.append_step()
    for (k, v), slot in zip(new, slots, strict=True):
        slot.k.copy_(k.view(B, -1, H, D).transpose(1, 2))
        slot.v.copy_(v.view(B, -1, H, D).transpose(1, 2))
    pairs = zip(caches, new, strict=True)
    return (
        longer,
        longer.next_beam_indices(line),
        [c.append(k[:, :, None], v[:, :, None]) for c, (k, v) in pairs],
    )


@pytest.mark.parametrize("width", [1, W])
def test_beams_that_move_read_their_own_past(width):
    written, line = nothing().expand_beams(width), torch.zeros(B * width, 0, dtype=torch.int64)
    caches = [Cache.empty(B * width, H, D) for _ in range(L)]
    for _ in range(MIN_CAPACITY_STEPS + 3):
        written, line, caches = grown(written, line, caches)
        q, hidden = torch.randn(B * width, H, 1, D), written.score_bias(line)
        asked = q.view(B, width, H, D).transpose(1, 2)
        for layer, own in zip(written.layers(), caches, strict=True):
            seen = attend(asked, layer.k, layer.v, bias=hidden).transpose(1, 2).flatten(0, 1)
            assert_close(seen, attend(q, own.k, own.v)[:, :, 0])
        parents = torch.randint(width, (B, width)) + torch.arange(B)[:, None] * width
        line = line[parents.flatten()]
        caches = [cache.reorder(parents.flatten()) for cache in caches]
    for ours, theirs in zip(written.to_caches(line), caches, strict=True):
        assert torch.equal(ours.k, theirs.k) and torch.equal(ours.v, theirs.v)


@pytest.mark.parametrize("width", [1, W])
def test_what_was_written_stays_when_another_goes_on_from_it(width):
    written, line = nothing().expand_beams(width), torch.zeros(B * width, 0, dtype=torch.int64)
    caches = [Cache.empty(B * width, H, D) for _ in range(L)]
    first = grown(*grown(written, line, caches))
    one, other = grown(*first), grown(*first)
    for longer, line, caches in (first, one, other):
        for ours, theirs in zip(longer.to_caches(line), caches, strict=True):
            assert torch.equal(ours.k, theirs.k) and torch.equal(ours.v, theirs.v)


def test_a_past_is_spread_to_all_beams():
    start = (nothing(), torch.zeros(B, 0, dtype=torch.int64), [Cache.empty(B, H, D)] * L)
    written, line, caches = grown(*grown(*start))
    spread, lines = written.expand_beams(W), line.repeat_interleave(W, 0)
    for ours, theirs in zip(spread.to_caches(lines), caches, strict=True):
        assert torch.equal(ours.k, theirs.k.repeat_interleave(W, 0))
    with pytest.raises(ValueError, match="SharedBeamCache: expected one beam to expand, got 3"):
        spread.expand_beams(2)
