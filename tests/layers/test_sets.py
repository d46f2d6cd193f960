"""Blocks over sets: no order, no padding, and as sharp among many as among few."""

import math

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.layers.blocks import EncoderBlock
from regard.layers.sets import SCALABLE_SOFTMAX_REFERENCE_POINTS, SetBlock, point_mask

B, N, E = 3, 7, 16
THERE = torch.arange(N) < torch.tensor([7, 4, 2])[:, None]


def block(**how):
    return SetBlock(E, 2, 24, **how).eval()


@pytest.mark.parametrize("norm_position", ["before", "after"])
def test_with_layer_norms_it_is_the_transformers_block(norm_position):
    ours, theirs = block(norm_position=norm_position), EncoderBlock(E, 2, 24, norm=norm_position)
    names = {name: f"{name}.norm" for name in ("self_attention_norm", "feed_forward_norm")}
    state = {}
    for name, weight in ours.state_dict().items():
        part, _, rest = name.partition(".")
        state[f"{names.get(part, part)}.{rest}"] = weight
    theirs.load_state_dict(state)
    x = torch.randn(B, N, E)
    assert_close(ours(x, THERE)[THERE], theirs(x, rule=THERE[:, None, None])[THERE])


@pytest.mark.parametrize("norm", ["layer", "instance", "batch"])
@pytest.mark.parametrize("norm_position", ["before", "after"])
def test_order_and_padding_have_no_meaning(norm, norm_position):
    ours, x = block(norm=norm, norm_position=norm_position), torch.randn(1, 5, E)
    order = torch.randperm(5)
    there = torch.ones(1, 5, dtype=torch.bool)
    assert_close(ours(x[:, order], there), ours(x, there)[:, order])
    padded = torch.cat([x, torch.full((1, 2, E), 9.0)], 1)
    also = torch.tensor([[True] * 5 + [False] * 2])
    assert_close(ours(padded, also)[:, :5], ours(x, there))


def test_scores_grow_with_the_log_of_how_many_there_are():
    ours, plain, x = block(scalable_softmax=True), block(), torch.randn(B, N, E)
    plain.load_state_dict(ours.state_dict())
    with regard.look(ours) as loud:
        ours(x, THERE)
    with regard.look(plain) as quiet:
        plain(x, THERE)
    sharp, usual = (seen["self_attention"].weights()[0, 0].log() for seen in (loud, quiet))
    # a softmax knows scores up to a constant
    sharp, usual = sharp - sharp[:, :1], usual - usual[:, :1]
    assert_close(
        sharp,
        usual * math.log(1 + N) / math.log(1 + SCALABLE_SOFTMAX_REFERENCE_POINTS),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("norm", ["layer", "instance", "batch"])
def test_a_set_that_fills_its_row_needs_no_mask(norm):
    ours, x = block(norm=norm, scalable_softmax=True), torch.randn(B, N, E)
    assert_close(ours(x), ours(x, torch.ones(B, N, dtype=torch.bool)))


def test_who_is_there_is_said_only_where_somebody_is_not():
    assert point_mask(torch.tensor([3, 3]), 3) is None
    assert point_mask(torch.tensor([3, 1]), 3).tolist() == [[True] * 3, [True, False, False]]
