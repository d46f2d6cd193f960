"""A model that attends by itself, in a product, a softmax and a product, is seen and edited."""

import gc
import math
import operator
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import edit, edits, look, scores, selects
from regard.looking import products, threads

B, H, Q, K, D = 2, 3, 5, 7, 4
causal = torch.ones(Q, K).tril(K - Q).bool()
lowest = torch.finfo(torch.float32).min


def inplace(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores /= math.sqrt(D)
    scores.masked_fill_(~causal, lowest)
    return torch.matmul(torch.softmax(scores, -1), v)


def baddbmm(q, k, v):
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    bias = torch.zeros(1, Q, K).masked_fill(~causal, lowest)
    scores = torch.baddbmm(bias, q, k.mT, alpha=D**-0.5)
    scores = scores.view(B, H, Q, K)
    weights = F.dropout(scores.softmax(-1, dtype=torch.float32), 0.0, True)
    return torch.bmm(weights.view(B * H, Q, K), v).view(B, H, Q, D)


def einsum(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, L, H, D)
    scores = torch.einsum("blhd,bshd->bhls", q, k) / D**0.5
    scores = torch.where(causal, scores, torch.tensor(-torch.inf))
    return torch.einsum("bhls,bshd->bhld", scores.softmax(dim=-1), v)


def einsum_with_dots(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, L, H, D)
    scores = torch.einsum("...qhd,...khd->...hqk", q, k) / D**0.5
    scores = scores.masked_fill(~causal, lowest)
    return torch.einsum("...hqk,...khd->...hqd", scores.softmax(dim=-1), v)


def with_a_floor(q, k, v):
    scores = q @ k.mT * D**-0.5 + torch.zeros(Q, K).masked_fill(~causal, -torch.inf)
    scores = torch.max(scores, torch.tensor(lowest))
    highest = scores.max(-1, keepdim=True).values
    return torch.maximum(scores - highest, torch.tensor(lowest)).softmax(-1) @ v


def transposed(q, k, v):
    """Keys and values with features first, as behind a convolution; the value comes first."""
    k, v = k.mT.contiguous(), v.mT.contiguous()
    scores = (q @ k * D**-0.5) + torch.zeros(Q, K).masked_fill(~causal, -1e9)
    return (v @ scores.softmax(-1).transpose(-2, -1)).mT


def in_a_module(q, k, v):
    return nn.Dropout(0.5).eval()(nn.Softmax(-1)(mask(q @ k.mT * D**-0.5))) @ v


def with_sinks(q, k, v):
    logits = torch.cat([mask(q @ k.mT * D**-0.5), torch.full((B, H, Q, 1), lowest)], -1)
    logits = logits - logits.max(-1, keepdim=True).values
    return F.softmax(logits, dim=-1, dtype=logits.dtype)[..., :-1] @ v


def with_padded_sinks(q, k, v):
    logits = F.pad(mask(q @ k.mT * D**-0.5), (1, 0), value=-1e9)
    return logits.softmax(-1)[..., 1:] @ v


def keys_first(q, k, v):
    scores = (k @ q.mT).transpose(-1, -2) * D**-0.5
    return mask(scores).softmax(-1) @ v


def heads_last(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, L, H, D)
    scores = torch.einsum("bqhd,bkhd->bqhk", q, k) / D**0.5
    weights = scores.masked_fill(~causal[:, None], lowest).softmax(-1)
    return torch.einsum("bqhk,bkhd->bhqd", weights, v)


def baddbmm_of_nothing(q, k, v):
    q, k = q.flatten(0, 1), k.flatten(0, 1)
    empty = torch.full((B * H, Q, K), math.nan)
    scores = torch.baddbmm(empty, q, k.mT, beta=0.0, alpha=D**-0.5)
    return mask(scores.view(B, H, Q, K)).softmax(-1) @ v


def baddbmm_into_its_bias(q, k, v):
    bias = torch.zeros(B * H, Q, K).masked_fill(~causal, lowest)
    scores = bias.baddbmm_(q.flatten(0, 1), k.flatten(0, 1).mT, alpha=D**-0.5)
    return scores.view(B, H, Q, K).softmax(-1) @ v


def relative_first(q, k, v):
    """Scores of distances, which are skewed, come before those of contents."""
    distances = q @ torch.zeros(K, D).mT
    skewed = torch.cat([distances.new_zeros(B, H, Q, 1), distances], -1).view(B, H, K + 1, Q)
    skewed = skewed[:, :, 1:].reshape(B, H, Q, K)
    return mask((skewed + q @ k.mT) * D**-0.5).softmax(-1) @ v


def mask(scores):
    return scores + torch.zeros(Q, K).masked_fill(~causal, lowest)


WAYS = (
    inplace, baddbmm, einsum, einsum_with_dots, with_a_floor, transposed, in_a_module, with_sinks,
    with_padded_sinks, keys_first, heads_last, baddbmm_of_nothing, baddbmm_into_its_bias,
    relative_first,
)  # fmt: skip


class Theirs(nn.Module):
    """Attends in one of these ways."""

    def __init__(self, way, **fields):
        super().__init__()
        self.way = way
        for name, value in fields.items():
            setattr(self, name, value)

    def forward(self, *qkv):
        return self.way(*qkv)


def qkv(**options):
    return [torch.randn(B, H, n, D, **options) for n in (Q, K, K)]


def expected(q, k, *, scale=D**-0.5, rule=causal):
    return (q @ k.mT * scale).masked_fill(~rule, -torch.inf).softmax(-1)


ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@ways
def test_a_look_sees_the_weights_that_ran_and_changes_no_bit(way):
    model, (q, k, v) = Theirs(way), qkv()
    alone = model(q, k, v)
    with look(model) as seen:
        assert torch.equal(model(q, k, v), alone)
    assert seen.names() == ["Theirs"] and len(seen["Theirs"].calls) == 1
    assert seen["Theirs"].why.backend == "torch"
    torch.testing.assert_close(seen["Theirs"].weights(), expected(q, k), atol=1e-6, rtol=0)
    torch.testing.assert_close(seen["Theirs"].rows(1, 2, [4, 0]), expected(q, k)[1, 2, [4, 0]])


@ways
def test_an_ablated_head_reads_zeros_and_the_others_what_they_did(way):
    model, (q, k, v) = Theirs(way), qkv()
    alone = model(q, k, v)
    with edit(model, {"Theirs": edits.ablate(1)}), look(model) as seen:
        out = model(q, k, v)
    assert not out[:, 1].any() and not seen["Theirs"].weights()[:, 1].any()
    torch.testing.assert_close(out[:, [0, 2]], alone[:, [0, 2]])
    assert seen["Theirs"].why.backend == "reference"


@ways
def test_a_hidden_cell_is_one_more_that_is_masked(way):
    model, (q, k, v) = Theirs(way), qkv()
    with edit(model, {"Theirs": edits.hide([(4, 1), (None, 0)])}), look(model) as seen:
        out = model(q, k, v)
    rule = causal.clone()
    rule[4, 1], rule[:, 0] = False, False
    torch.testing.assert_close(seen["Theirs"].weights(), expected(q, k, rule=rule))
    torch.testing.assert_close(out, expected(q, k, rule=rule) @ v)


@ways
def test_another_score_keeps_what_the_model_masks(way):
    model, (q, k, v) = Theirs(way), qkv()
    with edit(model, {"Theirs": edits.score(scores.Dot(0.3))}), look(model) as seen:
        model(q, k, v)
    torch.testing.assert_close(seen["Theirs"].weights(), expected(q, k, scale=0.3))


@ways
def test_a_forced_weight_and_a_select_are_what_is_read(way):
    model, (q, k, v) = Theirs(way), qkv()
    with edit(model, {"Theirs": edits.force(2, 3, 0.9)}), look(model) as seen:
        model(q, k, v)
    torch.testing.assert_close(seen["Theirs"].weights()[:, :, 2, 3], torch.full((B, H), 0.9))
    with edit(model, {"Theirs": edits.select(selects.hard)}):
        out = model(q, k, v)
    best = expected(q, k).argmax(-1)
    torch.testing.assert_close(out, v.gather(2, best[..., None].expand(-1, -1, -1, D)))


def test_what_a_model_adds_to_its_product_stays_where_the_score_is_another():
    bias = torch.randn(H, Q, K)
    model = Theirs(lambda q, k, v: (5 * (q @ k.mT) + bias).softmax(-1) @ v)
    q, k, v = qkv()
    with edit(model, {"Theirs": edits.score(scores.dot)}):
        out = model(q, k, v)
    torch.testing.assert_close(out, (q @ k.mT + bias).softmax(-1) @ v)


@pytest.mark.parametrize("add", [
    lambda scores, bias: bias.clone().add_(scores + bias),
    lambda scores, bias: operator.iadd(bias.clone(), scores + bias),
    lambda scores, bias: torch.empty(B, H, Q, K).copy_(scores + 2 * bias),
    lambda scores, bias: torch.add(scores + bias, bias, out=torch.empty(0)),
], ids=["add_", "iadd", "copy_", "out"])  # fmt: skip
def test_a_model_that_adds_its_scores_into_another_tensor_is_edited_as_any_other(add):
    (q, k, v), bias = qkv(), torch.randn(B, H, Q, K)
    model = Theirs(lambda q, k, v: add(5 * (q @ k.mT), bias).softmax(-1) @ v)
    alone = model(q, k, v)
    with edit(model, {"Theirs": edits.heat(1.0)}):
        torch.testing.assert_close(model(q, k, v), alone)
    with edit(model, {"Theirs": edits.score(scores.dot)}):
        out = model(q, k, v)
    torch.testing.assert_close(out, (q @ k.mT + 2 * bias).softmax(-1) @ v)


WRITES = {
    "slice": lambda scores: scores[..., 2].fill_(-1e9),
    "diagonal": lambda scores: scores.diagonal(dim1=-2, dim2=-1).fill_(-1e9),
    "fill_diagonal": lambda scores: scores[0, 0].fill_diagonal_(-1e9),
    "index": lambda scores: scores.index_fill_(-1, torch.tensor([2]), -1e9),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_another_score_keeps_what_the_model_writes_among_its_own(write):
    def read(scores, v):
        write(scores)
        return scores.softmax(-1) @ v

    model, (q, k, v) = Theirs(lambda q, k, v: read(5 * (q @ k.mT), v)), qkv()
    with edit(model, {"Theirs": edits.score(scores.dot)}):
        out = model(q, k, v)
    torch.testing.assert_close(out, read(q @ k.mT, v))


@pytest.mark.parametrize("write", [
    lambda scores: scores.scatter_(-1, torch.zeros(B, H, Q, 1).long(), -1e9),
    lambda scores: scores[..., 2].zero_(),
], ids=["scatter", "zero"])  # fmt: skip
def test_another_score_is_refused_where_the_model_wrote_into_its_own_unseen(write):
    def way(q, k, v):
        scores = q @ k.mT
        write(scores)
        return (scores + 1).softmax(-1) @ v

    model, given = Theirs(way), qkv()
    words = "expected a model whose queries and keys can be told"
    with pytest.raises(ValueError, match=words), edit(model, {"Theirs": edits.score(scores.dot)}):
        model(*given)


def test_sinks_have_no_column_and_rows_need_not_sum_to_one():
    sinks = torch.randn(H)

    def way(q, k, v):
        logits = torch.cat([q @ k.mT, sinks.view(1, H, 1, 1).expand(B, H, Q, 1)], -1)
        return logits.softmax(-1)[..., :-1] @ v

    model, (q, k, v) = Theirs(way), qkv()
    whole = (q @ k.mT).exp()
    theirs = whole / (whole.sum(-1, keepdim=True) + sinks.exp().view(H, 1, 1))
    with look(model) as seen:
        model(q, k, v)
    torch.testing.assert_close(seen["Theirs"].weights(), theirs)
    with edit(model, {"Theirs": edits.hide([(None, 0)])}):
        out = model(q, k, v)
    whole = whole.clone()
    whole[..., 0] = 0
    theirs = whole / (whole.sum(-1, keepdim=True) + sinks.exp().view(H, 1, 1))
    torch.testing.assert_close(out, theirs @ v)


def batches_outside(x, heads):
    return x.unflatten(-1, (heads, D)).transpose(1, 2).flatten(0, 1)


def heads_outside(x, heads):
    return x.unflatten(-1, (heads, D)).permute(2, 0, 1, 3).contiguous().view(-1, Q, D)


def heads_in_parts(x, heads):
    return torch.cat(x.chunk(heads, 2), 0)


@pytest.mark.parametrize("heads", [H, B])
@pytest.mark.parametrize("merge", [batches_outside, heads_outside, heads_in_parts])
def test_merged_heads_come_apart_where_the_module_says_how_many_it_has(merge, heads):
    class Merged(nn.Module):
        def __init__(self):
            super().__init__()
            self.num_heads, self.proj = heads, nn.Linear(D, heads * D)

        def forward(self, x):
            x = merge(self.proj(x), heads)
            return (x * D**-0.5 @ x.transpose(1, 2)).softmax(-1) @ x

    model, x = Merged(), torch.randn(B, Q, D)
    with look(model) as seen:
        alone = model(x)
    y = model.proj(x).unflatten(-1, (heads, D)).transpose(1, 2)
    expected = (y * D**-0.5 @ y.mT).softmax(-1).detach()
    torch.testing.assert_close(seen["Merged"].weights(), expected)
    with edit(model, {"Merged": edits.score(scores.dot)}):
        torch.testing.assert_close(model(x), alone)
    change = edits.chain(edits.score(scores.Dot(0.3)), edits.ablate(0))
    with edit(model, {"Merged": change}), look(model) as seen:
        model(x)
    expected = (y * D**-0.5 @ y.mT * 0.3).softmax(-1).detach()
    expected[:, 0] = 0
    torch.testing.assert_close(seen["Merged"].weights(), expected)


def heads_in_windows(x, heads):
    """(B, H, windows, L, D)."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2).unflatten(2, (2, -1))


@pytest.mark.parametrize("split, outer", [
    (lambda x, heads: x.unflatten(2, (heads, -1)).permute(2, 0, 1, 3), (1, 0)),
    (heads_in_windows, (0, 2, 1)),
    (lambda x, heads: heads_in_windows(x, heads).transpose(1, 2), (0, 1, 2)),
    (lambda x, heads: x[:, None, :, :4].expand(-1, heads, -1, -1), (0, 1)),
], ids=["heads first", "heads before windows", "windows before heads", "as ever"])  # fmt: skip
@pytest.mark.parametrize("heads", [H, B])
@torch.no_grad()
def test_heads_are_told_from_batches_and_windows_wherever_they_stand(split, outer, heads):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.to_qkv = nn.Linear(12, 36)
            self.num_heads = heads

        def forward(self, x):
            q, k, v = (split(part, heads) for part in self.to_qkv(x).chunk(3, -1))
            return (q @ k.mT).softmax(-1) @ v

    model, x = Model(), torch.randn(B, 8, 12)
    q, k, _ = (split(part, heads) for part in model.to_qkv(x).chunk(3, -1))
    queries, keys = (
        part.permute(*outer, q.dim() - 2, q.dim() - 1).reshape(-1, heads, *q.shape[-2:])
        for part in (q, k)
    )
    with look(model) as seen:
        model(x)
    torch.testing.assert_close(seen["Model"].weights(), (queries @ keys.mT).softmax(-1))
    alone = model(x)
    with edit(model, {"Model": edits.ablate(1)}), look(model) as seen:
        edited = model(x)
    assert not seen["Model"].weights()[:, 1].any() and seen["Model"].weights()[:, 0].all()
    edited, alone = (part.permute(*outer, q.dim() - 2, q.dim() - 1) for part in (edited, alone))
    assert not edited[..., 1, :, :].any() and torch.equal(edited[..., 0, :, :], alone[..., 0, :, :])
    with edit(model, {"Model": edits.score(scores.Dot(2.0))}), look(model) as seen:
        model(x)
    torch.testing.assert_close(seen["Model"].weights(), (queries @ keys.mT * 2).softmax(-1))


@pytest.mark.parametrize("write", [
    lambda weights: F.dropout(weights, 0.5, True, True),
    lambda weights: weights.mul_(2),
    lambda weights: weights.masked_fill_(causal, 0),
    lambda weights: torch.mul(weights, 2, out=weights),
], ids=["dropout", "mul", "masked_fill", "out"])  # fmt: skip
@torch.no_grad()
def test_weights_are_what_the_softmax_gave_also_where_a_model_writes_into_them(write):
    model, (q, k, v) = Theirs(lambda q, k, v: write((q @ k.mT).softmax(-1)) @ v), qkv()
    with look(model) as seen:
        model(q, k, v)
    torch.testing.assert_close(seen["Theirs"].weights(), (q @ k.mT).softmax(-1))


@torch.no_grad()
def test_weights_that_were_written_into_unseen_are_an_error_and_never_shown():
    def way(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        weights.renorm_(1, 0, 0.5)
        return weights @ v

    model, given = Theirs(way), qkv()
    with look(model) as seen:
        model(*given)
    with pytest.raises(ValueError, match="look: the weights were written into before they were"):
        seen["Theirs"].weights()


@torch.no_grad()
def test_a_buffer_with_sinks_beside_the_scores_shows_the_keys_alone():
    def way(q, k, v):
        logits = torch.zeros(B, H, Q, K + 1)
        logits[..., 1:] = q @ k.mT
        logits[..., 0] = 1
        return logits.softmax(-1)[..., 1:] @ v

    model, (q, k, v) = Theirs(way), qkv()
    with look(model) as seen:
        model(q, k, v)
    expected = torch.cat([torch.ones(B, H, Q, 1), q @ k.mT], -1).softmax(-1)[..., 1:]
    torch.testing.assert_close(seen["Theirs"].weights(), expected)


@pytest.mark.parametrize("move", [
    lambda scores: scores.flip(-1),
    lambda scores: scores[..., torch.arange(K - 1, -1, -1)],
    lambda scores: torch.stack(scores.flip(1).unbind(1), 1),
], ids=["flip", "index", "stack"])  # fmt: skip
def test_another_score_is_refused_where_cells_were_moved(move):
    model, given = Theirs(lambda q, k, v: move(q @ k.mT).softmax(-1) @ v), qkv()
    words = "expected a model whose queries and keys can be told"
    with pytest.raises(ValueError, match=words), edit(model, {"Theirs": edits.score(scores.dot)}):
        model(*given)


def test_gradients_flow_through_an_edited_softmax_and_a_look_keeps_no_graph():
    model, given = Theirs(inplace), [x.requires_grad_() for x in qkv()]
    with edit(model, {"Theirs": edits.heat(2.0)}), look(model) as seen:
        out = model(*given)
    found = torch.autograd.grad(out.square().sum(), given)
    q, k, v = given
    half = (expected(q, k, scale=D**-0.5 / 2) @ v).square().sum()
    for ours, theirs in zip(found, torch.autograd.grad(half, given), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not seen["Theirs"].weights().requires_grad


# What is none.


def channels(q, k, v):
    return (q.mT @ k[:, :, :Q]).softmax(-1) @ v[:, :, :Q].mT


class Channels(nn.Module):
    """Attends from channels to channels, as XCiT does."""

    def __init__(self, tokens):
        super().__init__()
        self.qkv, self.tokens = nn.Linear(8, 24), tokens

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 4, 1).unbind(0)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return ((q @ k.mT) * 2).softmax(-1) @ v


@pytest.mark.parametrize("tokens", [4, 7, 8])
@pytest.mark.filterwarnings("ignore:look. ")
def test_a_softmax_over_channels_is_no_attention_from_queries_to_keys(tokens):
    model = Channels(tokens)
    with look(model) as seen:
        model(torch.randn(B, tokens, 8))
    assert seen.names() == []


@pytest.mark.parametrize("way", [
    lambda q, k, v: (k.softmax(2).mT @ v).mT @ q.mT,
    lambda q, k, v: (q @ k.mT).softmax(-1),
    lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
    lambda q, k, v: q.softmax(-1) @ k.mT,
    lambda q, k, v: F.linear(q, torch.randn(6, D)).softmax(-1) @ torch.randn(6, D),
    lambda q, k, v: (q @ nn.Parameter(torch.randn(D, 6))).softmax(-1) @ torch.randn(6, D),
    lambda q, k, v: (q @ k.mT).sum(-1).softmax(-1) @ torch.randn(Q, 3),
    lambda q, k, v: (q @ q.mT).softmax(-1).mT @ v[:, :, :Q],
], ids=[
    "linear", "no values", "over queries", "no product", "a layer", "parameter", "pooled", "turned"
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:look. ")
def test_what_is_no_softmax_of_a_product_that_reads_is_not_taken_for_one(way):
    model, given = Theirs(way), qkv()
    with look(model) as seen:
        model(*given)
    assert seen.names() == []


@pytest.mark.parametrize("part", ["product_of", "is_channel_product"])
@pytest.mark.filterwarnings("ignore:look. ")
def test_what_cannot_be_followed_runs_as_it_is(part, monkeypatch):
    model, given = Theirs(in_a_module), qkv()
    alone = model(*given)

    def fail(*args):
        raise ValueError

    monkeypatch.setattr(products, part, fail)
    with look(model) as seen:
        assert torch.equal(model(*given), alone)
    assert seen.names() == []


@ways
def test_training_under_a_look_keeps_every_bit_of_the_gradient(way):
    model, given = Theirs(way), [x.requires_grad_() for x in qkv()]
    alone = torch.autograd.grad(model(*given).square().sum(), given)
    with look(model):
        found = torch.autograd.grad(model(*given).square().sum(), given)
    assert all(map(torch.equal, found, alone))


@pytest.mark.parametrize(
    "asked", [{}, {"dtype": torch.float32}, {"dtype": torch.bfloat16}], ids=str
)
@pytest.mark.parametrize("casts", [True, False])
def test_an_edited_softmax_has_the_dtype_of_the_model_s_own(asked, casts):
    dtypes = []

    def way(q, k, v):
        weights = (q @ k.mT).softmax(-1, **asked)
        dtypes.append(weights.dtype)
        return weights.to(v.dtype) @ v

    model, given = Theirs(way), [x.bfloat16() for x in qkv()]
    with torch.autocast("cpu", torch.bfloat16, enabled=casts):
        model(*given)
        with edit(model, {"Theirs": edits.ablate(0)}):
            model(*given)
    assert dtypes[0] == dtypes[1]


class Box:
    """No tensor and without a shape, but functions of PyTorch take it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Box()


@pytest.mark.parametrize("form", ["box", "nested"])
@pytest.mark.parametrize("is_edited", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_an_output_without_a_shape_raises_nothing_in_a_model(form, is_edited):
    def way(q, k, v):
        scores = q @ k.mT  # is followed meanwhile
        if form == "box":
            x = F.linear(torch.cat([Box(), Box()]), torch.ones(2, 2))
            x = torch.reshape(torch.matmul(x, x), (2, 2))
            torch.matmul(torch.softmax(torch.add(scores, x), -1), x)
        else:
            x = torch.nested.nested_tensor([torch.randn(3, D), torch.randn(5, D)])
            F.linear(x, torch.ones(6, D))
            F.conv1d(torch.randn(2, D, 5), torch.ones(6, D, 1))
        return scores.softmax(-1) @ v

    model, given = Theirs(way), qkv()
    change = edit(model, {"Theirs": edits.ablate(0)}) if is_edited else nullcontext()
    with change, look(model) as seen:
        model(*given)
    assert seen["Theirs"].sizes == (B, H, Q, K)


@pytest.mark.parametrize("product", [
    torch.linalg.matmul, lambda x, y: torch.inner(x, y.mT),
    lambda x, y: torch.tensordot(x, y, dims=([1], [0])), lambda x, y: torch.tensordot(x, y, 1),
], ids=["linalg", "inner", "tensordot", "tensordot of a number"])  # fmt: skip
def test_a_product_by_another_name_is_one(product):
    def way(q, k, v):
        return product(product(q, k.mT).softmax(-1), v)

    model, (q, k, v) = Theirs(way), (x[0, 0] for x in qkv())
    with look(model) as seen:
        model(q, k, v)
    assert_close(seen["Theirs"].weights()[0, 0], (q @ k.mT).softmax(-1))
    with edit(model, {"Theirs": edits.score(lambda q, k: -torch.cdist(q, k))}):
        assert_close(model(q, k, v), (-torch.cdist(q, k)).softmax(-1) @ v)


def test_scores_are_followed_through_powers_and_as_data():
    def way(q, k, v):
        return (-(torch.cdist(q, k) ** 2)).data.softmax(-1) @ v

    model, given = Theirs(way), qkv()
    with look(model) as seen:
        model(*given)
    assert_close(seen["Theirs"].weights(), (-torch.cdist(*given[:2]).square()).softmax(-1))


def test_heads_behind_the_keys_of_an_einsum_are_heads_once_they_are_moved():
    def way(q, k, v):
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        return torch.einsum("bqhd,bkhd->bqkh", q, k).permute(0, 3, 1, 2).softmax(-1) @ v

    model, (q, k, v) = Theirs(way), qkv()
    with look(model) as seen:
        model(q, k, v)
    assert_close(seen["Theirs"].weights(), (q @ k.mT).softmax(-1))
    with edit(model, {"Theirs": edits.score(lambda q, k: -torch.cdist(q, k))}):
        assert_close(model(q, k, v), (-torch.cdist(q, k)).softmax(-1) @ v)


@pytest.mark.parametrize("moves", [lambda x: x, lambda x: x.flatten(0, 1)], ids=["as is", "flat"])
@pytest.mark.filterwarnings("ignore:look. ")
def test_a_softmax_over_the_heads_of_an_einsum_is_no_attention(moves):
    def way(q, k, v):
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        return moves(torch.einsum("bqhd,bkhd->bqkh", q, k)).softmax(-1) @ v[0, :, :H].mT[0, :H]

    model = Theirs(way)
    with look(model) as seen:
        model(*qkv())
    assert seen.names() == []


# Nothing is left behind.


def test_nothing_is_followed_once_its_tensors_are_gone():
    model, given = Theirs(in_a_module), qkv()
    with look(model):
        model(*given)
        gc.collect()
        assert not threads.current_observers().eager._traces
        kept = given[0] @ given[1].mT
        assert len(threads.current_observers().eager._traces) == 1
        del kept
        assert not threads.current_observers().eager._traces


def test_what_is_kept_is_one_tensor_of_weights():
    model, given = Theirs(inplace), qkv()
    with look(model) as seen:
        model(*given)
    (kept,) = seen["Theirs"].calls
    assert [tuple(tensor.shape) for tensor, _ in kept.tensors] == [(B, H, Q, K)]


@pytest.mark.parametrize("change, words", [
    ("v", "got one of values or dropout"),
    ("q", "got the model's own logits, which are formed already"),
])  # fmt: skip
def test_an_edit_of_what_is_formed_already_is_refused(change, words):
    model, given = Theirs(inplace), qkv()

    def changed(call):
        return replace(call, **{change: 2 * getattr(call, change)})

    with pytest.raises(ValueError, match=words), edit(model, {"Theirs": changed}):
        model(*given)


def test_another_score_is_refused_where_queries_and_keys_cannot_be_told():
    def way(q, k, v):
        logits = torch.zeros(B, H, Q, K)
        logits[:, :, :3] = q[:, :, :3] @ k.mT
        return logits.softmax(-1) @ v

    model, given = Theirs(way), qkv()
    with edit(model, {"Theirs": edits.ablate(0)}):
        assert not model(*given)[:, 0].any()
    words = "expected a model whose queries and keys can be told"
    with pytest.raises(ValueError, match=words), edit(model, {"Theirs": edits.score(scores.dot)}):
        model(*given)
