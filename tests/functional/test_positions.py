"""Where tokens stand: by hand, by law, and against an independent loop and Hugging Face."""

import math

import pytest
import torch

from regard.functional.positions import (
    add_positions,
    check_layout,
    concat_positions,
    distances,
    position_range,
    rotary,
    sinusoidal,
)

B, H, Q, E, P = 2, 3, 5, 7, 4


def test_sinusoidal_by_hand():
    table = sinusoidal(2, 4)
    assert table[0].tolist() == [0, 1, 0, 1]
    expected = [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    assert table[1].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("width", [1, 7, 12])
def test_sinusoidal_is_the_formula_of_the_paper(width):
    table = sinusoidal(13, width, start=3)
    for p in range(13):
        for i in range(width):
            angle = (p + 3) / 10000 ** (2 * (i // 2) / width)
            wave = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[p, i].item() == pytest.approx(wave, abs=1e-6)


def test_sinusoidal_positions_a_fixed_way_apart_are_turned_alike():
    table = sinusoidal(50, 16).double()
    dots = table @ table.T
    assert torch.allclose(dots.diagonal(3), dots[0, 3], atol=1e-5)


def test_positions_start_where_they_are_told():
    assert torch.equal(sinusoidal(3, E, start=10), sinusoidal(13, E)[10:])


def test_each_row_may_start_at_its_own():
    rows = sinusoidal(3, E, start=torch.tensor([10, 4]))
    assert torch.equal(rows[0], sinusoidal(3, E, start=10))
    assert torch.equal(rows[1], sinusoidal(3, E, start=4))
    assert position_range(2, 3).tolist() == position_range(torch.tensor(2), 3).tolist() == [2, 3, 4]


@pytest.mark.parametrize("length, width", [(-1, 4), (3, 0)])
def test_sinusoidal_refuses_no_width(length, width):
    with pytest.raises(ValueError, match="sinusoidal: expected length >= 0 and width >= 1, got"):
        sinusoidal(length, width)


def test_added_by_hand():
    x, table = torch.ones(1, 2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert add_positions(x, table).tolist() == [[[2, 3], [4, 5]]]


def test_concatenated_keeps_both_sides_whole():
    x, table = torch.randn(B, Q, E), torch.randn(Q, P)
    out = concat_positions(x, table)
    assert out.shape == (B, Q, E + P)
    assert torch.equal(out[..., :E], x) and torch.equal(out[1, :, E:], table)


def test_rotary_by_hand():
    x = torch.tensor([[[[1.0, 0.0]]]])
    turned = rotary(x, torch.tensor([2]))
    assert turned.flatten().tolist() == pytest.approx([math.cos(2), math.sin(2)])


def test_rotary_turns_each_pair_at_its_own_rate():
    x = torch.tensor([[[[1.0, 0.0, 0.0, 1.0]]]])
    turned = rotary(x, torch.tensor([3])).flatten().tolist()
    expected = [math.cos(3), math.sin(3), -math.sin(0.03), math.cos(0.03)]
    assert turned == pytest.approx(expected)


def test_rotary_keeps_lengths():
    x = torch.randn(B, H, Q, 8)
    assert torch.allclose(rotary(x, torch.arange(Q)).norm(dim=-1), x.norm(dim=-1))


def test_rotary_products_depend_on_the_distance_alone():
    q, k = torch.randn(1, 1, 1, 8).double(), torch.randn(1, 1, 1, 8).double()

    def product(at_q, at_k):
        return rotary(q, torch.tensor([at_q])) @ rotary(k, torch.tensor([at_k])).mT

    assert torch.allclose(product(5, 2), product(1005, 1002))
    assert not torch.allclose(product(5, 2), product(5, 3))


def test_rotary_is_hugging_face_s_with_the_pairs_laid_side_by_side():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    x, positions = torch.randn(B, H, Q, 8), torch.arange(3, 3 + Q)
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    angles = torch.cat([angles, angles], -1)[None]  # theirs: first halves, then second halves
    halves = torch.cat([x[..., 0::2], x[..., 1::2]], -1)
    theirs, _ = llama.apply_rotary_pos_emb(halves, halves, angles.cos(), angles.sin())
    ours = rotary(x, positions)
    assert torch.allclose(torch.cat([ours[..., 0::2], ours[..., 1::2]], -1), theirs, atol=1e-5)


def test_rotary_of_split_halves_is_llama_s():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=H * 8, num_attention_heads=H, num_key_value_heads=H)
    q, k = torch.randn(2, B, H, Q, 8)
    places = torch.arange(3, 3 + Q)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, places[None])
    theirs = llama.apply_rotary_pos_emb(q, k, cos, sin)
    for x, turned in zip((q, k), theirs, strict=True):
        ours = rotary(x, places, layout="half_split")
        torch.testing.assert_close(ours, turned, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(rotary(x, places), turned, atol=1e-2)


def test_rotary_refuses_a_layout_it_does_not_know():
    words = "rotary: expected layout as one of interleaved, half_split, got 'halves'"
    with pytest.raises(ValueError, match=words):
        check_layout("rotary", "halves")


def test_rotary_refuses_an_odd_width():
    with pytest.raises(ValueError, match="rotary: expected an even width D, got 7"):
        rotary(torch.randn(B, H, Q, E), torch.arange(Q))


def test_distances_by_hand():
    assert distances(2, 3).tolist() == [[-1, 0, 1], [-2, -1, 0]]
    assert distances(1, 3, positions=torch.tensor([1])).tolist() == [[-1, 0, 1]]


def test_distances_refuse_positions_of_other_queries():
    with pytest.raises(ValueError, match=r"distances: expected positions of shape \(Q=2\), got"):
        distances(2, 3, positions=torch.arange(3))
