"""The Transformer: PyTorch's and Hugging Face's numbers, and a step is a step of the whole."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import look
from regard.decode import beam, greedy
from regard.functional.positions import sinusoidal
from regard.layers import MultiHead
from regard.models.transformer import (
    BASE,
    BIG,
    TINY,
    Attention,
    Factors,
    Transformer,
    TransformerConfig,
)

B, S, T, V, E, H = 3, 5, 4, 23, 12, 3
SMALL = TransformerConfig(
    vocabulary=V, width=E, heads=H, layers=2, feed_forward_width=7, dropout=0.0, reach=2
)
FACTORS = Attention("factors")
NO_CONTENT = Attention("factors", Factors(query_key=False))


def everywhere(attention: Attention) -> TransformerConfig:
    return replace(SMALL, encoder=attention, decoder=attention, cross=attention)


KINDS = {
    "after": SMALL,
    "before": replace(SMALL, norm="before"),
    "learned": replace(SMALL, positions="learned", context=9),
    "relative": replace(SMALL, positions="relative"),
    "none": replace(SMALL, positions="none", tied=False),
    "dot": everywhere(Attention("dot")),
    "additive": everywhere(Attention("additive")),
    "cosine": everywhere(Attention("cosine")),
    "general": everywhere(Attention("general")),
    "factors": everywhere(FACTORS),
    "no content": everywhere(NO_CONTENT),
    "mixed": replace(SMALL, encoder=NO_CONTENT, decoder=Attention("additive"), cross=FACTORS),
}
every = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS.keys())


def given(config):
    """A model, sources of three lengths, and targets."""
    torch.manual_seed(1)
    tokens, lengths = torch.randint(3, V, (B, S)), torch.tensor([S, 2, 4])
    return Transformer(config).eval(), (tokens, lengths), torch.randint(3, V, (B, T))


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
    assert_close(stepped(model, source, target, size=T + 2), whole)


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


def of_torch(config: TransformerConfig) -> nn.Transformer:
    """PyTorch's Transformer, with norms that are not all alike; ours has none behind the last."""
    kwargs = {"dropout": 0.0, "batch_first": True, "norm_first": config.norm == "before"}
    theirs = nn.Transformer(E, H, config.layers, config.layers, config.feed_forward_width, **kwargs)
    if config.norm == "after":
        theirs.encoder.norm = theirs.decoder.norm = None
    for norm in theirs.modules():
        if isinstance(norm, nn.LayerNorm):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
    return theirs.eval()


def copied(ours: nn.Module, theirs: nn.Module) -> None:
    """PyTorch's weights of a stack of layers, in ours."""
    if theirs.norm is not None:
        ours.norm.load_state_dict(theirs.norm.state_dict())
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        names = {"self_attention": "self_attn", "cross": "multihead_attn"}
        norms = [f"{name}_norm" for name in (*names, "feed_forward") if hasattr(block, name)]
        for name, of in names.items():
            if hasattr(block, name):
                same = MultiHead.from_torch(getattr(layer, of)).state_dict()
                getattr(block, name).load_state_dict(same)
        block.feed_forward.inner.load_state_dict(layer.linear1.state_dict())
        block.feed_forward.out.load_state_dict(layer.linear2.state_dict())
        for i, name in enumerate(norms, 1):
            getattr(block, name).norm.load_state_dict(getattr(layer, f"norm{i}").state_dict())


@pytest.mark.parametrize("norm", ["before", "after"])
@torch.no_grad()
def test_the_whole_is_that_of_torch(norm):
    model, (tokens, lengths), target = given(KINDS[norm])
    theirs = of_torch(KINDS[norm])
    copied(model.encoder, theirs.encoder)
    copied(model.decoder, theirs.decoder)
    table, padded = model.source.weight, torch.arange(S) >= lengths[:, None]
    x, y = (table[t] * E**0.5 + sinusoidal(t.shape[1], E) for t in (tokens, target))
    ahead = ~torch.ones(T, T).tril().bool()
    masks = {"src_key_padding_mask": padded, "memory_key_padding_mask": padded}
    expected = theirs(x, y, tgt_mask=ahead, **masks) @ table.T
    assert_close(model((tokens, lengths), target), expected)


