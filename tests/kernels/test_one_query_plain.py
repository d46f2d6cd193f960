"""One query of each row reads on a CPU what it reads through the door."""

import pytest
import torch
from torch.testing import assert_close

from regard import attend
from regard.kernels import one_query_plain

B, H, D = 3, 2, 5


def asked(K: int, room: int) -> tuple[torch.Tensor, ...]:
    """Queries side by side, and keys and values at the beginning of some room."""
    q, k, v = torch.randn(B, H * D), *torch.randn(2, B, H, room, D)
    return q, k[:, :, :K], v[:, :, :K]


@pytest.mark.parametrize(("K", "room"), [(1, 1), (7, 7), (7, 32)])
def test_without_a_bias_it_reads_what_attend_reads(K, room):
    q, k, v = asked(K, room)
    expected = attend(q.view(B, H, 1, D), k, v).flatten(1)
    assert_close(one_query_plain.read(q, k, v, None), expected)


def test_what_a_bias_hides_is_not_read():
    q, k, v = asked(4, 9)
    lengths = torch.tensor([4, 1, 3])[:, None, None, None]
    bias = torch.zeros(()).where(torch.arange(4) < lengths, -torch.inf)  # (B, 1, 1, K)
    expected = attend(q.view(B, H, 1, D), k, v, bias=bias).flatten(1)
    assert_close(one_query_plain.read(q, k, v, bias), expected)


def test_a_slice_of_what_was_projected_together_will_do():
    q, k, v = asked(4, 4)
    beside = torch.cat([q, q], 1)[:, : H * D]
    assert not beside.is_contiguous()
    assert_close(one_query_plain.read(beside, k, v, None), one_query_plain.read(q, k, v, None))
