"""Positions as modules: joined to the input, turned into q and k, or a bias."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.functional import positions, rules
from regard.layers import Learned, MultiHead, NoPositions, RelativeBias, Rotary, Sinusoidal
from regard.layers.positions import build_positions

B, Q, E, H = 2, 5, 7, 3


def test_sinusoidal_by_hand():
    out = Sinusoidal(2)(torch.zeros(1, 2, 2), start=1)
    expected = [[math.sin(1), math.cos(1)], [math.sin(2), math.cos(2)]]
    assert_close(out, torch.tensor([expected]))


@pytest.mark.parametrize("layer", [Sinusoidal(E), Learned(11, E)])
def test_parts_are_the_whole(layer):
    x = torch.randn(B, Q, E)
    parts = [layer(x[:, :2]), layer(x[:, 2:], start=2)]
    assert_close(torch.cat(parts, 1), layer(x))


def test_a_table_may_stand_beside_the_tokens():
    x = torch.randn(B, Q, E)
    learned = Learned(11, 3, join=positions.concat_positions)
    out = learned(x)
    assert out.shape == (B, Q, E + 3)
    assert torch.equal(out[..., :E], x)
    assert torch.equal(out[1, :, E:], learned.table[:Q])
    assert Sinusoidal(4, join=positions.concat_positions)(x).shape == (B, Q, E + 4)


def test_learned_positions_may_start_at_a_tensor():
    layer, x = Learned(11, E), torch.randn(B, Q, E)
    assert torch.equal(layer(x, start=torch.tensor(4)), layer(x, start=4))


@pytest.mark.parametrize("layer", [Sinusoidal(E), Learned(11, E), NoPositions()])
def test_each_row_may_start_at_its_own(layer):
    x, starts = torch.randn(B, Q, E), torch.tensor([4, 1])
    rows = [layer(x[i : i + 1], start=int(n)) for i, n in enumerate(starts)]
    assert_close(layer(x, start=starts), torch.cat(rows))


def test_a_table_for_each_row_may_stand_beside_the_tokens():
    x, learned = torch.randn(B, Q, E), Learned(11, 3, join=positions.concat_positions)
    out = learned(x, start=torch.tensor([4, 1]))
    assert torch.equal(out[0, :, E:], learned.table[4:9])
    assert torch.equal(out[1, :, E:], learned.table[1:6])


def test_tokens_without_positions_are_left_alone():
    x = torch.randn(B, Q, E)
    assert NoPositions()(x, start=3) is x


def test_a_name_gives_its_positions():
    kinds = [type(build_positions(name, 11, E)) for name in ("sinusoidal", "learned", "none")]
    assert kinds == [Sinusoidal, Learned, NoPositions]


def test_learned_positions_are_learned_and_saved():
    a, b, x = Learned(11, E), Learned(11, E), torch.randn(B, Q, E)
    b.load_state_dict(a.state_dict())
    a(x).sum().backward()
    assert a.table.grad.any(-1).tolist() == [True] * Q + [False] * 6
    assert torch.equal(a(x), b(x))


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="Learned: 12 tokens, but the context holds 11"):
        Learned(11, E)(torch.randn(B, Q, E), start=7)
    with pytest.raises(ValueError, match="Learned: 13 tokens, but the context holds 11"):
        Learned(11, E)(torch.randn(B, Q, E), start=torch.tensor([2, 8]))


def test_rotary_turns_by_the_position():
    x = torch.tensor([1.0, 0.0]).expand(1, 1, 2, 2)
    turned = Rotary()(x, torch.tensor([0, 2]))
    assert_close(turned, torch.tensor([[[[1.0, 0.0], [math.cos(2), math.sin(2)]]]]))


def test_rotary_knows_both_layouts_of_pairs():
    x = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(1, 1, 1, 4)
    turned = Rotary(layout="half_split")(x, torch.tensor([2]))
    assert_close(turned, torch.tensor([[[[math.cos(2), 0.0, math.sin(2), 0.0]]]]))


def test_rotary_turns_slower_with_a_larger_base():
    x = torch.tensor([0.0, 0.0, 1.0, 0.0]).expand(1, 1, 1, 4)
    turned = Rotary(100.0)(x, torch.tensor([10]))
    # the second of two pairs turns by p / √base
    assert_close(turned, torch.tensor([[[[0.0, 0.0, math.cos(1), math.sin(1)]]]]))


def test_a_relative_bias_begins_at_nothing_and_is_learned():
    bias, layer = RelativeBias(H, buckets=8, max_distance=16), MultiHead(12, H)
    x = torch.randn(B, Q, 12)
    out = layer(x, bias=bias.value())
    assert_close(out, layer(x))
    out.square().sum().backward()
    assert bias.table.grad.any()


@torch.no_grad()
def test_a_relative_bias_is_the_same_step_by_step():
    bias, layer = RelativeBias(H, buckets=6, bidirectional=False, max_distance=5), MultiHead(12, H)
    bias.table.normal_()
    x = torch.randn(B, Q, 12)
    whole = layer(x, rule=rules.causal, bias=bias.value())
    for cache in (layer.start(B), layer.start(B).to_static(8)):
        first, cache = layer.step(x[:, :3], cache, bias=bias.value())
        rest, _ = layer.step(x[:, 3:], cache, bias=bias.value())
        assert_close(torch.cat([first, rest], 1), whole)


def test_positions_beside_the_tokens_are_not_rows_to_be_added():
    assert Sinusoidal(E, join=positions.concat_positions).position_table(Q, torch.zeros(1)) is None
