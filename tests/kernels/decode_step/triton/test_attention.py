"""One launch gives what append and attend give, whatever the sizes."""

import pytest
import torch

pytest.importorskip("triton")

from regard import attend
from regard.kernels.decode_step.triton import attention as kernels
from regard.layers.caches import Cache
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED

EACH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
# Neither heads nor widths nor slots need be powers of two.
SIZES = pytest.mark.parametrize(("B", "H", "N", "D"), [(1, 1, 1, 1), (2, 3, 7, 5), (3, 2, 33, 16)])
NEAR = {torch.float32: 1e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def near(dtype):
    return {"atol": NEAR[dtype], "rtol": NEAR[dtype]}


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


@EACH
@SIZES
def test_one_launch_gives_what_append_and_attend_give(B, H, N, D, dtype):
    cache = Cache(*torch.empty(2, B, H, 0, D, dtype=dtype)).to_static(N, finite=True)
    ours, length = cache.to_slots(), torch.tensor(0)
    k, v, free = ours.k.clone(), ours.v.clone(), cache.free_slot_bias.clone()
    for _ in range(N):
        new = drawn(B, 3 * H * D, dtype=dtype)
        q, more_k, more_v = new.view(B, 3, H, 1, D).unbind(1)
        cache = cache.append(more_k, more_v)
        expected = attend(q, cache.k, cache.v, bias=cache.bias(None, 1))
        found = kernels.append_and_attend(new, k, v, free, length)
        torch.testing.assert_close(found, expected.flatten(1), **near(dtype))
        assert torch.equal(k, cache.k) and torch.equal(v, cache.v)
        assert torch.equal(free, cache.free_slot_bias)
        length = length + 1


@EACH
@SIZES
def test_one_launch_reads_what_attend_reads(B, H, N, D, dtype):
    q, k, v = drawn(B, H * D, dtype=dtype), *drawn(2, B, H, N, D, dtype=dtype)
    bias = torch.randn(B, 1, 1, N).to(dtype)
    expected = attend(q.view(B, H, 1, D), k, v, bias=bias).flatten(1)
    torch.testing.assert_close(kernels.attend_single_query(q, k, v, bias), expected, **near(dtype))


def test_what_a_bias_hides_may_be_anything_and_who_sees_nothing_reads_zeros():
    q, k, v = drawn(2, 6), *drawn(2, 2, 2, 5, 3)
    bias = torch.zeros(2, 1, 1, 5)
    bias[0, ..., 3:], bias[1] = -torch.inf, -torch.inf
    expected = kernels.attend_single_query(q[:1], k[:1, :, :3], v[:1, :, :3], bias[:1, ..., :3])
    v[0, :, 3:], v[1] = torch.nan, torch.nan
    found = kernels.attend_single_query(q, k, v, bias)
    torch.testing.assert_close(found[:1], expected)
    assert (found[1] == 0).all()


def test_free_slots_may_hold_anything():
    new, k, v = drawn(2, 18), *drawn(2, 2, 2, 5, 3)
    free = torch.tensor([0, 0, -torch.inf, -torch.inf, -torch.inf]).repeat(2, 1, 1, 1)
    clean = kernels.append_and_attend(new, k.clone(), v.clone(), free.clone(), torch.tensor(2))
    k[:, :, 2:], v[:, :, 2:] = torch.nan, torch.nan
    assert torch.equal(kernels.append_and_attend(new, k, v, free, torch.tensor(2)), clean)


def test_what_is_written_counts_as_written():
    k, v, free = *torch.zeros(2, 2, 2, 4, 3).unbind(), torch.zeros(2, 1, 1, 4)
    before = [x._version for x in (k, v, free)]
    kernels.append_and_attend(drawn(2, 18), k, v, free, torch.tensor(0))
    assert all(x._version > n for x, n in zip((k, v, free), before, strict=True))


def test_a_cache_that_is_full_is_left_as_it_is():
    k, v = drawn(2, 2, 2, 4, 3)
    before, free = (k.clone(), v.clone()), torch.zeros(2, 1, 1, 4)
    kernels.append_and_attend(drawn(2, 18), k, v, free, torch.tensor(4))
    assert torch.equal(k, before[0]) and torch.equal(v, before[1]) and (free == 0).all()


@pytest.mark.parametrize("numbers", [16, 64])
def test_blocks_of_keys_do_not_matter(numbers, monkeypatch):
    q, k, v = drawn(2, 6), *drawn(2, 2, 2, 19, 3)
    new, free, length = drawn(2, 18), torch.zeros(2, 1, 1, 19), torch.tensor(17)
    bias = torch.randn(2, 1, 1, 19)
    bias[0, ..., :9] = -torch.inf  # the first blocks hold nothing to see
    grown = lambda: kernels.append_and_attend(new, k.clone(), v.clone(), free, length)  # noqa: E731
    whole = kernels.attend_single_query(q, k, v, bias), grown()
    monkeypatch.setattr(kernels, "BLOCK_ELEMENTS", numbers)
    torch.testing.assert_close((kernels.attend_single_query(q, k, v, bias), grown()), whole)


def test_layout_of_the_keys_does_not_matter():
    q, k, v = drawn(2, 6), *drawn(2, 2, 2, 5, 3)
    bias = torch.zeros(1, 1, 1, 1).expand(2, 1, 1, 5)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v)]
    assert torch.equal(
        kernels.attend_single_query(q, *turned, bias),
        kernels.attend_single_query(q, k, v, bias.contiguous()),
    )
