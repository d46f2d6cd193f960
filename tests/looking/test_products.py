"""The operands of a product are told apart: queries and keys, parameters, channels."""

import pytest
import torch
from torch import nn

from regard.looking.products import Projection, is_channel_product, product_of

B, H, Q, K, D = 2, 3, 5, 7, 4


@pytest.mark.parametrize("equation", [
    "bhqd,bhkd->bhqk", "bqhd,bkhd->bqhk", "b h q d, b h k d -> b h q k", "bqhd,bkhd->bhqk",
    "bhqd,bkd->bhqk", "hbqd,bhkd->bhqk", "bhdq,bhkd->bhqk", "bhkd,bhqd->bhqk",
])  # fmt: skip
def test_rows_of_an_einsum_are_queries_and_keys(equation):
    sizes = dict(zip("bhqkd", (B, H, Q, K, D), strict=True))
    terms = equation.replace(" ", "").split("->")[0].split(",")
    x, y = (torch.randn([sizes[c] for c in term]) for term in terms)
    product = product_of("einsum", (equation, x, y), {})
    q, k = product.rows()
    assert q.shape[-2:] == (Q, D) and k.shape[-2:] == (K, D)
    out = torch.einsum(equation, x, y)
    torch.testing.assert_close(q @ k.mT, out.transpose(1, 2) if equation.endswith("qhk") else out)


@pytest.mark.parametrize("equation, left, right", [
    ("...qd,...kd->...qk", (B, H), (B, H)), ("...qd,...kd->...qk", (B, H), (H,)),
    ("b...qd,b...kd->b...qk", (B, H), (B, 1)), ("...qd,kd->...qk", (B, H), ()),
])  # fmt: skip
def test_dots_of_an_einsum_are_axes_that_are_not_named(equation, left, right):
    x, y = torch.randn(*left, Q, D), torch.randn(*right, K, D)
    q, k = product_of("einsum", (equation, x, y), {}).rows()
    assert q.shape[-2:] == (Q, D) and k.shape[-2:] == (K, D)
    torch.testing.assert_close(q @ k.mT, torch.einsum(equation, x, y))


@pytest.mark.parametrize("name, given", [
    ("matmul", lambda q, k: ((q, k.mT), {})),
    ("matmul", lambda q, k: ((q,), {"other": k.mT})),
    ("bmm", lambda q, k: ((q[0], k[0].mT), {})),
    ("baddbmm", lambda q, k: ((torch.zeros(1, 1, 1), q[0], k[0].mT), {})),
    ("baddbmm", lambda q, k: ((torch.zeros(1),), {"batch1": q[0], "batch2": k[0].mT})),
    ("addmm", lambda q, k: ((torch.zeros(1), q[0, 0], k[0, 0].mT), {})),
    ("cdist", lambda q, k: ((q, k), {})),
])  # fmt: skip
def test_rows_of_any_product_are_queries_and_keys(name, given):
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    args, kwargs = given(q, k)
    rows = product_of(name, args, kwargs).rows()
    assert [x.shape[-2:] for x in rows] == [(Q, D), (K, D)]


def test_a_product_with_a_parameter_or_with_whole_numbers_is_none():
    q, weight = torch.randn(Q, D), nn.Parameter(torch.randn(K, D))
    for other in (weight, weight.T, torch.ones(D, K).long(), torch.ones(D)):
        assert product_of("matmul", (q, other), {}) is None
    for equation in ("qd->qd", "qd,kd->kq", "qd,kd->q", "qd,kd->qkd"):
        assert (
            equation == "qd,kd->kq"
            or product_of("einsum", (equation, q, torch.randn(K, D)), {}) is None
        )


@pytest.mark.parametrize("N", [D, 5, 9])
def test_a_sum_over_tokens_mixes_channels_and_one_over_features_does_not(N):
    made = torch.randn(B, N, 2 * H * D)
    q, k = made.view(B, N, 2, H, D).permute(2, 0, 3, 1, 4)
    last = Projection(made.shape, -1)
    assert not is_channel_product(product_of("matmul", (q, k.mT), {}), last)
    assert is_channel_product(product_of("matmul", (q.mT, k), {}), last)
    assert not is_channel_product(product_of("matmul", (q.mT, k), {}), None)


@pytest.mark.parametrize("length", [4, 8])
def test_blocks_of_as_many_tokens_as_a_head_has_features_are_tokens(length):
    made = torch.randn(1, 8, 4 * 8)  # LongT5: 8 tokens, 4 heads of 8 features
    q = made.view(1, 8 // length, length, 4, 8)
    product = product_of("einsum", ("...qhd,...khd->...hqk", q, q), {})
    assert not is_channel_product(product, Projection(made.shape, -1), 4)


@pytest.mark.parametrize("shape, expected", [
    ((5, 8), (1, 5)), ((B, 5, 8), (B, 5)), ((B, 8, 3, 3), (B, 8)),
])  # fmt: skip
def test_batches_are_one_of_the_first_two_axes_or_one_alone(shape, expected):
    assert Projection(torch.Size(shape), -1).batch_counts == expected


@pytest.mark.parametrize("side", [2, 3])
def test_a_convolution_has_its_features_first(side):
    made = torch.randn(B, 2 * H * D, side, side)
    q, k = made.view(B, 2, H, D, side * side).unbind(1)
    last = Projection(made.shape, 1)
    assert not is_channel_product(product_of("matmul", (q.mT, k), {}), last)
    assert is_channel_product(product_of("matmul", (q, k.mT), {}), last)
