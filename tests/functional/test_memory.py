"""Memory: each equation by hand, and weights that stay weights whatever a head is told."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch.testing import assert_close

from regard import weigh
from regard.functional import memory
from regard.functional.scores import Cosine

B, H, N, W, S = 2, 3, 7, 5, 3
# The strongest and sharpest that a head is told, as far as a dtype goes.
each_dtype = pytest.mark.parametrize(
    ("dtype", "most"), [(torch.float32, 1e6), (torch.float16, 6e4)], ids=["float32", "float16"]
)


def row(*numbers, dtype=torch.float32):
    """One head of one machine, (1, 1, n)."""
    return torch.tensor([[numbers]], dtype=dtype)


def one(number, dtype=torch.float32):
    """A number that one head of one machine is told, (1, 1)."""
    return torch.tensor([[number]], dtype=dtype)


def weights(*shape):
    return torch.rand(*shape).softmax(-1)


def assert_taught(out, *leaves):
    """What comes out, and what each leaf gains of every number of it, is finite."""
    direction = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    for x in (out, *torch.autograd.grad(out, leaves, direction)):
        assert x.isfinite().all()


def test_content_by_hand():
    slots = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    found = memory.content_weights(row(3.0, 0.0), slots, one(math.log(3)))
    assert_close(found, row(0.75, 0.25))


def test_a_strong_key_that_equals_a_slot_finds_it():
    slots = torch.randn(B, N, W)
    found = memory.content_weights(slots[:, 4:5], slots, torch.full((B, 1), 1e4))
    assert_close(found, torch.eye(N)[4].expand(B, 1, N))


def test_no_length_of_a_key_or_a_slot_counts():
    key, slots, strength = torch.randn(B, H, W), torch.randn(B, N, W), torch.rand(B, H)
    longer = memory.content_weights(5 * key, slots * torch.rand(B, N, 1), strength)
    assert_close(longer, memory.content_weights(key, slots, strength))


@each_dtype
def test_a_memory_of_zeros_is_the_same_everywhere(dtype, most):
    key = torch.randn(1, 1, W).to(dtype).requires_grad_()
    strength = one(most, dtype).requires_grad_()
    found = memory.content_weights(key, torch.zeros(1, N, W, dtype=dtype), strength)
    assert_close(found, torch.full_like(found, 1 / N))
    assert_taught(found, key, strength)


def test_a_memory_of_zeros_is_taught_no_nan():
    slots = torch.zeros(1, N, W, requires_grad=True)
    assert_taught(memory.content_weights(torch.randn(1, 1, W), slots, one(1e6)), slots)


@each_dtype
def test_the_strongest_key_teaches_no_nan(dtype, most):
    slots = torch.randn(1, N, W, dtype=dtype, requires_grad=True)
    key = slots[:, 2:3].detach().requires_grad_()
    strength = one(most, dtype).requires_grad_()
    assert_taught(memory.content_weights(key, slots, strength), key, slots, strength)


def test_content_is_what_weigh_gives_for_the_cosine():
    key, slots, strength = torch.randn(B, H, W), torch.randn(B, N, W), 9 * torch.rand(B, H)
    seen = weigh(key[:, :, None], slots[:, None], score=Cosine(strength[:, :, None]))
    assert_close(memory.content_weights(key, slots, strength), seen[:, :, 0])


def test_interpolation_by_hand():
    found = memory.interpolate(row(0.0, 1.0), row(0.5, 0.5), one(0.2))
    assert_close(found, row(0.4, 0.6))


def test_a_closed_gate_stays_and_an_open_one_finds():
    found, before = weights(B, H, N), weights(B, H, N)
    assert_close(memory.interpolate(found, before, torch.zeros(B, H)), before)
    assert_close(memory.interpolate(found, before, torch.ones(B, H)), found)


@pytest.mark.parametrize(
    ("shifts", "after"),
    [
        ((1.0, 0.0, 0.0), (0.1, 0.2, 0.0, 0.7)),
        ((0.0, 1.0, 0.0), (0.7, 0.1, 0.2, 0.0)),
        ((0.0, 0.0, 1.0), (0.0, 0.7, 0.1, 0.2)),
        ((0.5, 0.0, 0.5), (0.05, 0.45, 0.05, 0.45)),
        ((0.0, 0.0, 0.0, 0.0, 1.0), (0.2, 0.0, 0.7, 0.1)),
        ((1.0,), (0.7, 0.1, 0.2, 0.0)),
    ],
)
def test_a_shift_by_hand_wraps_round(shifts, after):
    assert_close(memory.shift(row(0.7, 0.1, 0.2, 0.0), row(*shifts)), row(*after))


def test_shifts_without_a_middle_are_refused():
    message = "shift: expected an odd number of shifts, as many to each side, got 4"
    with pytest.raises(ValueError, match=message):
        memory.shift(torch.rand(B, H, N), torch.rand(B, H, 4))


@pytest.mark.parametrize(
    ("shift", "shares"),
    [(0.7, (0.0, 0.3, 0.7)), (-1.0, (1.0, 0.0, 0.0)), (-0.25, (0.25, 0.75, 0.0))],
)
def test_a_real_shift_is_split_between_its_neighbours(shift, shares):
    assert_close(memory.shift_distribution(one(shift), 3), row(*shares))


def test_a_real_shift_moves_as_far_on_average_as_it_says():
    shift = torch.linspace(-2, 2, 41)[None]
    shares = memory.shift_distribution(shift, 5)
    assert_close(shares.sum(-1), torch.ones(1, 41))
    assert_close(shares @ torch.arange(-2.0, 3), shift)


def test_sharpening_by_hand():
    found = memory.sharpen(row(0.5, 0.25, 0.25), one(2.0))
    assert_close(found, row(2 / 3, 1 / 6, 1 / 6))


def test_a_sharpness_of_one_changes_nothing():
    before = weights(B, H, N)
    assert_close(memory.sharpen(before, torch.ones(B, H)), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("sharpness", [1.0, 1e4])
@pytest.mark.parametrize("places", [(0.0, 1.0, 0.0, 0.0), (0.25, 0.25, 0.25, 0.25)])
def test_the_sharpest_weights_teach_no_nan(dtype, sharpness, places):
    before = row(*places, dtype=dtype).requires_grad_()
    power = one(sharpness, dtype).requires_grad_()
    found = memory.sharpen(before, power)
    assert_close(found, before)
    assert_taught(found, before, power)


def test_what_is_read_by_hand():
    slots = torch.tensor([[[1.0, 10.0], [2.0, 20.0]]])
    assert_close(memory.read_memory(slots, row(0.25, 0.75)), row(1.75, 17.5))


def test_what_is_written_by_hand():
    slots, at = torch.tensor([[[4.0, 4.0], [8.0, 8.0]]]), row(0.5, 0.25)
    after = memory.write_memory(slots, at, erase=row(1.0, 0.5), add=row(2.0, -2.0))
    assert after.tolist() == [[[3.0, 2.0], [6.5, 6.5]]]


def test_to_erase_all_at_one_place_and_add_replaces_its_slot():
    slots, add = torch.randn(B, N, W), torch.randn(B, 1, W)
    at = torch.eye(N)[5].expand(B, 1, N)
    after = memory.write_memory(slots, at, torch.ones(B, 1, W), add)
    assert torch.equal(after[:, 5:6], add)
    kept = [n for n in range(N) if n != 5]
    assert torch.equal(after[:, kept], slots[:, kept])


def test_all_heads_erase_before_any_adds():
    at, ones = row(1.0, 0.0).expand(1, 2, 2), torch.ones(1, 2, 1)
    after = memory.write_memory(
        torch.full((1, 2, 1), 9.0), at, ones, torch.tensor([[[3.0], [4.0]]])
    )
    assert after.tolist() == [[[7.0], [9.0]]]


def test_the_order_of_writing_heads_means_nothing():
    given = weights(B, H, N), torch.rand(B, H, W), torch.randn(B, H, W)
    slots = torch.randn(B, N, W)
    turned = memory.write_memory(slots, *(x.flip(1) for x in given))
    assert_close(turned, memory.write_memory(slots, *given))


def test_to_write_and_read_teaches_no_nan_where_all_is_erased():
    slots = torch.randn(1, N, W, requires_grad=True)
    at = torch.eye(N)[[3, 3]][None].requires_grad_()
    erase, add = (torch.ones(1, 2, W, requires_grad=True) for _ in "ea")
    after = memory.write_memory(slots, at, erase, add)
    assert_taught(memory.read_memory(after, at), slots, at, erase, add)


@given(
    strength=some.floats(0, 1e6),
    gate=some.floats(0, 1),
    sharpness=some.floats(1, 1e4),
    seed=some.integers(0, 99),
)
def test_weights_sum_to_one_after_every_stage(strength, gate, sharpness, seed):
    torch.manual_seed(seed)
    key, slots, before = torch.randn(B, H, W), torch.randn(B, N, W), weights(B, H, N)
    told = [torch.full((B, H), number) for number in (strength, gate, sharpness)]
    content = memory.content_weights(key, slots, told[0])
    gated = memory.interpolate(content, before, told[1])
    shifted = memory.shift(gated, weights(B, H, S))
    for stage in (content, gated, shifted, memory.sharpen(shifted, told[2])):
        assert stage.min() >= 0
        assert_close(stage.sum(-1), torch.ones(B, H))