# The names of Marian's weights, and of ours.
MARIAN = {
    "model.": "",
    "layers.": "blocks.",
    "encoder_attn_layer_norm": "cross_norm.norm",
    "self_attn_layer_norm": "self_attention_norm.norm",
    "final_layer_norm": "feed_forward_norm.norm",
    "self_attn": "self_attention",
    "encoder_attn": "cross",
    "out_proj": "out",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.out",
    "shared": "source",
    "lm_head": "out",
    "encoder.embed_positions.weight": "positions.table",
}


def renamed(name: str) -> str:
    for theirs, ours in MARIAN.items():
        name = name.replace(theirs, ours)
    return name


@torch.no_grad()
def test_the_whole_is_marian_of_hugging_face():
    marian = pytest.importorskip("transformers").MarianMTModel
    sizes = {"d_model": E, "vocab_size": V, "max_position_embeddings": 9, "init_std": 0.5}
    names = {"layers": 2, "attention_heads": H, "ffn_dim": 7}
    halves = {f"{half}_{n}": x for half in ("encoder", "decoder") for n, x in names.items()}
    how = {"scale_embedding": True, "activation_function": "relu", "pad_token_id": 0}
    theirs = marian(marian.config_class(**sizes, **halves, **how)).eval()
    model, (tokens, lengths), target = given(KINDS["learned"])
    state = {renamed(name): x for name, x in theirs.state_dict().items()}
    ours = {name: state.get(name, state["source.weight"]) for name in model.state_dict()}
    model.load_state_dict(ours)
    real = torch.arange(S) < lengths[:, None]
    expected = theirs(input_ids=tokens, attention_mask=real, decoder_input_ids=target).logits
    assert_close(model((tokens, lengths), target), expected)


# What is looked at.


def test_three_attentions_a_layer_are_seen():
    model, source, target = given(SMALL)
    with look(model) as seen:
        model(source, target)
    encoder = [f"encoder.blocks.{i}.self_attention" for i in range(2)]
    names = ("self_attention", "cross")
    decoder = [f"decoder.blocks.{i}.{name}" for i in range(2) for name in names]
    assert seen.names() == encoder + decoder
    weights = seen["decoder.blocks.1.cross"].weights()
    assert weights.shape == (B, H, T, S)
    assert_close(weights.sum(-1), torch.ones(B, H, T))
    assert not weights[1, :, :, 2:].any()


@pytest.mark.parametrize("how", [{}, {"size": T}], ids=["growing", "static"])
@torch.no_grad()
def test_distances_to_the_source_count_from_both_beginnings(how):
    position = Attention("factors", Factors(False, False, False, True))
    model, (tokens, _), target = given(replace(SMALL, cross=position))
    for block in model.decoder.blocks:
        # w · r = D for the key that stands where the query stands, else 0
        block.cross.score.position.fill_(30)
        block.cross.score.distances.zero_()[:, 2] = 30
    with look(model, copy=True) as seen:
        stepped(model, (tokens, torch.full((B,), S)), target, **how)
    diagonal = torch.eye(T, S).expand(B, H, T, S)
    assert_close(seen["decoder.blocks.0.cross"].weights(), diagonal)


def test_keys_of_the_source_are_projected_once_a_sentence():
    model, source, target = given(SMALL)
    calls = []
    model.decoder.blocks[0].cross.key.register_forward_hook(lambda *_: calls.append(1))
    stepped(model, source, target)
    assert len(calls) == 1


@every
def test_beams_of_one_are_greedy_and_go_with_their_state(config):
    model, source, _ = given(config)
    how = {"begin": 1, "end": 2, "longest": 5}
    one, many = greedy(model, source, **how), beam(model, source, width=3, best=3, **how)
    assert torch.equal(beam(model, source, width=1, **how).tokens, one.tokens)
    for i in range(3):  # each hypothesis has the score that the model gives it by itself
        words = many.tokens[:, i]
        fed = torch.cat([torch.ones(B, 1, dtype=torch.int64), words[:, :-1]], 1)
        each = model(source, fed).log_softmax(-1).gather(2, words[..., None])[..., 0]
        counted = torch.arange(words.shape[1]) < many.lengths[:, i, None]
        assert_close((each * counted).sum(1).detach(), many.scores[:, i])


# How it is made.


