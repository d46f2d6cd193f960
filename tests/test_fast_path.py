"""A short cut is allowed only where nothing could observe the difference."""

import pytest
import torch
from torch import nn

from regard import edit, fast_path, look, use_backend

OBSERVERS = {
    "look": look,
    "edit": lambda: edit(nn.Linear(2, 2), {}),
    "backend": lambda: use_backend("sdpa"),
}


def test_plain_inference_is_allowed():
    assert fast_path.allowed(torch.zeros(2, 3)) and fast_path.not_observed()


@pytest.mark.parametrize("observe", OBSERVERS.values(), ids=OBSERVERS)
def test_nothing_is_allowed_under_a_look_an_edit_or_a_forced_backend(observe):
    with observe():
        assert not fast_path.not_observed() and not fast_path.allowed(torch.zeros(2))
    assert fast_path.allowed(torch.zeros(2))


def test_a_gradient_that_is_needed_forbids_it():
    x = torch.zeros(2, requires_grad=True)
    assert not fast_path.allowed(torch.zeros(2), x)
    with torch.no_grad():
        assert fast_path.allowed(torch.zeros(2), x)


def test_tensors_of_several_dtypes_or_devices_are_not_allowed():
    assert not fast_path.allowed(torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16))
    assert not fast_path.allowed(torch.zeros(2), torch.zeros(2, device="meta"))


def test_autocast_and_transforms_forbid_it():
    with torch.autocast("cpu"):
        assert not fast_path.allowed(torch.zeros(2))
    found = []
    torch.func.vmap(lambda x: found.append(fast_path.allowed(x)) or x)(torch.zeros(2, 3))
    assert found == [False]


def test_a_subclass_of_tensor_is_intercepted():
    class Other(torch.Tensor):
        pass

    assert fast_path.not_intercepted(torch.zeros(2))
    assert not fast_path.not_intercepted(torch.zeros(2).as_subclass(Other))
