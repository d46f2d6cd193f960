"""One launch finds the largest of each row, in the order of a stable sort, and what they gain."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("triton")

from regard.kernels.decode_step.triton import top_k as kernels
from tests.kernels.calls import INTERPRETED, QUIET

pytestmark = [INTERPRETED, QUIET]

EACH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


def plain(logits, n):
    best, tokens = logits.float().sort(dim=1, descending=True, stable=True)
    gains = logits.float().log_softmax(1).gather(1, tokens).masked_fill(best.isneginf(), -torch.inf)
    return gains[:, :n], tokens[:, :n]


def assert_found(logits, n):
    (gains, tokens), expected = kernels.top_k_log_probs(logits, n), plain(logits, n)
    assert torch.equal(tokens, expected[1])
    assert gains.dtype == torch.float32
    assert_close(gains, expected[0], rtol=1e-5, atol=1e-5, equal_nan=True)


@EACH
@pytest.mark.parametrize("V, n", [(1, 1), (3, 3), (29, 10), (300, 16), (5003, 10), (9001, 2)])
def test_it_finds_the_largest_and_their_log_probabilities(V, n, dtype):
    assert_found(torch.randn(3, V).to(dtype), n)


@pytest.mark.parametrize("numbers, lanes", [(8, 8), (16, 4), (64, 2), (4, 256)])
def test_it_does_not_matter_how_a_row_is_dealt_out(numbers, lanes, monkeypatch):
    monkeypatch.setattr(kernels, "BLOCK_LOGITS", numbers)
    monkeypatch.setattr(kernels, "NUM_LANES", lanes)
    assert_found(torch.randn(3, 43), 7)


def test_the_largest_may_all_stand_in_one_lane():
    logits = torch.randn(2, 5003)
    logits[0, 7 :: kernels.NUM_LANES] += 9
    assert_found(logits, 12)


def test_of_equals_the_first_comes_first():
    logits = torch.zeros(2, 600)
    logits[0, [599, 5, 300, 44]] = 1.0
    logits[1, ::2] = -0.0
    _, tokens = kernels.top_k_log_probs(logits, 5)
    assert tokens.tolist() == [[5, 44, 300, 599, 0], [0, 1, 2, 3, 4]]


def test_numbers_of_all_sizes_keep_their_order():
    sizes = torch.tensor([3e38, 1.0, 1e-38, 1e-45, 0.0, -1e-45, -1e-38, -1.0, -3e38, -torch.inf])
    order = torch.randperm(10)
    _, tokens = kernels.top_k_log_probs(sizes[order][None], 10)
    assert torch.equal(order[tokens[0]], torch.arange(10))


def test_what_is_forbidden_gains_nothing_and_comes_last():
    logits = torch.randn(3, 9)
    logits[0, 2:], logits[1] = -torch.inf, -torch.inf
    gains, tokens = kernels.top_k_log_probs(logits, 4)
    assert gains.isneginf().sum(1).tolist() == [2, 4, 0]
    assert tokens[:2, 2:].tolist() == [[2, 3]] * 2
    assert_found(logits, 4)


@EACH
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_a_row_that_has_no_softmax_gains_nan(poison, dtype):
    logits = torch.randn(3, 700).to(dtype)
    logits[0, 444] = logits[1, 3] = poison
    logits[1, 4:] = -torch.inf
    gains, tokens = kernels.top_k_log_probs(logits, 6)
    assert tokens[:2, 0].tolist() == [444, 3]
    assert gains.isnan().sum(1).tolist() == [6, 4, 0]
    assert_found(logits, 6)


def test_rows_may_lie_apart():
    wide = torch.randn(5, 100)
    assert_found(wide[:, 11:41], 6)
