"""Half precision is widened, everything else is left alone."""

import pytest
import torch

from regard.functional.precision import wide


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype):
    assert wide(torch.ones(3, dtype=dtype)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_wide_stays_the_very_same_tensor(dtype):
    x = torch.ones(3, dtype=dtype)
    assert wide(x) is x
