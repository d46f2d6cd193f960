"""Factors of queries and keys: products of exponentials, place by place."""

import math

import pytest
import torch

pytest.importorskip("triton")

from regard.kernels.additive.launch import _pack_factors
from regard.kernels.additive.plan import plan_call
from regard.kernels.mask_spec import MaskSpec
from tests.kernels.calls import INTERPRETED, QUIET, inputs, small

pytestmark = [QUIET, INTERPRETED]

B, H, T, D = 2, 2, 17, 8  # two tiles of 16 rows, and four groups of three dimensions
GROUPS, TILES = 4, 2
HALF, HALF16 = torch.bfloat16, torch.float16


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


@pytest.fixture(params=[HALF], ids=str)
def made(request):
    """Rows of queries, of keys and a vector, and the factors of both."""
    q, k, v, vector = inputs(B, H, T, T, D, dtype=request.param)
    call = plan_call(q, k, v, None, vector, MaskSpec(), None)
    return q, k, vector, *(_pack_factors(*call, x, 16, x is q) for x in (q, k))


def products(x):
    """e^{2x} of three dimensions, multiplied in all eight ways: (B, H, TILES, GROUPS, 16, 8)."""
    padded = torch.zeros(B, H, TILES * 16, GROUPS * 3, dtype=torch.float64)
    padded[:, :, :T, :D] = x
    e = (2 * padded).exp().view(B, H, TILES, 16, GROUPS, 3).transpose(3, 4)
    return torch.stack([e[..., taken(way)].prod(-1) for way in range(8)], -1)


def taken(way):
    """Which of three dimensions the product number `way` multiplies."""
    return [d for d in range(3) if way >> d & 1]


def words(factors):
    """The words of all rows (B, H, TILES, GROUPS, 16, t, 2)."""
    found = factors.words[: B * H * TILES * GROUPS * 128].view(B, H, TILES, GROUPS, 8, 4, 2, 2)
    return found.movedim(6, 4).flatten(4, 5)


@pytest.mark.parametrize("made, near", [(HALF, 2**-11), (HALF16, 2**-20)], indirect=["made"])
def test_words_of_queries_are_the_products(made, near):
    q, _, _, u, _ = made
    torch.testing.assert_close(words(u).flatten(5).double(), products(q), rtol=near, atol=0)


def test_words_are_numbers_of_eleven_bits(made):
    *_, u, w = made
    for factors in (u, w):
        assert (words(factors).contiguous().view(torch.int32) & 0x1FFF == 0).all()


def test_words_of_keys_are_the_products(made):
    _, k, _, _, w = made
    found = words(w).contiguous().view(torch.float32)
    torch.testing.assert_close(found.flatten(5).double(), products(k), rtol=2**-11, atol=0)


@pytest.mark.parametrize("made", [HALF16], indirect=True)
def test_words_of_keys_in_float16_are_the_products_in_two_bfloat16(made):
    _, k, _, _, w = made
    found = words(w).contiguous().view(torch.bfloat16).double()
    found = found.view(B, H, TILES, GROUPS, 16, 4, 2, 2).sum(6).flatten(5)  # high and low
    # two of eight bits hold 16; the interpreter cuts what a card rounds, and loses one
    torch.testing.assert_close(found, products(k), rtol=2**-15, atol=0)


def test_a_product_of_the_numerator_carries_the_vector_over_what_it_leaves_out(made):
    _, _, vector, u, _ = made
    padded = torch.zeros(H, GROUPS * 3, dtype=torch.float64)
    padded[:, :D] = vector
    left = [[d for d in range(3) if d not in taken(way)] for way in range(8)]
    rest = torch.stack([padded.view(H, GROUPS, 3)[..., out].sum(-1) for out in left], -1)
    found = u.beta[: H * GROUPS * 8].view(H, GROUPS, 8).double()
    torch.testing.assert_close(found, rest, rtol=0, atol=1e-6)


def test_bits_are_the_largest_exponent_of_a_tile(made):
    q, k, _, u, w = made
    for x, found in ((q, u.bits), (k, w.bits)):
        padded = torch.zeros(B, H, TILES * 16, GROUPS * 3, dtype=torch.float64)
        padded[:, :, :T, :D] = x.abs()
        of_groups = padded.view(B, H, TILES, 16, GROUPS, 3).sum(-1) * 2 / math.log(2)
        torch.testing.assert_close(
            found.double(), of_groups.amax((3, 4)).flatten(), rtol=1e-6, atol=0
        )


@pytest.mark.parametrize("size, ends", [(256.0, True), (258.0, False), (torch.nan, False)])
def test_queries_of_a_head_whose_vector_is_large_have_no_end_of_bits(size, ends):
    q, k, v, vector = inputs(B, H, T, T, D, dtype=torch.bfloat16)
    vector[1, 3:6] = torch.tensor([size / 2, size / 2, 0])
    call = plan_call(q, k, v, None, vector, MaskSpec(), None)
    bits = _pack_factors(*call, q, 16, True).bits.view(B, H, TILES)
    assert bits[:, 0].isfinite().all() and (bits[:, 1].isfinite() == ends).all()


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf], ids=str)
def test_a_tile_with_a_number_that_is_none_has_no_end_of_bits(odd):
    q, k, v, vector = inputs(B, H, T, T, D, dtype=torch.float16)
    k[1, 0, 16, 7] = odd
    call = plan_call(q, k, v, None, vector, MaskSpec(), None)
    bits = _pack_factors(*call, k, 16, False).bits
    assert bits.isinf().nonzero().tolist() == [[5]]  # row 1, head 0, tile 1


def test_float32_needs_no_factors():
    q, k, v, vector = inputs()
    call = plan_call(q, k, v, None, vector, MaskSpec(), None)
    assert not any(_pack_factors(*call, q, 16, True))
