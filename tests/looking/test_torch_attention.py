"""Anyone's model can be looked into: bit for bit unchanged, with the weights it used."""

import warnings
import weakref
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.testing import assert_close

from regard import attend, edit, edits, look, selects, weigh
from regard.functional.scores import Dot
from regard.layers import MultiHead
from regard.looking import torch_attention

B, H, Q, K, D, E = 2, 3, 5, 7, 11, 12


def sdpa(*shapes, **options):
    """PyTorch's output with a look open, checked to be the same without, and what was seen."""
    q, k, v = (torch.randn(shape) for shape in shapes)
    alone = F.scaled_dot_product_attention(q, k, v, **options)
    with look() as seen:
        out = F.scaled_dot_product_attention(q, k, v, **options)
    assert torch.equal(out, alone) and seen.names() == ["attend.0"]
    return out, v, seen["attend.0"].weights()


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("mask", [None, "bool", "float"])
def test_inputs_of_every_rank_are_seen(lead, mask):
    seen = torch.rand(*lead, Q, K) < 0.8
    mask = {"bool": seen, "float": torch.randn(*lead, Q, K)}.get(mask)
    out, v, weights = sdpa((*lead, Q, D), (*lead, K, D), (*lead, K, D), attn_mask=mask)
    assert weights.dim() == 4
    read = weights.reshape(*lead, Q, K) @ v
    torch.testing.assert_close(read, out)


class Windowed(nn.Module):
    """Attends inside of windows that stand behind the heads, as timm's Hiera and NesT do."""

    def __init__(self, mask):
        super().__init__()
        self.heads, self.mask = H, mask

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


@pytest.mark.parametrize("mask", [(), (Q, K), (4, 1, K), (B, 1, 4, Q, K), (H, 1, 1, K)], ids=str)
@torch.no_grad()
def test_heads_before_windows_are_heads(mask):
    mask = torch.randn(mask) if mask else None
    q, k, v = (torch.randn(B, H, 4, n, D) for n in (Q, K, K))
    logits = q @ k.mT / D**0.5 + (0 if mask is None else mask)
    expected, model = logits.softmax(-1), Windowed(mask)
    with look(model) as seen:
        alone = model(q, k, v)
    found = seen["Windowed"].weights()
    assert_close(found, expected.transpose(1, 2).flatten(0, 1))
    with edit(model, {"Windowed": edits.ablate(1)}):
        edited = model(q, k, v)
    assert not edited[:, 1].any()
    assert_close(edited[:, [0, 2]], alone[:, [0, 2]])


@pytest.mark.parametrize("shape", [(K,), (Q, K), (1, 1, Q, K), (2, 1, 1, 1, K), (5, 1, K)], ids=str)
def test_masks_that_broadcast_are_seen(shape):
    sizes = (2, 3, 5, Q, D), (2, 3, 5, K, D), (2, 3, 5, K, D)
    out, v, weights = sdpa(*sizes, attn_mask=torch.randn(shape))
    torch.testing.assert_close(weights.reshape(2, 3, 5, Q, K) @ v, out)


@pytest.mark.parametrize("Q, K", [(5, 7), (7, 5), (5, 5)])
def test_pytorch_s_causal_mask_is_aligned_to_the_upper_left(Q, K):
    out, v, weights = sdpa((B, H, Q, D), (B, H, K, D), (B, H, K, D), is_causal=True)
    assert weights[..., 0, 1:].eq(0).all()
    torch.testing.assert_close(weights @ v, out)


@pytest.mark.parametrize("marker", [causal_lower_right, causal_upper_left])
def test_a_marker_of_a_causal_mask_is_understood(marker):
    out, v, weights = sdpa((B, H, Q, D), (B, H, K, D), (B, H, K, D), attn_mask=marker(Q, K))
    torch.testing.assert_close(weights @ v, out)


def test_its_scale_and_its_groups_are_understood():
    out, v, weights = sdpa((B, 6, Q, D), (B, 2, K, D), (B, 2, K, D), scale=0.7, enable_gqa=True)
    torch.testing.assert_close(weights @ v.repeat_interleave(3, 1), out)


def test_a_call_says_that_pytorch_ran_it():
    with look() as seen:
        F.scaled_dot_product_attention(*torch.randn(3, B, H, Q, D))
    assert seen["attend.0"].why.backend == "torch"


