"""The set-up of the tests does what it says."""

import hypothesis
import pytest
import torch
from hypothesis import strategies as st


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_fresh_memory_is_poisoned(dtype):
    like = torch.ones(3, dtype=dtype)
    for fresh in (torch.empty(3, dtype=dtype), torch.empty_like(like), like.new_empty(3)):
        assert fresh.isnan().all()


@pytest.mark.parametrize("time", ["once", "again"])
def test_every_test_starts_from_the_same_seed(time):
    drawn = torch.rand(1)
    assert torch.equal(drawn, torch.rand(1, generator=torch.Generator().manual_seed(0)))


def test_every_example_starts_from_the_same_seed():
    drawn = set()

    @hypothesis.given(st.integers())
    def example(_):
        drawn.add(torch.rand(1).item())

    example()
    assert len(drawn) == 1
