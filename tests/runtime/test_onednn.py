"""oneDNN's tanh errs as little as PyTorch's own, and its memory lives as long as it is used."""

import gc
import platform
import weakref

import pytest
import torch

from regard.runtime import onednn
from regard.runtime.onednn import MIN_TANH_COUNT, TANH_CHUNK_COUNT, Workspace

pytestmark = pytest.mark.skipif(not onednn.is_available(), reason="no oneDNN, or no x86")

MAGNITUDES = [(-30, -8), (-8, -4), (-4, -2), (-2, -1), (-1, -0.5), (-0.5, 0), (0, 0.5), (0.5, 3)]


def relative_error(found, exact):
    return ((found.double() - exact) / exact).abs().max()


@pytest.mark.parametrize(("low", "high"), MAGNITUDES)
def test_tanh_errs_at_most_twice_as_much_as_pytorch_at_every_magnitude(low, high):
    x = torch.logspace(low, high, 2 * MIN_TANH_COUNT, dtype=torch.float32)
    x = torch.cat([x, -x])
    exact = x.double().tanh()
    plain = relative_error(torch.tanh(x), exact)
    assert relative_error(onednn.tanh_(x.clone()), exact) <= 2 * plain + torch.finfo().eps / 8


def test_tanh_keeps_signed_zeros_denormals_infinities_and_nan():
    x = torch.zeros(MIN_TANH_COUNT)
    x[:6] = torch.tensor([-0.0, 1e-45, -torch.inf, torch.inf, torch.nan, 3e38])
    out = onednn.tanh_(x.clone())
    assert torch.signbit(out[0]) and not torch.signbit(out[6])
    assert torch.equal(out[1:4], torch.tensor([1e-45, -1.0, 1.0]))
    assert out[4].isnan() and out[5] == 1


@pytest.mark.parametrize("count", [MIN_TANH_COUNT, TANH_CHUNK_COUNT, 2 * TANH_CHUNK_COUNT + 41])
def test_tanh_is_taken_of_every_number_in_its_place(count):
    x = torch.randn(count)
    out = onednn.tanh_(x.clone())
    torch.testing.assert_close(out, torch.tanh(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("keys", [1, 600, 1200, 2400])
def test_a_workspace_gives_tanh_of_sums_smaller_than_its_own_too(keys, dtype):
    q, k = torch.randn(2, 5, 1, 11, dtype=dtype), torch.randn(2, 1, keys, 11, dtype=dtype)
    workspace = Workspace(2 * 5 * 2400 * 11, q)
    for _ in range(2):
        torch.testing.assert_close(workspace.tanh_of_sum(q, k), torch.tanh(q + k))


def test_a_workspace_takes_at_most_twice_the_memory_of_its_largest_sum():
    workspace = Workspace(2**20, torch.empty(0))
    for count in (2**20, 700_000, 300_000, 2**17, 40_000, 100, 0):
        workspace.tanh_of_sum(torch.zeros(count), torch.zeros(1))
    assert sum(workspace._buffers) <= 2 * 2**20


def test_memory_of_onednn_lives_as_long_as_the_dense_tensor_over_it():
    dense, opaque = onednn._shared_buffers(MIN_TANH_COUNT)
    owner = weakref.ref(opaque)
    part = dense[5:7]
    del dense, opaque
    gc.collect()
    assert owner() is not None
    assert part.fill_(2).tolist() == [2, 2]
    del part
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("setting", ["inference", "default device", "default dtype"])
def test_settings_of_pytorch_leave_its_memory_as_it_is(setting):
    x = torch.randn(MIN_TANH_COUNT)
    expected = torch.tanh(x)
    torch.set_default_dtype(torch.float64 if setting == "default dtype" else torch.float32)
    try:
        device = torch.device("meta" if setting == "default device" else "cpu")
        with device, torch.inference_mode(setting == "inference"):
            torch.testing.assert_close(onednn.tanh_(x), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_half_precision_few_numbers_and_other_processors_are_left_to_pytorch(monkeypatch):
    x = torch.zeros(MIN_TANH_COUNT)
    assert onednn.can_take(x, MIN_TANH_COUNT)
    assert not onednn.can_take(x, MIN_TANH_COUNT - 1)
    assert not onednn.can_take(x.bfloat16(), MIN_TANH_COUNT)
    assert not onednn.can_take(x.to("meta"), MIN_TANH_COUNT)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not onednn.can_take(x, MIN_TANH_COUNT)