def test_rows_of_pytorch_s_own_are_exact():
    q, k, v = torch.randn(3, B, H, Q, D)
    with look() as seen:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(
        seen["attend.0"].rows(1, 2, [4, 0]), seen["attend.0"].weights()[1, 2, [4, 0]], atol=1e-6
    )


def test_a_kept_tensor_of_pytorch_s_call_may_not_change_either():
    q, k, v = torch.randn(3, B, H, Q, D)
    with look() as seen:
        F.scaled_dot_product_attention(q, k, v)
    k.add_(1)
    with pytest.raises(RuntimeError, match="has been changed in place since"):
        seen["attend.0"].weights()


def test_a_look_keeps_no_graph_of_a_mask_alive():
    q, mask = torch.randn(1, 2, 3, 4), torch.randn(3, 3, requires_grad=True) * 2
    there = weakref.ref(mask)
    with look() as seen:
        F.scaled_dot_product_attention(q, q, q, mask)
        del mask
        assert there() is None and len(seen) == 1


def test_dtypes_that_autocast_let_mix_are_seen():
    q, k, v = torch.randn(3, B, H, Q, D)
    layer, x = nn.MultiheadAttention(E, H), torch.randn(Q, B, E).bfloat16()
    with torch.autocast("cpu", torch.bfloat16), look() as seen:
        F.scaled_dot_product_attention(q, k.bfloat16(), v)
        layer(x, x, x)
    for name in seen:
        total = seen[name].weights().sum(-1)
        torch.testing.assert_close(total, torch.ones(B, H, Q).to(total), atol=0.02, rtol=0.02)


def test_weights_of_an_attention_under_autocast_are_those_it_read():
    q, k, v = torch.randn(3, B, H, Q, D)
    layer, x = nn.MultiheadAttention(E, H, batch_first=True), torch.randn(B, Q, E)
    with torch.autocast("cpu", torch.bfloat16), look() as seen:
        out = F.scaled_dot_product_attention(q, k, v)
        read = layer(x, x, x, average_attn_weights=False)[1]
    bare, own = (seen[name].weights() for name in seen)
    assert bare.dtype == out.dtype and own.dtype == torch.bfloat16
    assert_close(bare.float() @ v, out.float(), atol=2e-2, rtol=2e-2)
    assert_close(own.float(), read.float(), atol=5e-3, rtol=1e-2)


@pytest.mark.parametrize(
    "q, k",
    [
        ((2, 8, Q, D), (2, 1, K, D)),
        ((2, 8, Q, D), (1, 8, K, D)),
        ((2, 8, Q, D), (K, D)),
        ((2, 1, 3, Q, D), (1, 4, 3, K, D)),
        ((1, 2, 5, 3, Q, D), (4, 1, 1, 3, K, D)),
        ((Q, D), (3, K, D)),
    ],
    ids=str,
)
def test_axes_that_broadcast_are_seen_and_edited(q, k):
    out, v, weights = sdpa(q, k, k, is_causal=True)
    torch.testing.assert_close(weights.reshape(*out.shape[:-1], K) @ v, out)
    model, sizes = Theirs(scale=0.7), (torch.randn(q), torch.randn(k), torch.randn(k))
    with edit(model, {"Theirs": edits.score(Dot(0.3))}):
        found = model(*sizes)
    torch.testing.assert_close(found, F.scaled_dot_product_attention(*sizes, scale=0.3))


def rows_of_many_lengths(layout):
    """Nested (B, H, L, D), as long as 3 and 5."""
    if layout is torch.strided:
        return torch.nested.nested_tensor([torch.randn(H, n, D) for n in (3, 5)])
    rows = [torch.randn(n, H, D) for n in (3, 5)]
    return torch.nested.nested_tensor(rows, layout=layout).transpose(1, 2)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_rows_of_many_lengths_are_seen_and_keep_every_bit(layout):
    q, k, v = (rows_of_many_lengths(layout) for _ in range(3))
    if layout is torch.jagged:
        k, v = q * 2, q * 3  # of one structure
    alone = F.scaled_dot_product_attention(q, k, v)
    with look() as seen:
        out = F.scaled_dot_product_attention(q, k, v)
    for row in range(2):
        weights, n = seen["attend.0"].weights()[row], (3, 5)[row]
        assert torch.equal(out.unbind()[row], alone.unbind()[row])
        torch.testing.assert_close(weights[:, :n, :n] @ v.unbind()[row], out.unbind()[row])
        assert not weights[:, n:].any() and not weights[:, :, n:].any()
    model = Theirs()
    words = "edit: expected tensors that are padded, got nested ones"
    with pytest.raises(ValueError, match=words), edit(model, {"Theirs": edits.ablate(0)}):
        model(q, k, v)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("inference", [False, True])
