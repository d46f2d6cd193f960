"""Source and target as one sequence: padding between them is not there, and steps are the whole."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import look
from regard.decode import beam, greedy
from regard.functional.positions import sinusoidal
from regard.layers import MultiHead
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig

B, S, T, V, E, H = 3, 5, 4, 23, 12, 3
SMALL = DecoderOnlyConfig(
    vocabulary=V, width=E, heads=H, layers=2, feed_forward_width=7, dropout=0.0
)
KINDS = {
    "after": SMALL,
    "before": replace(SMALL, norm="before", tied=False),
    "prefix": replace(SMALL, prefix_lm=True),
    "learned": replace(SMALL, positions="learned", context=9, prefix_lm=True),
    "none": replace(SMALL, positions="none"),
    "dot": replace(SMALL, score="dot"),
    "additive": replace(SMALL, score="additive", prefix_lm=True),
    "cosine": replace(SMALL, score="cosine"),
    "general": replace(SMALL, score="general"),
}
every = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS.keys())


def given(config):
    """A model, sources of three lengths, and targets."""
    torch.manual_seed(1)
    tokens, lengths = torch.randint(3, V, (B, S)), torch.tensor([S, 2, 4])
    return DecoderOnly(config).eval(), (tokens, lengths), torch.randint(3, V, (B, T))


def stepped(model, source, target, **how):
    """The logits of all steps (B, T, V)."""
    state, steps = model.start(source, **how), []
    for word in target.unbind(1):
        logits, state = model.step(word, state)
        steps.append(logits)
    return torch.stack(steps, 1)


@every
@torch.no_grad()
def test_step_by_step_is_all_at_once(config):
    model, source, target = given(config)
    whole = model(source, target)
    assert_close(stepped(model, source, target), whole)
    assert_close(stepped(model, source, target, size=T), whole)


@every
@torch.no_grad()
def test_more_padding_changes_nothing(config):
    model, (tokens, lengths), target = given(config)
    padded = torch.cat([tokens, torch.randint(3, V, (B, 4))], 1)
    wide = model((padded, lengths), target)
    assert_close(wide, model((tokens, lengths), target))


@every
@torch.no_grad()
def test_a_batch_is_its_sentences_one_by_one(config):
    model, (tokens, lengths), target = given(config)
    alone = [
        model((tokens[i : i + 1, : lengths[i]], lengths[i : i + 1]), target[i : i + 1])
        for i in range(B)
    ]
    assert_close(torch.cat(alone), model((tokens, lengths), target))


@every
@torch.no_grad()
def test_the_future_does_not_leak(config):
    model, source, target = given(config)
    changed = target.clone()
    changed[:, 2] = (changed[:, 2] + 1) % V
    before, after = model(source, target), model(source, changed)
    assert_close(before[:, :2], after[:, :2])
    assert not torch.equal(before[:, 2], after[:, 2])


@every
def test_every_weight_learns(config):
    model, source, target = given(config)
    model.train()
    model(source, target).square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # what moves all scores of a query alike changes no weight
    assert [n for n in still if not n.endswith("key.bias")] == []


@every
@torch.no_grad()
def test_no_step_waits_for_the_device(config):
    # A meta tensor has no value to read, so whoever asks for one fails.
    model, source, _ = given(config)
    state = model.to("meta").start(tuple(x.to("meta") for x in source), size=4)
    for _ in range(2):
        logits, state = model.step(torch.zeros(B, dtype=torch.int64, device="meta"), state)
    assert logits.shape == (B, V)


@torch.no_grad()
def test_the_whole_is_an_encoder_of_torch_under_a_causal_mask():
    model, (tokens, _), target = given(SMALL)
    one = nn.TransformerEncoderLayer(E, H, 7, dropout=0.0, batch_first=True)
    theirs = nn.TransformerEncoder(one, 2, enable_nested_tensor=False).eval()
    for block, layer in zip(model.blocks, theirs.layers, strict=True):
        block.self_attention.load_state_dict(MultiHead.from_torch(layer.self_attn).state_dict())
        block.feed_forward.inner.load_state_dict(layer.linear1.state_dict())
        block.feed_forward.out.load_state_dict(layer.linear2.state_dict())
    x = model.tokens.weight[torch.cat([tokens, target], 1)] * E**0.5 + sinusoidal(S + T, E)
    ahead = ~torch.ones(S + T, S + T).tril().bool()
    expected = theirs(x, mask=ahead)[:, S:] @ model.tokens.weight.T
    assert_close(model((tokens, torch.full((B,), S)), target), expected)


@pytest.mark.parametrize("prefix", [False, True])
@torch.no_grad()
def test_only_a_prefix_is_seen_both_ways(prefix):
    model, source, target = given(replace(SMALL, prefix_lm=prefix))
    with look(model) as seen:
        model(source, target)
    assert seen.names() == ["blocks.0.self_attention", "blocks.1.self_attention"]
    # of 5 places of the source, 2 are real
    there = seen["blocks.0.self_attention"].weights()[1, 0] > 0
    expected = torch.ones(S + T, S + T).tril().bool()
    expected[:S, :S] |= torch.tensor(prefix)
    expected[:, 2:S] = False
    assert torch.equal(there, expected)


@torch.no_grad()
def test_the_target_goes_on_where_its_source_ends():
    model, (tokens, lengths), target = given(SMALL)
    model.blocks = nn.ModuleList()  # what is left is embedding and output
    places = sinusoidal(S + T, E)
    for b, n in enumerate(lengths.tolist()):
        x = model.tokens.weight[target[b]] * E**0.5 + places[n : n + T]
        assert_close(model((tokens, lengths), target)[b], x @ model.tokens.weight.T)


@pytest.mark.parametrize("name", ["after", "learned", "additive"])
def test_beams_of_one_are_greedy_and_go_with_their_state(name):
    model, source, _ = given(KINDS[name])
    how = {"begin": 1, "end": 2, "longest": 4}
    one, many = greedy(model, source, **how), beam(model, source, width=3, best=3, **how)
    assert torch.equal(beam(model, source, width=1, **how).tokens, one.tokens)
    for i in range(3):  # each hypothesis has the score that the model gives it by itself
        words = many.tokens[:, i]
        fed = torch.cat([torch.ones(B, 1, dtype=torch.int64), words[:, :-1]], 1)
        each = model(source, fed).log_softmax(-1).gather(2, words[..., None])[..., 0]
        counted = torch.arange(words.shape[1]) < many.lengths[:, i, None]
        assert_close((each * counted).sum(1).detach(), many.scores[:, i])


def test_parameters_are_counted_by_hand():
    E, inner = 512, 2048
    attention, feed_forward, norm = 4 * (E * E + E), (E * inner + inner) + (inner * E + E), 2 * E
    with torch.device("meta"):
        counted = sum(p.numel() for p in DecoderOnly(DecoderOnlyConfig()).parameters())
    assert counted == 12 * (attention + feed_forward + 2 * norm) + 37_000 * E == 56_772_608


def test_tied_tables_are_one():
    tied, apart = DecoderOnly(SMALL), DecoderOnly(KINDS["before"])
    assert tied.tokens.weight is tied.out.weight
    assert apart.tokens.weight is not apart.out.weight


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "feed_forward_dropout"])
def test_dropout_is_for_training(name):
    model, source, target = given(replace(SMALL, **{name: 0.5}))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


def test_learned_positions_end_with_the_longest_row():
    model, source, target = given(KINDS["learned"])
    with pytest.raises(ValueError, match="Learned: 10 tokens, but the context holds 9"):
        model(source, torch.cat([target, target[:, :1]], 1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": 0}, "DecoderOnly: expected layers of at least 1, got 0"),
        ({"heads": 5}, "DecoderOnly: width 12 does not split into 5 heads"),
        ({"dropout": 1.0}, r"DecoderOnly: expected dropout in \[0, 1\), got 1.0"),
    ],
    ids=["layers", "heads", "dropout"],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)


@pytest.mark.parametrize("length", [0, S + 1])
def test_lengths_that_do_not_fit_are_refused(length):
    model, (tokens, _), _ = given(SMALL)
    message = rf"DecoderOnly: expected lengths from 1 to S=5, got .*{length}"
    with pytest.raises(ValueError, match=message):
        model.start((tokens, torch.tensor([S, 2, length])))


def test_wrong_shapes_are_told():
    model, (tokens, lengths), target = given(SMALL)
    with pytest.raises(ValueError, match=r"DecoderOnly: expected source of shape \(B, S\), got"):
        model.start((tokens[0], lengths))
    with pytest.raises(ValueError, match=r"DecoderOnly: expected lengths of shape \(B=3\), got"):
        model((tokens, lengths[:2]), target)
    with pytest.raises(ValueError, match=r"DecoderOnly: expected target of shape \(B=3, T\), got"):
        model((tokens, lengths), target[:1])
