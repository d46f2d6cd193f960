"""A backward in one launch gives what bands of queries give."""

import pytest
import torch

pytest.importorskip("triton")

from regard import rules
from regard.kernels.additive import api as additive
from regard.kernels.additive.plan import Tile
from tests.kernels.calls import (
    INTERPRETED,
    QUIET,
    change,
    everything,
    fused,
    inputs,
    plain,
    sight,
    small,
)
from tests.oracle import assert_as_good_as

pytestmark = [QUIET, INTERPRETED]
RULES = {
    "none": None,
    "causal": rules.causal,
    "padding": rules.padding(torch.tensor([3, 17])),
    "documents": rules.documents(torch.arange(17).expand(2, 17) // 5),
    "mask": torch.arange(17) % 3 > 0,
    "blind": torch.tensor(False),
}


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


def at_once(monkeypatch):
    """Tiles of 32 queries and keys from here on, one a head."""
    change(monkeypatch, SMALL_MAX_LENGTH=32, SMALL_TILE=Tile(2, 1, 1, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_errs_no_more_than_plain(dtype, monkeypatch):
    at_once(monkeypatch)
    assert_as_good_as(fused, plain, *inputs(2, 2, 9, 17, 11, Dv=13, dtype=dtype))


@pytest.mark.parametrize("name", RULES)
def test_under_a_rule_it_gives_what_bands_give(name, monkeypatch):
    call = inputs(2, 1, 17, 17)
    bands = everything(*call, rule=RULES[name])
    at_once(monkeypatch)
    torch.testing.assert_close(everything(*call, rule=RULES[name]), bands)


def test_log_probability_flows_back_as_through_bands(monkeypatch):
    q, k, _, vector = (x.requires_grad_() for x in inputs(2, 2, 9, 17))
    index, grads = torch.randint(17, (2, 2, 9)), []
    for _ in range(2):
        chosen = additive.log_probability(q, k, index, vector=vector, spec=sight(None, q, k))
        grads.append(torch.autograd.grad(chosen.square().sum(), (q, k, vector)))
        at_once(monkeypatch)
    torch.testing.assert_close(*grads)


def test_it_is_one_launch(monkeypatch):
    names = []
    at_once(monkeypatch)
    change(monkeypatch, launch=lambda self, name, *x, **y: names.append(name))
    everything(*inputs(Q=9, K=17, dtype=torch.bfloat16))
    assert names == ["keys", "queries", "read and forget", "at once"]


def test_dimensions_beyond_one_program_have_their_gradients(monkeypatch):
    call = inputs(Q=5, K=3, D=100)
    bands = everything(*call)
    at_once(monkeypatch)  # two warps, so 64 dimensions a program
    torch.testing.assert_close(everything(*call), bands)


def test_what_few_queries_read_flows_back_as_through_bands(monkeypatch):
    call = inputs(2, 1, 3, 17)
    bands = everything(*call)
    at_once(monkeypatch)
    torch.testing.assert_close(everything(*call), bands)


def test_a_second_derivative_is_refused_in_words(monkeypatch):
    at_once(monkeypatch)
    q, *others = (x.requires_grad_() for x in inputs(Q=9))
    (dq,) = torch.autograd.grad(fused(q, *others).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(dq.sum(), q)


def test_a_bias_that_learns_goes_through_bands(monkeypatch):
    call = *inputs(K=17), torch.zeros(1, 1, 5, 17)
    bands = everything(*call)
    at_once(monkeypatch)
    torch.testing.assert_close(everything(*call), bands)