def test_any_call_may_be_copied_and_made_in_inference_mode(copied, inference):
    q = torch.randn(B, H, Q, D)
    with look(copy=copied) as seen, torch.inference_mode(inference):
        for x in (q * 1, torch.nested.nested_tensor([*q])):
            F.scaled_dot_product_attention(x, x, x)
            # inference tensors count no versions, so they are copied, whatever is asked
            x.mul_(2) if (copied or inference) else None
    one, other = (seen[name].weights() for name in seen)
    torch.testing.assert_close(one, other)


BIAS = torch.zeros(Q, Q)  # so that it runs by operators that vmap knows
UNREADABLE = {
    "vmap": (torch.func.vmap(lambda x: F.scaled_dot_product_attention(x, x, x)), "vmap"),
    "ours": (torch.func.vmap(lambda x: attend(x[None], x[None], x[None], bias=BIAS)), "vmap"),
    "fake": (lambda x: Same()(FakeTensorMode().from_tensor(x)).new_ones(1).shape, "are fake"),
}


class Same(nn.Module):
    """Attends to what it is given."""

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("copied", [False, True])
def test_what_cannot_be_read_is_listed_and_says_why_when_it_is_asked(name, copied):
    (run, reason), x = UNREADABLE[name], torch.randn(B, H, Q, D)
    alone = run(x)
    with look(copy=copied) as seen:
        assert torch.equal(torch.as_tensor(run(x)), torch.as_tensor(alone))
    record = seen["attend.0"]
    words = rf"look: expected a call .*that can be read, got one that cannot: .*{reason}"
    for ask in (record.weights, record.entropy, lambda: record.rows(0, 0, 0)):
        with pytest.raises(ValueError, match=words):
            ask()


def test_a_tracer_of_operators_records_nothing_of_a_look():
    x = torch.randn(B, H, Q, D)
    for copied in (False, True):
        alone = make_fx(Same())(x).code, make_fx(lambda x: attend(x, x, x, bias=BIAS))(x).code
        with look(copy=copied) as seen:
            traced = make_fx(Same())(x).code, make_fx(lambda x: attend(x, x, x, bias=BIAS))(x).code
        assert traced == alone
        torch.testing.assert_close(seen["attend.0"].weights(), weigh(x, x))


class Eager(nn.Module):
    """Attends by itself."""

    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


def test_no_tracer_records_what_a_look_does_where_a_model_attends_by_itself():
    x, alone = torch.randn(B, H, Q, D), make_fx(Eager())(torch.randn(B, H, Q, D)).code
    with look(model := Eager()) as seen:
        assert make_fx(model)(x).code == alone
    torch.testing.assert_close(seen["Eager"].weights(), (x @ x.mT).softmax(-1))


def test_a_model_is_traced_under_a_look_without_a_warning_of_it():
    x, model = torch.randn(B, H, Q, D), Same()
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        alone = torch.jit.trace(model, (x,), check_trace=False)
        with look(model) as seen:
            traced = torch.jit.trace(model, (x,), check_trace=False)
    assert [n.kind() for n in traced.graph.nodes()] == [n.kind() for n in alone.graph.nodes()]
    torch.testing.assert_close(seen["Same"].weights(), weigh(x, x))


def test_a_call_inside_of_a_gradient_of_torch_func_is_read():
    x = torch.randn(B, H, Q, D)
    with look() as seen:
        torch.func.grad(lambda x: attend(x, x, x).sum() + Same()(x).sum())(x)
    for name in seen:
        torch.testing.assert_close(seen[name].weights(), weigh(x, x))
    assert len(seen) == 2


