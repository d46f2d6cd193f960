"""A cache is a value: appended to, cropped and reordered, it holds what it says."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.functional import biases, rules, scores
from regard.layers import Cache, MultiHead, RelativeScore, Rotary, StaticCache

B, H, K, D, E = 3, 2, 5, 4, 8


def some(n: int, first: int = 0) -> torch.Tensor:
    """Keys of one head and one number each, which is also their place."""
    return torch.arange(first, first + n).float().reshape(1, 1, n, 1)


def held(cache: Cache | StaticCache) -> list[float]:
    assert torch.equal(cache.v, -cache.k)
    return cache.k[0, 0, : len(cache), 0].tolist()


def both_kinds(cache: Cache, size: int = 7) -> list[Cache | StaticCache]:
    return [cache, cache.to_static(size)]


def test_what_is_appended_comes_last():
    for cache in both_kinds(Cache.empty(1, 1, 1)):
        cache = cache.append(some(2), -some(2)).append(some(3, 2), -some(3, 2))
        assert held(cache) == [0, 1, 2, 3, 4]
        assert cache.query_positions(2).tolist() == [3, 4]
        assert cache.next_positions(2).tolist() == [5, 6]


def test_what_is_cropped_is_gone_and_written_over():
    for cache in both_kinds(Cache(some(5), -some(5))):
        assert held(cache.crop(2)) == [0, 1]
        assert held(cache.crop(2).append(some(1, 9), -some(1, 9))) == [0, 1, 9]
        assert held(cache.crop(0)) == []


def test_rows_are_reordered():
    k, index = torch.randn(B, H, K, D), torch.tensor([2, 0, 2])
    for cache in both_kinds(Cache(k, -k), K):
        moved = cache.reorder(index)
        assert torch.equal(moved.k, k[index])
        assert torch.equal(moved.v, -k[index])


def test_a_growing_cache_may_fan_out():
    cache = Cache(some(2), -some(2)).reorder(torch.tensor([0, 0, 0]))
    assert cache.k.shape == (3, 1, 2, 1)


def test_a_static_cache_stays_where_it_is():
    first = Cache.empty(B, H, D).to_static(K)
    cache = first.append(torch.randn(B, H, 2, D), torch.randn(B, H, 2, D))
    cache = cache.reorder(torch.tensor([1, 1, 0])).crop(1)
    assert cache.k.data_ptr() == first.k.data_ptr()
    assert cache.k.shape == (B, H, K, D)
    assert cache.length.shape == ()


@pytest.mark.parametrize("static", [False, True])
@torch.no_grad()
def test_a_beam_that_takes_back_a_token_decodes_as_if_it_never_had_it(static):
    layer, x = MultiHead(E, H, rotary=Rotary()), torch.randn(B, K, E)
    cache = layer.start(B).to_static(K) if static else layer.start(B)
    _, cache = layer.step(x[:, :4], cache)
    index = torch.tensor([2, 0, 0])
    out, _ = layer.step(x[:, 3:], cache.crop(3).reorder(index))
    tokens = torch.cat([x[index, :3], x[:, 3:]], 1)
    assert_close(out, layer(tokens, rule=rules.causal)[:, 3:])


@torch.no_grad()
def test_what_stands_in_free_slots_is_never_seen():
    layer, x = MultiHead(E, H), torch.randn(B, K, E)
    cache = layer.keys(x).to_static(K + 4)
    cache.k[:, :, K:] = math.nan
    cache.v[:, :, K:] = math.inf
    assert_close(layer(x[:, :2], cache), layer(x[:, :2], x))


@torch.no_grad()
def test_masks_go_by_the_slot_and_centres_by_the_query():
    layer, x = MultiHead(E, H), torch.randn(B, K, E)
    seen = torch.rand(B, 1, 2, K + 2) < 0.6
    centre = torch.rand(B, H, 2) * K
    around = rules.around(centre, 2)
    static = layer.keys(x[:, :3]).to_static(K + 2)
    for given, same in ((seen, seen[..., :K]), (around, around)):
        out, _ = layer.step(x[:, 3:], static.crop(3), rule=given)
        assert_close(out, layer.step(x[:, 3:], layer.keys(x[:, :3]), rule=same)[0])


@torch.no_grad()
def test_lengths_hide_the_same_keys_in_a_static_cache():
    layer, x, lengths = MultiHead(E, H), torch.randn(B, K, E), torch.tensor([1, 3, 5])
    rule = rules.padding(lengths)
    out, _ = layer.step(x, layer.start(B).to_static(K + 2), rule=rule)
    assert_close(out, layer(x, rule=rules.both(rules.causal, rule)))


@torch.no_grad()
def test_padding_on_the_left_is_refused_beside_free_slots():
    layer = MultiHead(E, H)
    rule = rules.padding(torch.tensor([1, 2, 3]), side="left")
    with pytest.raises(ValueError, match="StaticCache: padding on the left counts from the last"):
        layer.step(torch.randn(B, 3, E), layer.start(B).to_static(K), rule=rule)


def test_a_full_cache_says_so():
    cache = Cache(some(5), -some(5)).to_static(6)
    with pytest.raises(ValueError, match="no room for 2 more keys, the cache holds 6 and has 5"):
        cache.append(some(2), some(2))
    with pytest.raises(ValueError, match="StaticCache: 5 keys, but the cache holds 4"):
        Cache(some(5), -some(5)).to_static(4)


def test_gradients_are_refused_where_they_could_not_flow():
    layer = MultiHead(E, H)
    with pytest.raises(ValueError, match=r"no gradient flows .* decode under torch.no_grad\(\)"):
        layer.step(torch.randn(B, 1, E), layer.start(B).to_static(K))


def test_queries_of_another_sequence_stand_where_they_ask_from():
    cache, score = Cache(some(5), -some(5)), RelativeScore(H, D, 2).value()
    assert cache.query_positions(2).tolist() == [3, 4] and cache.score(score, 2) is score
    for first in (1, torch.tensor(1)):
        asked = cache.with_query_offset(first)
        assert (
            asked.query_positions(2).tolist() == asked.score(score, 2).positions.tolist() == [1, 2]
        )
        assert asked.score(scores.dot, 2) is scores.dot
        assert asked.reorder(torch.tensor([0])).query_positions(2).tolist() == [1, 2]


@pytest.mark.parametrize("bias", [None, torch.randn(K + 2)], ids=["bare", "biased"])
@torch.no_grad()
def test_finite_slots_are_hidden_by_a_bias_that_changes_nothing(bias):
    layer, x = MultiHead(E, H), torch.randn(B, K, E)
    outs = []
    for finite in (False, True):
        cache, steps = layer.start(B).to_static(K + 2, finite=finite), []
        for part in x.split([2, 1, 2], 1):
            out, cache = layer.step(part, cache, rule=rules.window(2), bias=bias)
            steps.append(out)
        outs.append(torch.cat(steps, 1))
        assert (cache.crop(1).free_slot_bias is not None) == finite
    assert_close(*outs)


def test_finite_slots_take_no_bias_that_is_a_function():
    cache = Cache.empty(B, H, D).to_static(K, finite=True)
    with pytest.raises(ValueError, match=r"StaticCache: finite slots are hidden by a bias, to wh"):
        cache.bias(biases.alibi(H), 1)


def test_keys_of_another_shape_are_refused():
    for cache, name in zip(both_kinds(Cache.empty(B, H, D)), ("Cache", "StaticCache"), strict=True):
        k, v = torch.zeros(B, H, 2, D), torch.zeros(B, H, 3, D)
        with pytest.raises(ValueError, match=rf"^{name}: expected k of shape \(B=3, H=2, K, D=4\)"):
            cache.append(k[:, :1], v)
        with pytest.raises(ValueError, match=rf"^{name}: expected v of shape \(B=3, H=2, K=2"):
            cache.append(k, v)


@pytest.mark.parametrize("length", [-1, 6])
def test_a_crop_beyond_what_is_there_is_refused(length):
    for cache in both_kinds(Cache(some(5), -some(5))):
        with pytest.raises(ValueError, match=f"crop to a length from 0 to 5, got {length}"):
            cache.crop(length)


def test_rows_that_are_not_there_are_refused():
    for cache in both_kinds(Cache.empty(B, H, D)):
        with pytest.raises(
            ValueError, match=r"expected index from 0 to B - 1 = 2, got \[0, 3, 1\]"
        ):
            cache.reorder(torch.tensor([0, 3, 1]))
        with pytest.raises(ValueError, match="index as a tensor of integers, got a tensor of bool"):
            cache.reorder(torch.tensor([True, False, True]))
    with pytest.raises(ValueError, match=r"StaticCache: expected index of shape \(B=3\), got \(2,"):
        Cache.empty(B, H, D).to_static(K).reorder(torch.tensor([0, 1]))


@pytest.mark.gpu
@torch.no_grad()
def test_a_static_cache_never_waits_for_the_card():
    layer = MultiHead(E, H, rotary=Rotary()).cuda()
    x, cache, outs = torch.randn(B, K, E, device="cuda"), layer.start(B).to_static(K), []
    torch.cuda.set_sync_debug_mode("error")
    try:
        for part in x.split(1, 1):
            out, cache = layer.step(part, cache)
            outs.append(out)
        cache.crop(2).reorder(cache.length.expand(B) * 0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_close(torch.cat(outs, 1), layer(x, rule=rules.causal))


@pytest.mark.gpu
@torch.no_grad()
def test_a_static_cache_is_captured_in_a_cuda_graph():
    layer = MultiHead(E, H, rotary=Rotary()).cuda()
    x, cache, outs = torch.randn(B, K, E, device="cuda"), layer.start(B).to_static(K), []
    token, length = x[:, :1].clone(), cache.length
    layer.step(token, cache)  # warms up; the slot is written again below
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, longer = layer.step(token, cache)
        length.copy_(longer.length)
    for part in x.split(1, 1):
        token.copy_(part)
        graph.replay()
        outs.append(out.clone())
    assert_close(torch.cat(outs, 1), layer(x, rule=rules.causal))


def test_slots_that_somebody_counts_are_a_static_cache():
    slots, free = (
        Cache(some(2), -some(2)).to_slots(4),
        torch.tensor([0.0, 0.0, -math.inf, -math.inf]),
    )
    cache = slots.to_cache(torch.tensor(2), free.reshape(1, 1, 1, 4))
    longer = cache.append(some(1, 2), -some(1, 2))
    assert held(longer) == [0, 1, 2] and len(cache) == 2
    assert all(a is b for a, b in zip(longer.to_slots(), slots, strict=True))


def test_slots_are_refused_to_more_keys_than_there_are():
    with pytest.raises(ValueError, match="StaticCache: 3 keys, but the cache holds 2"):
        Cache(some(3), -some(3)).to_slots(2)
