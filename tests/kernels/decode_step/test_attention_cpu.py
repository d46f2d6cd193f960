"""Queries of each row read on a CPU what they read through the door."""

import pytest
import torch
from torch.testing import assert_close

from regard import attend
from regard.kernels.decode_step import attention_cpu

B, H, D = 3, 2, 5


def asked(K, room, *, W=1):
    """Queries, and keys and values at the beginning of some room."""
    q, k, v = torch.randn(B, H, W, D), *torch.randn(2, B, H, room, D)
    return q, k[:, :, :K], v[:, :, :K]


def joined(q, k, v, **options):
    """What the door gives, a row for each query, the heads side by side."""
    return attend(q, k, v, **options).transpose(1, 2).flatten(2).flatten(0, 1)


@pytest.mark.parametrize("W", [1, 4])
@pytest.mark.parametrize(("K", "room"), [(1, 1), (7, 7), (7, 32)])
def test_without_a_bias_they_read_what_attend_reads(K, room, W):
    q, k, v = asked(K, room, W=W)
    assert_close(attention_cpu.attend_few_queries(q * D**-0.5, k, v, None), joined(q, k, v))


@pytest.mark.parametrize("W", [1, 4])
def test_what_a_bias_hides_is_not_read(W):
    q, k, v = asked(4, 9, W=W)
    lengths = torch.tensor([4, 1, 3])[:, None, None, None]
    bias = torch.zeros(()).where(torch.arange(4) < lengths, -torch.inf)  # (B, 1, 1, K)
    assert_close(
        attention_cpu.attend_few_queries(q * D**-0.5, k, v, bias), joined(q, k, v, bias=bias)
    )


def test_keys_may_lie_turned_and_queries_beside_others():
    q, k, v = asked(4, 4, W=3)
    turned, beside = k.mT.contiguous().mT, torch.cat([q, q], 3)[..., :D]
    assert not turned.is_contiguous() and not beside.is_contiguous()
    assert_close(
        attention_cpu.attend_few_queries(beside, turned, v, None),
        attention_cpu.attend_few_queries(q, k, v, None),
    )