def test_heads_of_groups_without_a_batch_are_seen():
    q, k, v = torch.randn(6, Q, D), torch.randn(2, K, D), torch.randn(2, K, D)
    model = Theirs(enable_gqa=True)
    with look() as seen:
        out = model(q, k, v)
    read = seen["attend.0"].weights()[:, 0] @ v.repeat_interleave(3, 0)
    torch.testing.assert_close(read, out)
    with edit(model, {"Theirs": edits.heat(1.0)}):
        torch.testing.assert_close(model(q, k, v), out)


@pytest.mark.parametrize("copied", [False, True])
def test_a_reader_that_fails_never_fails_inside_of_a_model(copied, monkeypatch):
    def fails(*args, **kwargs):
        raise ZeroDivisionError("no such mask")

    monkeypatch.setitem(torch_attention.OBSERVED_FUNCTIONS, F.scaled_dot_product_attention, fails)
    model, x = Same(), torch.randn(B, H, Q, D)
    alone = model(x)
    with look(model, copy=copied) as seen:
        assert torch.equal(model(x), alone)
    with pytest.raises(ValueError, match=r"look: expected a call .*: no such mask"):
        seen["Same"].weights()


def test_exported_models_are_seen_by_the_operator_that_they_call():
    x = torch.randn(B, H, Q, D)
    model = torch.export.export(Same(), (x,)).module()
    with look(model) as seen, look() as bare:
        out = model(x)
    torch.testing.assert_close(bare["attend.0"].weights() @ x, out)
    assert torch.equal(seen[type(model).__name__].weights(), bare["attend.0"].weights())


# nn.MultiheadAttention, in all its options.

OPTIONS = {
    "plain": {},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
    "keys of a bias": {"add_bias_kv": True},
    "a key of zeros": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
    "other widths": {"kdim": 5, "vdim": 7},
}


def multi_head(options, *, batch=B, training=True, **asked):
    """The weights `nn.MultiheadAttention` gives out, and those that a look sees without asking."""
    layer = nn.MultiheadAttention(E, H, **options).train(training)
    sizes = [
        (n, *([batch] if batch else []), w) for n, w in [(Q, E), (K, layer.kdim), (K, layer.vdim)]
    ]
    q, k, v = (torch.randn(size) for size in sizes)
    if batch and options.get("batch_first"):
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    _, theirs = layer(q, k, v, need_weights=True, average_attn_weights=False, **asked)
    alone, _ = layer(q, k, v, need_weights=False, **asked)
    with look(layer) as seen:
        out, _ = layer(q, k, v, need_weights=False, **asked)
    assert torch.equal(out, alone) and seen.names() == ["MultiheadAttention"]
    return theirs, seen["MultiheadAttention"].weights()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("mask", ["none", "bool", "float", "bool 3D", "float 3D"])
