"""Whether heads or batches are outside where they became one axis."""

import pytest
import torch

from regard.looking.head_merges import HeadMerges

B, H, L, D = 2, 3, 5, 4


def merged(order, outer):
    x = torch.randn(B, L, H * D).unflatten(-1, (H, D)).permute(order)
    return x, x.reshape(-1, L, D)


@pytest.mark.parametrize("order, is_first", [((0, 2, 1, 3), False), ((2, 0, 1, 3), True)])
def test_the_order_of_merged_axes_is_told_by_their_strides_and_lives_as_long(order, is_first):
    x, out = merged(order, H)
    merges = HeadMerges()
    merges.note("reshape", (x, -1, L, D), out)
    assert merges.is_heads_first([out.transpose(1, 2)], H) == is_first
    assert not merges.is_heads_first([out.clone()], H)
    del out
    assert not merges._entries


def test_parts_that_were_put_one_after_the_other_are_heads_outside():
    merges, parts = HeadMerges(), list(torch.randn(B, L, H * D).chunk(H, 2))
    out = torch.cat(parts, 0)
    merges.note("cat", (parts, 0), out)
    assert merges.is_heads_first([out], H) and not merges.is_heads_first([out], H + 1)
    merges.clear()
    assert not merges.is_heads_first([out], H)
