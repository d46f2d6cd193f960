"""Large negative numbers hide cells of other people's models, and such cells are not forced."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import attend, biases, edit, edits, look
from regard.functional.call import build_call
from regard.looking.number_masks import visible_cells, with_model_mask

B, H, Q, K, D = 2, 3, 5, 7, 4
CAUSAL = torch.ones(Q, K).tril(1).bool()
LOWEST = torch.finfo(torch.float32).min
NUMBERS = [-math.inf, LOWEST, -1e10, -1e9, -1e4]


class Theirs(nn.Module):
    """Attends as `way` does, with a number where a cell may not be seen."""

    def __init__(self, way, number):
        super().__init__()
        self.way, self.mask = way, torch.zeros(Q, K).masked_fill(~CAUSAL, number)

    def forward(self, q, k, v):
        return WAYS[self.way](q, k, v, self.mask.to(q.dtype))


WAYS = {
    "sdpa": F.scaled_dot_product_attention,
    "eager": lambda q, k, v, mask: (q @ k.mT / D**0.5 + mask).softmax(-1) @ v,
    "filled": lambda q, k, v, mask: (
        (q @ k.mT / D**0.5).masked_fill(mask < 0, mask.min().item()).softmax(-1) @ v
    ),
    "with T5's bias": lambda q, k, v, mask: F.scaled_dot_product_attention(
        q, k, v, torch.linspace(-5, 5, H * Q * K).view(H, Q, K).to(q.dtype) + mask
    ),
}


def qkv(dtype=torch.float32):
    return [torch.randn(B, H, n, D, dtype=dtype) for n in (Q, K, K)]


def edited(model, change, given):
    with edit(model, {"Theirs": change}), look(model) as seen:
        model(*given)
    return seen["Theirs"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_model_masks_is_not_forced_and_all_else_is(way, number):
    model, given = Theirs(way, number), qkv()
    found = edited(model, edits.force(1, 4, 0.9), given).weights()
    assert not found[:, :, 1, 4].any()
    found = edited(model, edits.force(1, 2, 0.9), given).weights()
    assert_close(found[:, :, 1, 2], torch.full((B, H), 0.9))


@pytest.mark.parametrize("dtype, number", [
    (torch.float16, -1e4), (torch.float16, -65504), (torch.bfloat16, -1e4),
    (torch.bfloat16, torch.finfo(torch.bfloat16).min), (torch.float64, -1e9),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("way", WAYS)
def test_masks_of_every_dtype_hide(way, dtype, number):
    model, given = Theirs(way, number), qkv(dtype)
    found = edited(model, edits.force(None, 6, 0.9), given).weights()
    assert not found[:, :, :5][..., 6].any()


@pytest.mark.parametrize("way", WAYS)
def test_no_other_edit_knows_of_a_mask_of_numbers(way):
    model, given = Theirs(way, -1e4), qkv()
    with look(model) as seen:
        model(*given)
    before = seen["Theirs"].weights()
    # a row of which only hidden cells are left reads these, as the model would
    change = edits.hide([(0, 0), (0, 1)])
    found = edited(model, change, given).weights()
    assert_close(found[:, :, 1:], before[:, :, 1:])
    assert_close(found[:, :, 0].sum(-1), torch.ones(B, H))
    heated = edited(model, edits.heat(2.0), given).weights()
    assert_close(heated, (before.log() / 2).softmax(-1))


@pytest.mark.parametrize("way", ["sdpa", "eager"])
def test_a_row_of_which_all_is_masked_alike_is_forced_as_the_model_reads_it(way):
    model, given = Theirs(way, LOWEST), qkv()
    model.mask[2] = LOWEST
    found = edited(model, edits.force(2, 4, 0.4), given).weights()
    assert_close(found[:, :, 2, 4], torch.full((B, H), 0.4))


@pytest.mark.parametrize("way", ["sdpa", "eager"])
def test_a_later_edit_knows_what_may_be_seen_and_so_do_rows_of_one_head(way):
    model, given = Theirs(way, -1e9), qkv()
    with edit(model, {"Theirs": edits.heat(2.0)}):
        record = edited(model, edits.chain(edits.heat(1.5), edits.force(None, 4, 0.9)), given)
    found = record.weights()
    assert not found[:, :, :3][..., 4].any()
    assert_close(found[:, :, 3:, 4], torch.full((B, H, 2), 0.9))
    assert_close(record.rows(1, 2, [4, 1]), found[1, 2, [4, 1]])


def test_a_user_s_own_bias_of_ours_hides_by_infinity_alone():
    class Theirs(nn.Module):
        def forward(self, q, k, v):
            return attend(q, k, v, bias=torch.zeros(Q, K).masked_fill(~CAUSAL, -1e9))

    found = edited(Theirs(), edits.force(1, 4, 0.9), qkv()).weights()
    assert_close(found[:, :, 1, 4], torch.full((B, H), 0.9))


def test_a_score_far_below_the_others_is_not_hidden_unless_the_model_put_it_there():
    added, logits = torch.zeros(1, 3), torch.tensor([[0.0, -2e4, 5.0]])
    assert visible_cells(added, logits).all()
    assert visible_cells(logits, logits).tolist() == [[True, False, True]]
    # a product that makes good what was added is read, so it may be seen
    assert visible_cells(logits, torch.tensor([[0.0, 4.0, 5.0]])).all()


def test_numbers_that_are_no_mask_hide_nothing():
    slopes = -0.5 * torch.arange(8192.0)
    assert visible_cells(slopes).all()
    assert visible_cells(torch.tensor([LOWEST, LOWEST])).all()
    assert visible_cells(torch.tensor(-1e9)) is None
    assert visible_cells(torch.zeros(3, 0)) is None


def test_a_call_knows_the_mask_in_its_bias_if_that_is_a_tensor():
    q, k, _ = qkv()
    for bias in (None, biases.alibi(H)):
        call = build_call(q, k, None, bias=bias)
        assert with_model_mask(call) is call
    call = build_call(q, k, None, bias=torch.zeros(Q, K).masked_fill(~CAUSAL, -1e9))
    assert torch.equal(with_model_mask(call).model_mask, CAUSAL)