@pytest.mark.parametrize("padded", ["no", "bool", "float"])
def test_multi_head_is_seen_in_all_its_options(name, mask, padded):
    shape = (B * H, Q, K) if "3D" in mask else (Q, K)
    hidden = torch.rand(shape) < 0.3
    hidden[..., 0] = False
    masks = {"bool": hidden, "float": torch.randn(shape)}
    padding = torch.zeros(B, K).bool()
    padding[1, -2:] = True
    paddings = {"bool": padding, "float": torch.zeros(B, K).masked_fill(padding, -9.0)}
    theirs, ours = multi_head(
        OPTIONS[name], attn_mask=masks.get(mask.split()[0]), key_padding_mask=paddings.get(padded)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("mask", [None, (Q, K), (H, Q, K)], ids=str)
def test_multi_head_without_a_batch_is_seen(mask):
    asked = {} if mask is None else {"attn_mask": torch.randn(mask)}
    theirs, ours = multi_head({}, batch=0, key_padding_mask=torch.zeros(K).bool(), **asked)
    torch.testing.assert_close(ours[0], theirs, atol=1e-5, rtol=1e-4)


def test_asking_multi_head_for_its_weights_is_seen_too():
    layer, x = nn.MultiheadAttention(E, H), torch.randn(Q, B, E)
    with look(layer) as seen:
        _, theirs = layer(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(seen["MultiheadAttention"].weights(), theirs)


def test_an_encoder_in_training_keeps_every_bit():
    layer = nn.TransformerEncoderLayer(E, H, 16, dropout=0.0, batch_first=True)
    x = torch.randn(B, Q, E)
    alone = layer(x)
    with look(layer) as seen:
        assert torch.equal(layer(x), alone)
    assert seen.names() == ["self_attn"] and seen["self_attn"].weights().shape == (B, H, Q, Q)


# Hugging Face, random weights.


def hugging_face(kind):
    """A tiny model, what it is called with, and the names of its attention."""
    transformers = pytest.importorskip("transformers")
    small = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12}
    torch.manual_seed(0)
    if kind == "bert":
        config = transformers.BertConfig(intermediate_size=16, vocab_size=50, **small)
        mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
        asked = {"input_ids": torch.randint(0, 50, (2, 7)), "attention_mask": mask}
        return transformers.BertModel, config, asked
    if kind == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_head=3, n_embd=12, vocab_size=50)
        return transformers.GPT2LMHeadModel, config, {"input_ids": torch.randint(0, 50, (2, 7))}
    config = transformers.ViTConfig(intermediate_size=16, image_size=8, patch_size=4, **small)
    return transformers.ViTModel, config, {"pixel_values": torch.randn(2, 3, 8, 8)}


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_hugging_face_is_looked_into_bit_for_bit_with_its_own_weights(kind):
    build, config, asked = hugging_face(kind)
    fused = build._from_config(config, attn_implementation="sdpa").eval()
    eager = build._from_config(deepcopy(config), attn_implementation="eager").eval()
    eager.load_state_dict(fused.state_dict())
    with torch.no_grad():
        alone, theirs = fused(**asked)[0], eager(**asked, output_attentions=True).attentions
        with look(fused) as seen:
            assert torch.equal(fused(**asked)[0], alone)
    assert len(seen) == len(theirs) == 2
    for name, weights in zip(seen, theirs, strict=True):
        real = weights if kind != "bert" else weights[:, :, :4]
        ours = seen[name].weights()
        torch.testing.assert_close(ours[:, :, : real.shape[2]], real, atol=1e-5, rtol=1e-4)


def test_gpt2_generates_the_same_and_its_steps_join():
    build, config, asked = hugging_face("gpt2")
    model = build._from_config(config, attn_implementation="sdpa").eval()
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    alone = model.generate(**asked, **options)
    with look(model) as seen:
        assert torch.equal(model.generate(**asked, **options), alone)
    whole = model(alone[:, :-1])  # the same tokens at once
    with look(model) as at_once:
        assert torch.equal(model(alone[:, :-1]).logits, whole.logits)
    assert seen.names() == at_once.names()
    for name in seen:
        torch.testing.assert_close(
            seen[name].weights(), at_once[name].weights(), atol=1e-5, rtol=1e-4
        )


# Edited: a call of PyTorch's own runs as one of ours.


