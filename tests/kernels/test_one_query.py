"""The kernels have a call where it is on a card, learns nothing, and nobody follows it."""

import pytest
import torch

from regard import look
from regard.kernels import one_query

if not one_query.has_triton():
    pytest.skip("needs Triton", allow_module_level=True)


@pytest.fixture
def card(monkeypatch):
    """A CPU that passes for a card."""
    monkeypatch.setattr(one_query, "DEVICES", ("cuda", "cpu"))


def test_a_cpu_has_no_kernels():
    assert not one_query.takes(torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("dtype", "taken"), [(torch.float32, True), (torch.bfloat16, True), (torch.float64, False)]
)
def test_they_take_what_is_single_or_half(dtype, taken, card):
    assert one_query.takes(torch.zeros(2, 3, dtype=dtype)) == taken


def test_they_take_no_mixture(card):
    assert not one_query.takes(torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16))


def test_what_learns_is_not_theirs(card):
    x = torch.zeros(2, requires_grad=True)
    assert not one_query.takes(torch.zeros(2), x)
    with torch.no_grad():
        assert one_query.takes(torch.zeros(2), x)


def test_while_a_look_is_open_they_take_nothing(card):
    with look():
        assert not one_query.takes(torch.zeros(2))
    assert one_query.takes(torch.zeros(2))


def test_under_autocast_and_functorch_they_take_nothing(card):
    with torch.autocast("cpu"):
        assert not one_query.takes(torch.zeros(2))
    taken = []
    torch.func.vmap(lambda x: taken.append(one_query.takes(x)) or x)(torch.zeros(2, 3))
    assert taken == [False]
