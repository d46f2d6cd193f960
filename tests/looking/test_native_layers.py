"""PyTorch's native encoder layers are seen as they run: natively, and bit for bit unchanged."""

import warnings
from functools import partial

import pytest
import torch
from torch import nn

from regard import edit, edits, look
from regard.layers import MultiHead

B, H, Q, E = 2, 4, 5, 12

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:Converting mask without torch.bool"),
]


@pytest.fixture
def natively(monkeypatch):
    """How often each native operator ran."""
    ran = {"_transformer_encoder_layer_fwd": 0, "_native_multi_head_attention": 0}

    def counted(name, run, *args, **kwargs):
        ran[name] += 1
        return run(*args, **kwargs)

    for name in ran:
        monkeypatch.setattr(torch, name, partial(counted, name, getattr(torch, name)))
    return ran


def encoder(**options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, H, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2).eval()


def padding():
    hidden = torch.zeros(B, Q).bool()
    hidden[1, -2:] = True
    return hidden


def by_hand(layer, x, hidden=None):
    """The weights of a layer by its slow path, asked for by name."""
    x = layer.norm1(x) if layer.norm_first else x
    asked = {"key_padding_mask": hidden, "need_weights": True, "average_attn_weights": False}
    return layer.self_attn(x, x, x, **asked)[1]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("watch", ["the model", "everything", "another model", "an edit"])
@torch.no_grad()
def test_an_encoder_runs_natively_and_keeps_every_bit(watch, norm_first, natively):
    model, x, hidden = encoder(norm_first=norm_first), torch.randn(B, Q, E), padding()
    alone = [model(x), model(x, src_key_padding_mask=hidden)]
    ran = dict(natively)
    assert ran["_transformer_encoder_layer_fwd"] == 4
    watches = {
        "the model": lambda: look(model),
        "everything": look,
        "another model": lambda: look(MultiHead(E, H)),
        "an edit": lambda: edit(MultiHead(E, H), {"MultiHead": edits.ablate(0)}),
    }
    with warnings.catch_warnings(), watches[watch]():
        warnings.simplefilter("error")
        looked = [model(x), model(x, src_key_padding_mask=hidden)]
    assert all(map(torch.equal, alone, looked))
    assert natively == {name: 2 * times for name, times in ran.items()}


@pytest.mark.parametrize("norm_first", [False, True])
@torch.no_grad()
def test_what_a_native_layer_reads_is_seen_exactly(norm_first):
    model, x, hidden = encoder(norm_first=norm_first), torch.randn(B, Q, E), padding()
    with look(model) as seen:
        model(x, src_key_padding_mask=hidden)
    assert seen.names() == ["layers.0.self_attn", "layers.1.self_attn"]
    for layer, name in zip(model.layers, seen.names(), strict=True):
        ours, real = seen[name].weights(), ~hidden[:, None, :, None]
        torch.testing.assert_close(ours * real, by_hand(layer, x, hidden) * real)
        # without norm_first the rows are nested, and what is padding reads nothing
        assert ours[1, :, -2:].any() == norm_first
        x = layer(x, src_key_padding_mask=hidden)


@pytest.mark.parametrize("mask", [None, "2D", "3D"])
@pytest.mark.parametrize("padded", [False, True])
@torch.no_grad()
def test_masks_of_a_native_layer_are_understood(mask, padded, natively):
    layer, x = encoder().layers[0], torch.randn(B, Q, E)
    hidden = padding() if padded else None
    shape = {"2D": (Q, Q), "3D": (B * H, Q, Q)}.get(mask)
    src_mask = None if shape is None else torch.rand(shape) < 0.3
    if src_mask is not None:
        src_mask[..., 0] = False
    with look(layer) as seen:
        layer(x, src_mask=src_mask, src_key_padding_mask=hidden)
    assert natively["_transformer_encoder_layer_fwd"] == 1
    asked = {"need_weights": True, "average_attn_weights": False}
    layer.self_attn.train()  # the slow path, which takes any mask
    layer.self_attn.dropout = 0.0
    _, theirs = layer.self_attn(x, x, x, attn_mask=src_mask, key_padding_mask=hidden, **asked)
    torch.testing.assert_close(seen["self_attn"].weights(), theirs)


@pytest.mark.parametrize("padded", [False, True])
@torch.no_grad()
def test_a_native_multi_head_is_seen_and_keeps_every_bit(padded, natively):
    layer = nn.MultiheadAttention(E, H, batch_first=True).eval()
    x, hidden = torch.randn(B, Q, E), padding() if padded else None
    asked = {"key_padding_mask": hidden, "average_attn_weights": False}
    alone, theirs = layer(x, x, x, **asked)
    with look(layer) as seen:
        out, weights = layer(x, x, x, **asked)
    assert natively["_native_multi_head_attention"] == 2
    assert torch.equal(out, alone) and torch.equal(weights, theirs)
    torch.testing.assert_close(seen["MultiheadAttention"].weights(), theirs)


@torch.no_grad()
def test_nested_rows_of_a_native_layer_are_seen_padded():
    layer, x = encoder().layers[0], torch.randn(B, Q, E)
    rows = torch.nested.nested_tensor([x[0], x[1, :3]])
    alone = layer(rows).to_padded_tensor(0.0)
    with look(layer) as seen:
        assert torch.equal(layer(rows).to_padded_tensor(0.0), alone)
    theirs = by_hand(layer, x[1:, :3])
    torch.testing.assert_close(seen["self_attn"].weights()[1:, :, :3, :3], theirs)


@torch.no_grad()
def test_bare_looks_number_the_layers_of_an_encoder():
    model = encoder()
    with look() as seen:
        model(torch.randn(B, Q, E))
    assert seen.names() == ["attend.0", "attend.1"]


@torch.no_grad()
def test_a_weight_that_a_native_layer_read_may_not_change():
    layer = encoder().layers[0]
    with look(layer) as seen:
        layer(torch.randn(B, Q, E))
    layer.self_attn.in_proj_weight.mul_(2)
    with pytest.raises(RuntimeError, match="has been changed in place since"):
        seen["self_attn"].weights()


@torch.no_grad()
def test_an_edit_of_a_native_layer_is_refused_with_the_way_out():
    model = encoder()
    words = r"nn\.MultiheadAttention attends inside .* regard\.layers\.MultiHead\.from_torch"
    change = {"layers.1.self_attn": edits.ablate(0)}
    with pytest.raises(ValueError, match=words), edit(model, change):
        model(torch.randn(B, Q, E))


def test_an_encoder_whose_hooks_are_the_user_s_own_stays_as_it_was(natively):
    model, x = encoder(), torch.randn(B, Q, E)
    model.layers[0].linear1.register_forward_hook(lambda *given: None)
    with torch.no_grad():
        alone = model(x)
        with look(model) as seen:
            assert torch.equal(model(x), alone)
    assert natively["_transformer_encoder_layer_fwd"] == 2  # the second layer alone
    assert seen.names() == ["layers.0.self_attn", "layers.1.self_attn"]