class Theirs(nn.Module):
    """A model that attends in PyTorch's words."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 3, 5)], ids=str)
def test_an_edit_of_any_rank_is_that_of_its_weights(lead):
    model = Theirs(is_causal=True, scale=0.7)
    q, k, v = (torch.randn(*lead, n, D) for n in (Q, K, K))
    with edit(model, {"Theirs": edits.hide([(None, 0)])}), look() as seen:
        out = model(q, k, v)
    mask = torch.ones(Q, K).tril().bool() & (torch.arange(K) > 0)
    whole = F.scaled_dot_product_attention(q, k, v, mask, scale=0.7).nan_to_num()
    torch.testing.assert_close(out, whole)
    torch.testing.assert_close(seen["attend.0"].weights().view(*lead, Q, K) @ v, out)


def test_an_edit_is_computed_on_the_reference_with_groups_and_masks():
    q, k, v = torch.randn(B, 6, Q, D), torch.randn(1, 2, K, D), torch.randn(1, 2, K, D)
    bias = torch.randn(Q, K)
    model = Theirs(attn_mask=bias, enable_gqa=True)
    with edit(model, {"Theirs": edits.heat(2.0)}), look(model) as seen:
        out = model(q, k, v)
    half = F.scaled_dot_product_attention(q / 2, k, v, bias / 2, enable_gqa=True)
    torch.testing.assert_close(out, half)
    assert seen["Theirs"].why.backend == "reference"


def test_an_edit_that_changes_nothing_leaves_the_call_to_pytorch():
    model, qkv = Theirs(), torch.randn(3, B, H, Q, D)
    alone = model(*qkv)
    with edit(model, {"Theirs": edits.ablate()}), look(model) as seen:
        assert torch.equal(model(*qkv), alone)
    assert seen["Theirs"].why.backend == "torch"


def test_dropout_is_kept_where_a_call_is_edited():
    model, qkv = Theirs(dropout_p=0.5), torch.ones(3, B, H, 101, D)
    with edit(model, {"Theirs": edits.ablate(0)}):
        out = model(*qkv)
    assert not out[:, 0].any()
    assert out[:, 1:].unique().numel() > 10 and abs(out[:, 1:].mean().item() - 1) < 0.05


def test_gradients_flow_through_an_edited_call():
    model, qkv = Theirs(), [torch.randn(B, H, Q, D).requires_grad_() for _ in range(3)]
    with edit(model, {"Theirs": edits.score(Dot(0.3))}):
        found = torch.autograd.grad(model(*qkv).square().sum(), qkv)
    scaled = F.scaled_dot_product_attention(*qkv, scale=0.3)
    for ours, theirs in zip(found, torch.autograd.grad(scaled.square().sum(), qkv), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_draw_that_an_edit_makes_is_the_one_that_is_seen():
    model, (q, k, v) = Theirs(), torch.randn(3, B, H, Q, D)
    with edit(model, {"Theirs": edits.select(selects.sampled())}), look(model) as seen:
        out = model(q, k, v)
    torch.testing.assert_close(seen["Theirs"].weights() @ v, out)


def test_pytorch_s_multi_head_attention_is_refused_with_the_way_out():
    layer, x = nn.MultiheadAttention(E, H), torch.randn(Q, B, E)
    words = r"nn\.MultiheadAttention attends inside .* regard\.layers\.MultiHead\.from_torch"
    change = {"MultiheadAttention": edits.ablate(0)}
    with pytest.raises(ValueError, match=words), edit(layer, change):
        layer(x, x, x)
    ours, x = MultiHead.from_torch(layer), x.transpose(0, 1)
    with edit(ours, {"MultiHead": edits.ablate(0)}):
        assert ours(x).shape == (B, Q, E)


def test_an_edit_of_another_module_lets_pytorch_s_pass_untouched():
    model = nn.Sequential(
        nn.TransformerEncoderLayer(E, H, 16, 0.0, batch_first=True), MultiHead(E, H)
    )
    x = torch.randn(B, Q, E)
    inner = model[0](x)
    with edit(model, {"1": edits.ablate(0, 1, 2)}), look(model) as seen:
        assert torch.equal(model(x), model[1].out.bias.expand(B, Q, E))
    assert seen.names() == ["0.self_attn", "1"] and torch.equal(model[0](x), inner)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
@torch.no_grad()
def test_an_ablated_head_of_hugging_face_is_a_slice_of_zeros(kind):
    build, config, asked = hugging_face(kind)
    model = build._from_config(config, attn_implementation="sdpa").eval()
    alone = model(**asked)[0]
    with look(model) as seen:
        model(**asked)
    name = seen.names()[1]
    with edit(model, {name: edits.ablate(1)}):
        found = model(**asked)[0]
    model.get_submodule(OUT[kind].format(name)).register_forward_pre_hook(without_head_1)
    torch.testing.assert_close(found, model(**asked)[0])
    assert not torch.allclose(found, alone, atol=1e-5)


# Where each projects what its heads have read.
OUT = {
    "bert": "encoder.layer.1.attention.output.dense",
    "gpt2": "{}.c_proj",
    "vit": "{}.o_proj",
}


def without_head_1(module, args):
    read = args[0].unflatten(-1, (3, 4)).clone()
    read[..., 1, :] = 0
    return (read.flatten(-2), *args[1:])


def test_a_model_that_hides_its_attention_is_not_edited_in_silence():
    class Hidden(nn.Module):
        def forward(self, q, k, v):
            weights = (q @ k.mT).exp()
            return weights / weights.sum(-1, keepdim=True) @ v

    change = {"Hidden": edits.ablate(0)}
    words = r"'Hidden' ran no attention; of this model did none; regard\.look\(model\) says"
    with pytest.raises(ValueError, match=words), edit(model := Hidden(), change):
        model(*torch.randn(3, B, H, Q, D))
