"""Heads of PyTorch's attention are found where a module merged them with batches."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import edit, edits, look
from regard.looking.head_merges import HeadMerges
from regard.looking.sdpa_heads import HeadHints, with_heads_apart

B, H, L, D = 2, 3, 5, 4


class Theirs(nn.Module):
    """Calls PyTorch's attention, or its own, with heads and batches in one axis."""

    def __init__(self, order, mask=None, heads=H):
        super().__init__()
        self.num_heads, self.order, self.mask = heads, order, mask
        self.qkv = nn.Linear(H * D, 3 * H * D)
        self.is_fused = True

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (H, D)) for y in self.qkv(x).chunk(3, -1))
        q, k, v = (y.permute(self.order).reshape(-1, x.shape[-2], D) for y in (q, k, v))
        if self.is_fused:
            return F.scaled_dot_product_attention(q, k, v, self.mask)
        added = 0 if self.mask is None else self.mask
        return (q @ k.mT * D**-0.5 + added).softmax(-1) @ v


ORDERS = {"batches first": (0, 2, 1, 3), "heads first": (2, 0, 1, 3)}
MASKS = [(), (L, L), (1, L, L), (B * H, L, L), (B * H, 1, L)]


@pytest.mark.parametrize("shape", MASKS, ids=str)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@torch.no_grad()
def test_heads_and_batches_in_one_axis_are_those_of_the_eager_way(order, shape):
    model, x = Theirs(order, torch.randn(shape) if shape else None), torch.randn(B, L, H * D)
    found = []
    for model.is_fused in (True, False):
        with look(model) as seen:
            model(x)
        with edit(model, {"Theirs": edits.chain(edits.ablate(1), edits.hide([(1, 2)]))}):
            found.append((seen["Theirs"].weights(), model(x)))
    (weights, out), (expected, expected_out) = found
    assert weights.shape == (B, H, L, L)
    assert_close(weights, expected)
    assert_close(out, expected_out)


@torch.no_grad()
def test_heads_without_a_batch_are_one_batch_either_way():
    model, x = Theirs((1, 0, 2)), torch.randn(L, H * D)
    for model.is_fused in (True, False):
        with look(model) as seen:
            model(x)
        assert seen["Theirs"].sizes == (1, H, L, L)
        with edit(model, {"Theirs": edits.ablate(1)}):
            assert not model(x)[1].any()


@pytest.mark.parametrize("heads, rows, lengths", [
    (None, B * H, (B, L)), (H, B * H + 1, (B, L)), (H, B * H, (5, L)), (H, H, (H, L)),
], ids=str)  # fmt: skip
def test_batches_that_cannot_be_heads_stay_batches(heads, rows, lengths):
    q = torch.randn(rows, L, D)
    named = {"query": q, "key": q, "value": q}
    assert with_heads_apart(named, HeadHints(heads, lengths, HeadMerges())) is None


def test_heads_of_groups_are_apart_for_each_batch():
    q, k = torch.randn(B * 4, L, D), torch.randn(B * 2, 7, D)
    named = {"query": q, "key": k, "value": k, "enable_gqa": True}
    found, join = with_heads_apart(named, HeadHints(4, (B, L)))
    out = F.scaled_dot_product_attention(**found)
    assert found["key"].shape == (B, 2, 7, D)
    assert_close(join(out), F.scaled_dot_product_attention(**named))


@pytest.mark.parametrize("shapes", [((4, 5), (2, 4, 7)), ((2, 6, 5), (3, 7)), ((6, 5), (3, 7))])
def test_groups_of_any_rank_are_those_of_pytorch(shapes):
    class Plain(nn.Module):
        def forward(self, q, k):
            return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)

    model, (q, k) = Plain(), (torch.randn(*shape, D) for shape in shapes)
    alone = model(q, k)
    with look(model) as seen:
        model(q, k)
    weights = seen["Plain"].weights()
    H = q.shape[-3]
    spread = k.repeat_interleave(H // k.shape[-3], -3)
    assert_close(weights.reshape(*alone.shape[:-1], 7) @ spread, alone)
    with edit(model, {"Plain": edits.hide([(1, 2)])}):
        found = model(q, k)
    assert found.shape == alone.shape
    assert not (found[..., 1, :] == alone[..., 1, :]).any()
