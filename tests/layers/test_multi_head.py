"""MultiHead is PyTorch's, and one step at a time is the same as all at once."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import attend, look, use_backend
from regard.functional import biases, rules, scores
from regard.layers import (
    AdditiveScore,
    CosineScore,
    GeneralScore,
    LocationScore,
    MultiHead,
    RelativeScore,
    Rotary,
)

B, Q, K, H, D = 2, 5, 7, 3, 4
E = H * D

STEPS = [[1] * K, [3, 1, 3], [K]]
VARIANTS = {
    "plain": {},
    "rotary": {"rotary": Rotary(100.0)},
    "grouped": {"kv_heads": 1, "rotary": Rotary()},
    "relative": {"score": lambda: RelativeScore(H, D, 2)},
    "cosine": {"score": lambda: CosineScore(H, 3.0)},
    "location": {"score": lambda: LocationScore(H, D, 11)},
    "additive": {"score": lambda: AdditiveScore(H, D)},
}


def layer_of(variant: str) -> MultiHead:
    given = VARIANTS[variant]
    return MultiHead(E, H, **{n: v() if n == "score" else v for n, v in given.items()})


def decoded(layer, x, cache, steps, **given):
    """All outputs of a decoder that is given `steps` tokens at a time, and its last cache."""
    outs = []
    for part in x.split(steps, 1):
        out, cache = layer.step(part, cache, **given)
        outs.append(out)
    return torch.cat(outs, 1), cache


def test_one_head_by_hand():
    layer = MultiHead(1, 1, bias=False)
    nn.init.ones_(layer.query.weight)
    nn.init.ones_(layer.key.weight)
    nn.init.constant_(layer.value.weight, 2.0)
    nn.init.constant_(layer.out.weight, 5.0)
    memory = torch.tensor([[[0.0], [math.log(3)]]])
    # the scores are 0 and log 3, the weights 1/4 and 3/4
    out = layer(torch.ones(1, 1, 1), memory)
    assert out.item() == pytest.approx(5 * 2 * 0.75 * math.log(3))


@pytest.mark.parametrize("biased", [True, False])
def test_self_attention_is_that_of_torch(biased):
    theirs = nn.MultiheadAttention(E, H, bias=biased, batch_first=True)
    x = torch.randn(B, Q, E)
    assert_close(MultiHead.from_torch(theirs)(x), theirs(x, x, x)[0])


def test_masks_are_those_of_torch_turned_round():
    theirs = nn.MultiheadAttention(E, H, batch_first=True)
    x, memory, lengths = torch.randn(B, Q, E), torch.randn(B, K, E), torch.tensor([4, 7])
    hidden = torch.rand(Q, K) < 0.4
    hidden[:, 0] = False
    padded = torch.arange(K) >= lengths[:, None]
    expected = theirs(x, memory, memory, attn_mask=hidden, key_padding_mask=padded)[0]
    rule = rules.both(~hidden, rules.padding(lengths))
    assert_close(MultiHead.from_torch(theirs)(x, memory, rule=rule), expected)


def test_a_float_mask_of_torch_is_a_bias():
    theirs = nn.MultiheadAttention(E, H, batch_first=True)
    x, added = torch.randn(B, Q, E), torch.randn(B * H, Q, Q)
    expected = theirs(x, x, x, attn_mask=added)[0]
    ours = MultiHead.from_torch(theirs)(x, bias=added.unflatten(0, (B, H)))
    assert_close(ours, expected)


def test_gradients_are_those_of_torch():
    theirs = nn.MultiheadAttention(E, H, batch_first=True).double()
    ours = MultiHead.from_torch(theirs)
    x = torch.randn(B, Q, E, dtype=torch.float64, requires_grad=True)
    a, b = ours(x, rule=rules.causal), theirs(x, x, x, attn_mask=~torch.ones(Q, Q).tril().bool())[0]
    (of_ours,), (of_theirs,) = (torch.autograd.grad(out.square().sum(), x) for out in (a, b))
    assert_close(of_ours, of_theirs)


def test_a_memory_of_another_width_is_copied_from_torch():
    theirs = nn.MultiheadAttention(E, H, kdim=5, vdim=5, batch_first=True)
    x, memory = torch.randn(B, Q, E), torch.randn(B, K, 5)
    assert_close(MultiHead.from_torch(theirs)(x, memory), theirs(x, memory, memory)[0])


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 5, "vdim": 5}], ids=str)
@pytest.mark.parametrize("graded", [True, False])
def test_what_of_torch_s_is_frozen_stays_frozen(options, graded):
    theirs = nn.MultiheadAttention(E, H, **options)
    theirs.out_proj.requires_grad_(False)
    with torch.set_grad_enabled(graded):  # a view of a parameter is never one without gradients
        learn = {
            name: p.requires_grad for name, p in MultiHead.from_torch(theirs).named_parameters()
        }
        assert learn == {name: not name.startswith("out") for name in learn}
        theirs.requires_grad_(False)
        assert not any(p.requires_grad for p in MultiHead.from_torch(theirs).parameters())


def test_every_parameter_keeps_its_own_dtype():
    theirs = nn.MultiheadAttention(E, H)
    theirs.out_proj.double()
    ours = MultiHead.from_torch(theirs)
    assert ours.query.weight.dtype == torch.float32 and ours.out.weight.dtype == torch.float64
    assert MultiHead.from_torch(theirs.to("meta")).value.bias.is_meta


def test_the_copy_keeps_dtype_mode_and_dropout_and_shares_nothing():
    theirs = nn.MultiheadAttention(E, H, dropout=0.3).double().eval()
    ours = MultiHead.from_torch(theirs)
    assert (ours.query.weight.dtype, ours.training, ours.dropout) == (torch.float64, False, 0.3)
    nn.init.zeros_(theirs.out_proj.weight)
    nn.init.zeros_(theirs.in_proj_weight)
    assert all(ours.state_dict()[name].any() for name in ("query.weight", "out.weight"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"add_bias_kv": True}, "add_bias_kv and add_zero_attn add keys of their own"),
        ({"add_zero_attn": True}, "add_bias_kv and add_zero_attn add keys of their own"),
        ({"kdim": 5, "vdim": 7}, "one memory, got kdim=5 and vdim=7"),
    ],
)
def test_what_cannot_be_copied_is_refused(given, message):
    with pytest.raises(ValueError, match=f"MultiHead.from_torch: .*{message}"):
        MultiHead.from_torch(nn.MultiheadAttention(E, H, **given))


def test_what_is_no_multi_head_attention_is_refused():
    with pytest.raises(TypeError, match=r"expected an nn\.MultiheadAttention, got Linear"):
        MultiHead.from_torch(nn.Linear(E, E))


def test_grouped_heads_are_full_heads_with_repeated_weights():
    heads, kv_heads = 6, 2
    grouped, full = MultiHead(12, heads, kv_heads=kv_heads), MultiHead(12, heads)
    state = grouped.state_dict()
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        by_head = state[name].unflatten(0, (kv_heads, 2))
        state[name] = by_head.repeat_interleave(heads // kv_heads, 0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(B, Q, 12)
    assert_close(grouped(x, rule=rules.causal), full(x, rule=rules.causal))


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_steps_are_one_causal_forward(variant, steps):
    layer, x = layer_of(variant), torch.randn(B, K, E)
    expected = layer(x, rule=rules.causal)
    grown, cache = decoded(layer, x, layer.start(B), steps)
    fixed, static = decoded(layer, x, layer.start(B).to_static(11), steps)
    assert_close(grown, expected)
    assert_close(fixed, expected)
    assert len(cache) == len(static) == K


@pytest.mark.parametrize("static", [False, True])
@torch.no_grad()
def test_steps_know_where_they_stand_for_rules_and_biases(static):
    layer, x = MultiHead(E, H), torch.randn(B, K, E)
    ids = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2], [0] * 11])
    rule = rules.both(rules.either(rules.window(2), rules.prefix(1)), rules.documents(ids))
    bias = biases.alibi(H)
    expected = layer(x, rule=rules.both(rules.causal, rule), bias=bias)
    cache = layer.start(B).to_static(11) if static else layer.start(B)
    assert_close(decoded(layer, x, cache, [3, 1, 1, 2], rule=rule, bias=bias)[0], expected)


def test_gradients_flow_through_a_growing_cache():
    layer, x = MultiHead(E, H).double(), torch.randn(B, K, E, dtype=torch.float64)
    whole, stepped = layer(x, rule=rules.causal), decoded(layer, x, layer.start(B), [3, 4])[0]
    weights = list(layer.parameters())
    expected, found = (torch.autograd.grad(y.square().sum(), weights) for y in (whole, stepped))
    assert_close(found, expected)


def test_keys_projected_once_are_read_like_the_memory():
    layer = MultiHead(E, H, memory_width=5, kv_heads=1)
    x, memory = torch.randn(B, Q, E), torch.randn(B, K, 5)
    keys = layer.keys(memory)
    assert keys.k.shape == keys.v.shape == (B, 1, K, D)
    one_by_one = torch.cat([layer(part, keys) for part in x.split(1, 1)], 1)
    assert_close(one_by_one, layer(x, memory))


def test_general_with_the_identity_is_dot():
    layer = MultiHead(E, H, score=GeneralScore(H, D))
    with torch.no_grad():
        layer.score.weight.copy_(torch.eye(D).expand(H, D, D))
    plain = MultiHead(E, H, score=scores.dot)
    plain.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(B, Q, E)
    assert_close(layer(x), plain(x))


@pytest.mark.parametrize("variant", ["additive", "cosine", "location", "relative"])
def test_swapping_the_score_changes_only_the_score(variant):
    layer, x = layer_of(variant), torch.randn(B, Q, E)
    q, k, v = (
        part(x).unflatten(2, (H, D)).transpose(1, 2)
        for part in (layer.query, layer.key, layer.value)
    )
    with use_backend("reference"):
        read = attend(q, k, v, score=layer.score.value())
    assert_close(layer(x), layer.out(read.transpose(1, 2).flatten(2)))


def test_any_callable_is_a_score():
    x = torch.randn(B, Q, E)
    layer = MultiHead(E, H, score=lambda q, k: q @ k.mT * D**-0.5)
    plain = MultiHead(E, H)
    plain.load_state_dict(layer.state_dict())
    assert_close(layer(x), plain(x))


@pytest.mark.parametrize(
    ("score", "instead"),
    [
        (lambda p: scores.Additive(p[0]), "AdditiveScore"),
        (lambda p: scores.Cosine(p[0, 0, 0]), "CosineScore"),
        (lambda p: scores.General(p), "GeneralScore"),
        (lambda p: scores.Location(p), "LocationScore"),
        (lambda p: scores.Relative(p), "RelativeScore"),
        (lambda p: scores.Factors(position=p[:, :, 0]), "FactorsScore"),
    ],
)
def test_a_parameter_nobody_would_train_is_refused(score, instead):
    given = score(torch.zeros(H, 5, D))
    MultiHead(E, H, score=given)
    (name,) = [n for n, x in vars(given).items() if isinstance(x, torch.Tensor)]
    learned = type(given)(**{name: nn.Parameter(getattr(given, name))})
    with pytest.raises(ValueError, match=f"neither trained nor saved; use layers.{instead}"):
        MultiHead(E, H, score=learned)


def test_a_batch_is_its_rows():
    layer, x, memory = MultiHead(E, H), torch.randn(B, Q, E), torch.randn(B, K, E)
    rows = [layer(x[i : i + 1], memory[i : i + 1]) for i in range(B)]
    assert_close(layer(x, memory), torch.cat(rows))


def test_padding_changes_nothing_not_even_if_it_is_nan():
    layer, x, memory = MultiHead(E, H), torch.randn(B, Q, E), torch.randn(B, K, E)
    more = torch.cat([memory, torch.full((B, 4, E), math.nan)], 1)
    rule = rules.padding(torch.full((B,), K))
    assert_close(layer(x, more, rule=rule), layer(x, memory))


def test_the_future_does_not_leak():
    layer, x = MultiHead(E, H, rotary=Rotary()), torch.randn(B, Q, E)
    changed = x.clone()
    changed[:, 3:] += 1
    before, after = layer(x, rule=rules.causal), layer(changed, rule=rules.causal)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.isclose(before[:, 3:], after[:, 3:]).any()


def test_a_query_that_sees_nothing_gives_the_bias_of_the_output():
    layer, x = MultiHead(E, H), torch.randn(B, Q, E)
    out = layer(x, rule=torch.zeros(1, 1, Q, Q, dtype=torch.bool))
    assert_close(out, layer.out.bias.expand(B, Q, E))
    assert_close(layer(x, x[:, :0]), layer.out.bias.expand(B, Q, E))


def test_rotary_sees_distances_and_not_places():
    layer, x = MultiHead(E, H, rotary=Rotary()).double(), torch.randn(B, K, E).double()
    rule = rules.both(rules.causal, rules.window(2))
    later = torch.cat([torch.randn(B, 3, E).double(), x], 1)
    # from the third token on, all that is seen has only moved
    assert_close(layer(later, rule=rule)[:, 5:], layer(x, rule=rule)[:, 2:])


def test_dropout_is_for_training():
    layer, x = MultiHead(E, H, dropout=0.5), torch.randn(B, Q, E)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_a_learned_score_is_saved_and_loaded():
    a, b = (MultiHead(E, H, score=AdditiveScore(H, D)) for _ in range(2))
    b.load_state_dict(a.state_dict())
    x = torch.randn(B, Q, E)
    assert "score.vector" in a.state_dict()
    assert torch.equal(a(x), b(x))


def test_gradients_are_right():
    layer = MultiHead(6, 3, kv_heads=1, rotary=Rotary()).double()
    x = torch.randn(1, 3, 6, dtype=torch.float64, requires_grad=True)
    inputs = (x, *layer.parameters())

    def run(x, *_):
        return layer(x, rule=rules.causal)

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("static", [False, True])
@torch.no_grad()
def test_a_look_joins_the_steps(static):
    model = nn.ModuleDict({"attention": MultiHead(E, H)})
    layer, x = model["attention"], torch.randn(B, 4, E)
    cache = layer.start(B).to_static(4) if static else layer.start(B)
    with look(model) as whole:
        layer(x, rule=rules.causal)
    with look(model, copy=static) as seen:
        decoded(layer, x, cache, [1, 2, 1])
    assert seen.names() == ["attention"]
    assert_close(seen["attention"].weights(), whole["attention"].weights())


def test_autocast_steps_with_either_cache():
    layer, x = MultiHead(E, H), torch.randn(B, K, E)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = layer(x, rule=rules.causal)
        for cache in (layer.start(B), layer.start(B).to_static(K)):
            out, _ = decoded(layer, x, cache, [3, 4])
            assert_close(out, expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 10, "heads": 3}, "MultiHead: width 10 does not split into 3 heads"),
        ({"width": 10, "heads": 0}, "MultiHead: width 10 does not split into 0 heads"),
        ({"width": 12, "heads": 3, "kv_heads": 2}, "3 heads do not share 2 heads of keys"),
        ({"width": 12, "heads": 3, "dropout": 1.0}, "dropout from 0 up to but not 1, got 1.0"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        MultiHead(**given)


def test_tensors_of_another_shape_are_refused():
    layer = MultiHead(E, H, memory_width=5)
    with pytest.raises(ValueError, match=r"MultiHead: expected x of shape \(B, Q, E=12\), got"):
        layer(torch.zeros(Q, E), torch.zeros(B, K, 5))
    with pytest.raises(ValueError, match=r"MultiHead: expected memory of shape \(B, K, E=5\), got"):
        layer(torch.zeros(B, Q, E))
    with pytest.raises(ValueError, match=r"attend: expected k of shape \(B=2"):
        layer(torch.zeros(B, Q, E), torch.zeros(3, K, 5))


def test_a_step_without_a_cache_is_the_first():
    layer, x = MultiHead(12, 3), torch.randn(2, 5, 12)
    out, cache = layer.step(x)
    first, same = layer.step(x, layer.start(2))
    assert torch.equal(out, first) and len(cache) == len(same) == 5
