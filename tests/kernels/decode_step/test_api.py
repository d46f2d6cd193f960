"""The kernels run on a GPU, in single or half precision."""

import pytest
import torch

from regard.kernels.decode_step import api as decode_step

if not decode_step.has_triton():
    pytest.skip("needs Triton", allow_module_level=True)


@pytest.fixture
def gpu(monkeypatch):
    """A CPU that counts as a GPU."""
    monkeypatch.setattr(decode_step, "DEVICES", ("cuda", "cpu"))


def test_a_cpu_has_no_kernels():
    assert not decode_step.supports_gpu(torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("dtype", "taken"), [(torch.float32, True), (torch.bfloat16, True), (torch.float64, False)]
)
def test_they_take_what_is_single_or_half(dtype, taken, gpu):
    assert decode_step.supports_gpu(torch.zeros(2, 3, dtype=dtype)) == taken


@pytest.mark.parametrize(("dtype", "taken"), [(torch.float32, True), (torch.float16, False)])
def test_the_short_cut_of_a_cpu_takes_single_precision(dtype, taken):
    assert decode_step.supports_cpu(torch.zeros(2, dtype=dtype)) == taken
