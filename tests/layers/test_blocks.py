"""The blocks are PyTorch's, and one step at a time is the same as all at once."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import look
from regard.functional import rules
from regard.functional.scores import scaled_dot
from regard.layers import (
    AdditiveScore,
    AddNorm,
    DecoderBlock,
    DecoderScores,
    DropoutRates,
    EncoderBlock,
    FactorsScore,
    Learned,
    MultiHead,
    RelativeScore,
    Rotary,
)
from regard.layers.blocks import init_weights

B, Q, K, H, E, INNER = 2, 5, 7, 3, 12, 11

NORMS = ["before", "after"]


def copied(ours: nn.Module, theirs: nn.Module) -> None:
    """The weights of a block of PyTorch, in ours."""
    for name, attention in (("self_attention", "self_attn"), ("cross", "multihead_attn")):
        if hasattr(ours, name):
            same = MultiHead.from_torch(getattr(theirs, attention))
            getattr(ours, name).load_state_dict(same.state_dict())
    ours.feed_forward.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.out.load_state_dict(theirs.linear2.state_dict())
    layers = ("self_attention", "cross", "feed_forward")
    names = [f"{name}_norm" for name in layers if hasattr(ours, name)]
    for i, name in enumerate(names, 1):
        norm = getattr(theirs, f"norm{i}")
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        getattr(ours, name).norm.load_state_dict(norm.state_dict())


@pytest.mark.parametrize("norm", NORMS)
def test_an_encoder_block_is_that_of_torch(norm):
    theirs = nn.TransformerEncoderLayer(
        E, H, INNER, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm == "before"
    )
    ours = EncoderBlock(E, H, INNER, norm=norm, activation=F.gelu)
    copied(ours, theirs)
    x, lengths = torch.randn(B, Q, E), torch.tensor([3, 5])
    padded = torch.arange(Q) >= lengths[:, None]
    expected = theirs(x, src_key_padding_mask=padded)
    assert_close(ours(x, rule=rules.padding(lengths)), expected)


@pytest.mark.parametrize("norm", NORMS)
def test_a_decoder_block_is_that_of_torch(norm):
    theirs = nn.TransformerDecoderLayer(
        E, H, INNER, dropout=0.0, batch_first=True, norm_first=norm == "before"
    )
    ours = DecoderBlock(E, H, INNER, norm=norm)
    copied(ours, theirs)
    x, memory, lengths = torch.randn(B, Q, E), torch.randn(B, K, E), torch.tensor([3, 7])
    ahead = ~torch.ones(Q, Q).tril().bool()
    padded = torch.arange(K) >= lengths[:, None]
    expected = theirs(x, memory, tgt_mask=ahead, memory_key_padding_mask=padded)
    assert_close(ours(x, memory, memory_rule=rules.padding(lengths)), expected)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_steps_of_an_encoder_block_are_one_causal_forward(norm, static):
    block = EncoderBlock(E, H, INNER, norm=norm, score=RelativeScore(H, E // H, 2))
    x, outs = torch.randn(B, K, E), []
    cache = block.start(B).to_static(K) if static else block.start(B)
    for part in x.split([3, 1, 3], 1):
        out, cache = block.step(part, cache)
        outs.append(out)
    assert_close(torch.cat(outs, 1), block(x, rule=rules.causal))


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_steps_of_a_decoder_block_are_one_forward(norm, static):
    block = DecoderBlock(E, H, INNER, norm=norm, rotary=Rotary())
    x, memory, outs = torch.randn(B, Q, E), torch.randn(B, K, E), []
    rule, memory_rule = rules.window(2), rules.padding(torch.tensor([4, 7]))
    cache, keys = block.start(B), block.cross.keys(memory)
    cache, keys = (cache.to_static(9), keys.to_static(9)) if static else (cache, keys)
    for part in x.split([1, 3, 1], 1):
        out, cache = block.step(part, cache, keys, rule=rule, memory_rule=memory_rule)
        outs.append(out)
    whole = block(x, memory, rule=rule, memory_rule=memory_rule)
    assert_close(torch.cat(outs, 1), whole)


@torch.no_grad()
def test_a_score_of_distances_to_the_memory_counts_from_where_it_is_asked():
    block = DecoderBlock(E, H, INNER, score=DecoderScores(cross=FactorsScore(H, E // H, 2)))
    x, memory, outs = torch.randn(B, Q, E), torch.randn(B, K, E), []
    cache, keys = block.start(B), block.cross.keys(memory)
    for i, part in enumerate(x.split(1, 1)):
        out, cache = block.step(part, cache, keys.with_query_offset(torch.tensor(i)))
        outs.append(out)
    assert_close(torch.cat(outs, 1), block(x, keys.with_query_offset(0)))


@torch.no_grad()
def test_what_an_encoder_block_has_read_is_gone_on_from():
    block, x = EncoderBlock(E, H, INNER, norm="after"), torch.randn(B, K, E)
    whole = block(x, rule=rules.causal)
    first, keys = block.forward_with_cache(x[:, :4], rule=rules.causal)
    rest, _ = block.step(x[:, 4:], keys)
    assert_close(torch.cat([first, rest], 1), whole)


def test_each_attention_has_its_own_score():
    own, cross = RelativeScore(1, E // H, 2), AdditiveScore(H, E // H)
    both, one = (DecoderBlock(E, H, INNER, score=s) for s in (DecoderScores(own, cross), own))
    assert both.self_attention.score is one.self_attention.score is own
    assert both.cross.score is cross and one.cross.score is scaled_dot


def test_a_bias_hides_a_memory_as_a_rule_does():
    block, x, memory = DecoderBlock(E, H, INNER), torch.randn(B, Q, E), torch.randn(B, K, E)
    lengths = torch.tensor([3, 7])
    bias = torch.where(torch.arange(K) < lengths[:, None], 0.0, -math.inf)[:, None, None]
    hidden = block(x, memory, memory_rule=rules.padding(lengths))
    assert_close(block(x, memory, memory_bias=bias), hidden)


def test_shares_are_dropped_where_they_belong():
    block = DecoderBlock(
        E, H, INNER, dropout=DropoutRates(residual=0.1, attention=0.2, feed_forward=0.3)
    )
    assert (block.self_attention.dropout, block.cross.dropout, block.feed_forward.dropout.p) == (
        0.2,
        0.2,
        0.3,
    )
    norms = (block.self_attention_norm, block.cross_norm, block.feed_forward_norm)
    assert [norm.dropout.p for norm in norms] == [0.1, 0.1, 0.1]
    same = EncoderBlock(E, H, INNER, dropout=0.4)
    assert (
        same.self_attention.dropout
        == same.feed_forward.dropout.p
        == same.self_attention_norm.dropout.p
        == 0.4
    )


def test_weights_begin_within_glorot_s_bounds():
    block, table, places = EncoderBlock(96, H, 192), nn.Embedding(101, 96), Learned(101, 96)
    nn.ModuleList([block, table, places]).apply(init_weights)
    bounds = {
        block.feed_forward.out: 6 / 288,
        block.self_attention.out: 6 / 192,
        block.self_attention.value: 6 / 384,
    }
    for layer, squared in bounds.items():
        assert layer.weight.abs().max().item() == pytest.approx(squared**0.5, rel=0.02)
        assert not layer.bias.any()
    for drawn in (table.weight, places.table):
        assert drawn.std().item() == pytest.approx(96**-0.5, rel=0.1)


def test_additive_scores_begin_where_small_queries_and_keys_matter_together():
    torch.manual_seed(0)
    block = EncoderBlock(96, H, 192, score=AdditiveScore(H, 96 // H))
    block.apply(init_weights)
    assert torch.equal(block.self_attention.query.bias, torch.full((96,), 0.66))
    assert not block.self_attention.key.bias.any()
    most = 12 * (96 // H) ** -0.5
    assert 0.95 * most < block.self_attention.score.vector.abs().max() <= most

    def together(bias):
        """How much of a score is neither the query's nor the key's own part."""
        q, k = torch.randn(2, 1, H, 40, 96 // H) / 10
        scores = block.self_attention.score.value()(q + bias, k)
        alone = scores.mean(3, keepdim=True) + scores.mean(2, keepdim=True)
        return (scores - alone + scores.mean((2, 3), keepdim=True)).std()

    assert together(0.66) > 3 * together(0.0)
    MultiHead(96, H, score=AdditiveScore(H, 96 // H), bias=False).apply(init_weights)


def test_the_future_does_not_leak_through_a_decoder_block():
    block, x, memory = DecoderBlock(E, H, INNER), torch.randn(B, Q, E), torch.randn(B, K, E)
    changed = x.clone()
    changed[:, 3:] += 1
    assert torch.equal(block(x, memory)[:, :3], block(changed, memory)[:, :3])


def test_norm_before_leaves_the_way_through_open():
    for norm, same in (("before", True), ("after", False)):
        block, x = EncoderBlock(E, H, INNER, norm=norm), torch.randn(B, Q, E)
        for layer in (block.self_attention.out, block.feed_forward.out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        assert torch.equal(block(x), x) == same


def test_a_look_names_the_attention_inside():
    model = nn.ModuleDict(
        {"encoder": EncoderBlock(E, H, INNER), "decoder": DecoderBlock(E, H, INNER)}
    )
    x, memory = torch.randn(B, Q, E), torch.randn(B, K, E)
    with look(model) as seen:
        model["decoder"](x, model["encoder"](memory))
    assert seen.names() == ["encoder.self_attention", "decoder.self_attention", "decoder.cross"]
    assert seen["decoder.cross"].weights().shape == (B, H, Q, K)


@torch.no_grad()
def test_a_look_sees_the_steps_of_a_decoder():
    block, x, memory = DecoderBlock(E, H, INNER), torch.randn(B, Q, E), torch.randn(B, K, E)
    with look(block) as whole:
        block(x, memory)
    with look(block) as seen:
        cache, keys = block.start(B), block.cross.keys(memory)
        for part in x.split(1, 1):
            _, cache = block.step(part, cache, keys)
    assert seen.names() == ["self_attention", "cross"]
    for name in seen.names():
        assert_close(seen[name].weights(), whole[name].weights())


def test_padding_changes_nothing_not_even_if_it_is_nan():
    block, x, memory = DecoderBlock(E, H, INNER), torch.randn(B, Q, E), torch.randn(B, K, E)
    more = torch.cat([memory, torch.full((B, 3, E), math.nan)], 1)
    rule = rules.padding(torch.full((B,), K))
    assert_close(block(x, more, memory_rule=rule), block(x, memory))


def test_a_batch_is_its_rows():
    block, x, memory = DecoderBlock(E, H, INNER), torch.randn(B, Q, E), torch.randn(B, K, E)
    rows = [block(x[i : i + 1], memory[i : i + 1]) for i in range(B)]
    assert_close(block(x, memory), torch.cat(rows))


def test_weights_are_saved_and_loaded():
    a, b = (DecoderBlock(E, H, INNER, score=RelativeScore(1, E // H, 2)) for _ in range(2))
    b.load_state_dict(a.state_dict())
    x, memory = torch.randn(B, Q, E), torch.randn(B, K, E)
    assert torch.equal(a(x, memory), b(x, memory))


def test_gradients_are_right():
    block = DecoderBlock(4, 2, 3, activation=F.gelu).double()
    x, memory = torch.randn(1, 2, 4).double(), torch.randn(1, 3, 4).double()
    inputs = (x.requires_grad_(), memory.requires_grad_())
    assert torch.autograd.gradcheck(block, inputs)


def test_dropout_is_for_training():
    block, x = EncoderBlock(E, H, INNER, dropout=0.3), torch.randn(B, Q, E)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def test_a_norm_that_stands_nowhere_is_refused():
    # the shape checks of the tests would refuse it first, in other words
    plain = getattr(AddNorm.__init__, "__wrapped__", AddNorm.__init__)
    with pytest.raises(ValueError, match="AddNorm: expected norm 'before' or 'after', got 'late'"):
        plain(AddNorm.__new__(AddNorm), E, norm="late")
