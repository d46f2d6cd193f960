"""Half precision is widened, everything else is left alone."""

import pytest
import torch

from regard.functional.precision import exactly, lowered, rounded, tanh, wide, without_autocast


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype):
    assert wide(torch.ones(3, dtype=dtype)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_wide_stays_the_very_same_tensor(dtype):
    x = torch.ones(3, dtype=dtype)
    assert wide(x) is x


def test_autocast_lowers_all_but_float64_where_it_is_on():
    x, exact = torch.ones(3), torch.ones(3, dtype=torch.float64)
    assert lowered(x) is x
    with torch.autocast("cpu", torch.bfloat16):
        assert lowered(x).dtype == torch.bfloat16
        assert lowered(exact) is exact


def test_autocast_does_not_reach_in():
    @exactly
    def product(a, b):
        return a @ b

    a, b = torch.randn(2, 3), torch.randn(3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b).dtype == torch.bfloat16
        assert product(a, b).dtype == product(a=a, b=b).dtype == torch.float32
        assert torch.is_autocast_enabled("cpu")
        with without_autocast(a.device):
            assert (a @ b).dtype == torch.float32


def test_a_meta_tensor_has_no_autocast_to_keep_out():
    with torch.autocast("cpu", torch.bfloat16), without_autocast(torch.device("meta")):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_finite_stays_so_when_it_is_rounded(dtype):
    found = rounded(torch.tensor([0.0, -1e30, 3.4e38, -torch.inf, torch.nan]), dtype)
    assert found.dtype == dtype
    assert found.isfinite().tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tanh_is_that_of_torch_but_for_two_roundings(dtype, learns):
    x = torch.cat([torch.linspace(-30, 30, 10_001), torch.logspace(-9, 0, 1000)])
    exact = x.double().tanh() if dtype == torch.float32 else x.to(dtype).tanh()
    found = tanh(x.to(dtype).clone().requires_grad_(learns))
    assert found.dtype == dtype and found.requires_grad == learns
    assert (found - exact).abs().max() <= 2 * torch.finfo(dtype).eps
    ends = tanh(torch.tensor([-torch.inf, torch.inf, torch.nan], dtype=dtype))
    assert ends.tolist()[:2] == [-1, 1] and ends[2].isnan()
