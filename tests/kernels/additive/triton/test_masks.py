"""A rule inside a kernel shows what the rule shows, and skips no tile that anyone sees into."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard import rules
from regard.functional.rules import bind, dense
from regard.kernels import mask_spec
from regard.kernels.additive.triton.masks import (
    can_share_document,
    masked_scores,
    visible_key_range,
)
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED

B, H = 2, 3
N = 16
SIZES = [(5, 7), (7, 5), (13, 13)]
RULES = {
    "none": lambda Q, K: None,
    "causal": lambda Q, K: rules.causal,
    "window": lambda Q, K: rules.window(2),
    "prefix": lambda Q, K: rules.prefix(3),
    "padding": lambda Q, K: rules.padding(torch.tensor([0, 3])),
    "padding on the left": lambda Q, K: rules.padding(torch.tensor([2, 5]), side="left"),
    "documents": lambda Q, K: rules.documents(torch.arange(K + 2).div(3).int().expand(B, -1)),
    "documents that come back": lambda Q, K: rules.documents(torch.randint(0, 3, (B, K))),
    "mask (B, H, Q, K)": lambda Q, K: torch.rand(B, H, Q, K) < 0.5,
    "mask (H, 1, K)": lambda Q, K: torch.rand(H, 1, K) < 0.5,
    "all of them": lambda Q, K: rules.both(
        rules.causal,
        rules.window(4),
        rules.padding(torch.tensor([4, K])),
        rules.documents(torch.arange(K).div(4).long().expand(B, -1)),
        torch.rand(Q, 1) < 0.8,
    ),
}


@triton.jit
def _show(to_ptr, bias_ptr, limits, strides, sizes, N: tl.constexpr):
    """The bias of every pair, −inf where it is not seen; N × N for each head."""
    b, h = tl.program_id(0), tl.program_id(1)
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    back, ahead, first_ptr, last_ptr, ids_ptr, mask_ptr = limits
    ids_stride, mask_strides, bias_strides = strides
    H, Q, K = sizes
    found = masked_scores(
        tl.zeros([N, N], tl.float32), b, h, i, j, Q, K, back, ahead, first_ptr, last_ptr, ids_ptr,
        ids_stride, mask_ptr, mask_strides, bias_ptr, bias_strides, False,
    )  # fmt: skip
    tl.store(to_ptr + (b * H + h) * N * N + i * N + j, found)


@triton.jit
def _visit(to_ptr, limits, ids_stride, sizes, N: tl.constexpr):
    """Whether a tile of 4 × 4 is gone into, for each row of the batch."""
    b, i, j = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    back, ahead, first_ptr, last_ptr, ids_ptr, _ = limits
    _, Q, K = sizes
    lowest, end = visible_key_range(4 * i, 4, b, Q, K, back, ahead, first_ptr, last_ptr)
    into = (4 * j < end) & (4 * j + 4 > lowest)
    if ids_ptr is not None:
        into &= can_share_document(4 * i, 4 * j, b, Q, K, ids_ptr, ids_stride, 4, 4)
    tl.store(to_ptr + (b * (N // 4) + i) * (N // 4) + j, into.to(tl.int32))


def told(rule, Q, K):
    """A rule as the kernels take it: its limits, and the strides of its ids and of its mask."""
    q, k = torch.empty(B, H, Q, 1), torch.empty(B, H, K, 1)
    found = mask_spec.from_rule(None if rule is None else bind(rule, B, H, Q, K), q, k)
    mask = None if found.mask is None else found.mask.view(torch.uint8)
    strides = (0, 0, 0, 0) if mask is None else mask.expand(B, H, Q, K).stride()
    limits = found.back, found.ahead, found.first, found.last, found.ids, mask
    return limits, 0 if found.ids is None else found.ids.stride(0), strides


def shown_by(rule, Q, K, bias):
    limits, *strides = told(rule, Q, K)
    to = torch.empty(B, H, N, N)
    strides = *strides, bias.expand(B, H, Q, K).stride()
    _show[(B, H)](to, bias, limits, strides, (H, Q, K), N)
    assert (to[:, :, Q:] == -torch.inf).all() and (to[..., K:] == -torch.inf).all()
    return to[:, :, :Q, :K]


def visited(rule, Q, K):
    limits, ids_stride, _ = told(rule, Q, K)
    to = torch.zeros(B, N // 4, N // 4, dtype=torch.int32)
    _visit[(B, (Q + 3) // 4, (K + 3) // 4)](to, limits, ids_stride, (H, Q, K), N)
    return to.bool()


@pytest.mark.parametrize("Q, K", SIZES)
@pytest.mark.parametrize("name", RULES)
def test_what_is_shown_is_what_the_rule_lets_see_plus_its_bias(name, Q, K):
    rule, bias = RULES[name](Q, K), torch.randn(B, 1, Q, K)
    expected = bias.expand(B, H, Q, K)
    if rule is not None:
        expected = expected.masked_fill(~dense(rule, B, H, Q, K), -torch.inf)
    assert torch.equal(shown_by(rule, Q, K, bias), expected)


@pytest.mark.parametrize("Q, K", SIZES)
@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("mask")])
def test_no_tile_is_skipped_that_anyone_sees_into(name, Q, K):
    rule = RULES[name](Q, K)
    seen_into = torch.zeros(B, N, N, dtype=torch.bool)
    seen_into[:, :Q, :K] = True if rule is None else dense(rule, B, H, Q, K).any(1)
    seen_into = seen_into.view(B, N // 4, 4, N // 4, 4).any(4).any(2)
    assert (visited(rule, Q, K) | ~seen_into).all()


def test_tiles_that_nobody_sees_into_are_skipped():
    ids = torch.tensor([0] * 8 + [1] * 8).expand(B, -1)
    found = {
        "causal": visited(rules.causal, 16, 16)[0],
        "window": visited(rules.window(4), 16, 16)[0],
        "padding": visited(rules.padding(torch.tensor([5, 16])), 16, 16)[0],
        "left": visited(rules.padding(torch.tensor([5, 16]), side="left"), 16, 16)[0],
        "documents": visited(rules.documents(ids), 16, 16)[0],
    }
    assert {name: tiles.int().tolist() for name, tiles in found.items()} == {
        "causal": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]],
        "window": [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]],
        "padding": [[1, 1, 0, 0]] * 4,
        "left": [[0, 0, 1, 1]] * 4,
        "documents": [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2,
    }


def test_a_query_before_the_first_key_is_in_no_document():
    rule = rules.documents(torch.zeros(B, 4, dtype=torch.int8))
    assert visited(rule, 12, 4)[0, :3, 0].tolist() == [False, False, True]