@pytest.mark.parametrize(
    ("config", "published", "exact"),
    [(BASE, 65e6, 63_082_496), (BIG, 213e6, 214_245_376), (TINY, 2.6e6, 2_605_056)],
    ids=["base", "big", "tiny"],
)
def test_parameters_are_counted_by_hand_and_those_of_the_papers(config, published, exact):
    E, inner, n = config.width, config.feed_forward_width, config.layers
    attention, feed_forward = 4 * (E * E + E), (E * inner + inner) + (inner * E + E)
    norm = 2 * E
    encoder = n * (attention + feed_forward + 2 * norm)
    decoder = n * (2 * attention + feed_forward + 3 * norm)
    with torch.device("meta"):
        counted = sum(p.numel() for p in Transformer(config).parameters())
    assert counted == encoder + decoder + config.vocabulary * E == exact
    assert abs(counted / published - 1) < 0.03


def test_tied_tables_are_one_and_others_three():
    one, three = Transformer(SMALL), Transformer(KINDS["none"])
    assert one.source.weight is one.target.weight is one.out.weight
    assert len({id(m.weight) for m in (three.source, three.target, three.out)}) == 3


def test_weights_begin_where_norms_after_the_layers_train():
    torch.manual_seed(0)
    model = Transformer(replace(SMALL, width=96, feed_forward_width=192))
    block = model.decoder.blocks[0]
    assert model.source.weight.std().item() == pytest.approx(96**-0.5, rel=0.1)
    # Glorot's bound √(6 / (in + out)), and that of a matrix for q, k and v at once
    assert block.feed_forward.inner.weight.abs().max().item() == pytest.approx(
        (6 / 288) ** 0.5, rel=0.01
    )
    assert block.cross.key.weight.abs().max().item() == pytest.approx((6 / 384) ** 0.5, rel=0.01)
    assert not block.self_attention.query.bias.any()


def test_only_norms_before_the_layers_need_one_at_the_end():
    after, before = Transformer(SMALL), Transformer(KINDS["before"])
    for half in ("encoder", "decoder"):
        assert isinstance(getattr(before, half).norm, nn.LayerNorm)
        assert isinstance(getattr(after, half).norm, nn.Identity)


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "feed_forward_dropout"])
def test_dropout_is_for_training(name):
    model, source, target = given(replace(SMALL, **{name: 0.5}))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


def test_learned_positions_end():
    model, source, target = given(KINDS["learned"])
    with pytest.raises(ValueError, match="Learned: 12 tokens, but the context holds 9"):
        model(source, target.repeat(1, 3))
    with pytest.raises(ValueError, match="Learned: 10 tokens, but the context holds 9"):
        stepped(model, source, target.repeat(1, 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": 0}, "Transformer: expected layers of at least 1, got 0"),
        ({"heads": 5}, "Transformer: width 12 does not split into 5 heads"),
        (
            {"feed_forward_dropout": 1.0},
            r"Transformer: expected feed_forward_dropout in \[0, 1\), got 1.0",
        ),
        (
            {"positions": "relative", "decoder": FACTORS},
            "Transformer: relative positions are part of a scaled_dot score, "
            "but decoder.score is 'factors'",
        ),
    ],
    ids=["layers", "heads", "dropout", "relative"],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)


def test_factors_are_for_their_own_score_and_never_none():
    with pytest.raises(ValueError, match="expected score 'factors' where factors are switched off"):
        Attention("dot", Factors(key=False))
    with pytest.raises(ValueError, match="Transformer: expected at least one of the four factors"):
        Attention("factors", Factors(False, False, False, False))


@pytest.mark.parametrize("length", [0, S + 1])
def test_lengths_that_do_not_fit_are_refused(length):
    model, (tokens, _), _ = given(SMALL)
    message = rf"Transformer: expected lengths from 1 to S=5, got .*{length}"
    with pytest.raises(ValueError, match=message):
        model.start((tokens, torch.tensor([S, 2, length])))


def test_wrong_shapes_are_told():
    model, (tokens, lengths), target = given(SMALL)
    with pytest.raises(ValueError, match=r"Transformer: expected source of shape \(B, S\), got"):
        model.start((tokens[0], lengths))
    with pytest.raises(ValueError, match=r"Transformer: expected lengths of shape \(B=3\), got"):
        model((tokens, lengths[:2]), target)
    with pytest.raises(ValueError, match=r"Transformer: expected target of shape \(B=3, T\), got"):
        model((tokens, lengths), target[:1])
