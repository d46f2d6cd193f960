"""Those who want to see what is done are known, and nobody else is."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard import look
from regard.kernels import guards


class Counting(TorchDispatchMode):
    """A mode such as those that count operations."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):
    """A tensor of a kind of its own."""


def test_by_default_nobody_follows():
    x = torch.zeros(2)
    assert not guards.is_compiled_or_transformed()
    assert not guards.is_intercepted(x, torch.nn.Parameter(x))
    assert not guards.has_function_mode()


def test_a_transform_is_known_while_it_runs():
    found = []
    torch.func.grad(lambda x: found.append(guards.is_compiled_or_transformed()) or x.sum())(
        torch.zeros(2)
    )
    assert found == [True]


def test_a_mode_of_operators_and_tensors_of_their_own_kind_are_known():
    with Counting():
        assert guards.is_intercepted(torch.zeros(2))
    assert guards.is_intercepted(torch.zeros(2).as_subclass(Own))


def test_a_look_is_known_and_a_device_is_no_look():
    with look():
        assert guards.has_function_mode()
    with torch.device("cpu"):
        assert not guards.has_function_mode()


@pytest.mark.compiled
def test_a_compiler_is_known():
    assert torch.compile(lambda x: x + guards.is_compiled_or_transformed(), fullgraph=True)(1) == 2


def test_a_transform_that_differentiates_is_known_and_one_that_maps_is_none():
    def ask(x):
        found.append(guards.is_differentiated_by_transform())
        return x.sum()

    x, found = torch.ones(2, 3), list[bool]()
    ask(x)
    torch.func.vmap(ask)(x)
    torch.func.grad(ask)(x)
    torch.func.vmap(torch.func.grad(ask))(x)
    torch.func.jvp(ask, (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        ask(x)
    assert found == [False, False, True, True, True, True]


def test_a_second_derivative_is_known_and_the_first_is_none():
    def ask(x):
        found.append(guards.is_differentiated_by_transform(2))
        return x.square().sum()

    x, found = torch.ones(3), list[bool]()
    torch.func.grad(ask)(x)
    torch.func.grad(lambda x: torch.func.grad(ask)(x).sum())(x)
    torch.func.jvp(ask, (x,), (x,))
    assert found == [False, True, True]
