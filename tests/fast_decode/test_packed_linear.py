"""Packed linear functions are `F.linear` in float32, and near it in eight bits."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.fast_decode import packed_linear

IN, OUT = 24, 40
SHAPES = [(1, IN), (64, IN), (3, 7, IN), (0, IN)]
exact = pytest.mark.parametrize("make", [packed_linear.plain, packed_linear.packed])
every = pytest.mark.parametrize(
    "make", [packed_linear.plain, packed_linear.packed, packed_linear.int8]
)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
biased = pytest.mark.parametrize(
    "bias", [None, torch.linspace(-2, 3, OUT)], ids=["no bias", "bias"]
)


@exact
@shapes
@biased
@pytest.mark.parametrize("relu", [False, True])
def test_in_float32_they_are_those_of_torch(make, shape, bias, relu):
    weight, x = torch.randn(OUT, IN), torch.randn(shape)
    expected = F.linear(x, weight, bias)
    found = make(weight, bias, relu)(x)
    assert_close(found, expected.relu() if relu else expected)


@pytest.mark.parametrize("relu", [False, True])
def test_in_eight_bits_no_number_is_farther_than_the_steps_allow(relu):
    torch.manual_seed(1)
    weight, bias, x = torch.randn(OUT, IN), torch.randn(OUT), torch.randn(64, IN)
    found = packed_linear.int8(weight, bias, relu)(x)
    expected = F.linear(x, weight, bias)
    # half a step of a weight meets |x|, and half a step of x, of which there are 127, meets |w|
    step = (x.max() - x.min()) / 127
    scales = weight.abs().amax(1) / 127
    most = x.abs().sum(1, keepdim=True) * scales / 2
    most = most + weight.abs().sum(1) * step / 2
    most = most + IN * scales * step / 4
    assert ((found - (expected.relu() if relu else expected)).abs() <= most * 1.001 + 1e-5).all()
    assert not torch.equal(found, expected)


def test_weights_that_eight_bits_can_hold_are_held():
    """Arithmetic by hand: whole numbers up to 127, met by whole numbers from 0 to 127."""
    weight = torch.randint(-127, 128, (OUT, IN)).float()
    weight[:, 0] = 127
    x = torch.randint(0, 128, (9, IN)).float()
    x[0, 0], x[0, 1] = 0, 127
    assert_close(
        packed_linear.int8(weight, None, False)(x), F.linear(x, weight), atol=0.01, rtol=1e-6
    )


@every
def test_weights_of_zeros_give_the_bias(make):
    bias = torch.randn(OUT)
    found = make(torch.zeros(OUT, IN), bias, False)(torch.randn(3, IN))
    assert_close(found, bias.expand(3, OUT), atol=0.02, rtol=0)


@every
def test_what_is_met_stays_as_it_was(make):
    linear, x = nn.Linear(IN, OUT), torch.randn(4, IN)
    kept = x.clone()
    product = packed_linear.from_linear(linear, make)
    with torch.no_grad():
        product(x)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("make", [packed_linear.packed, packed_linear.int8])
def test_they_keep_the_weights_of_when_they_were_made(make):
    weight, x = torch.randn(OUT, IN), torch.randn(4, IN)
    product = make(weight, None, False)
    before = product(x)
    weight.zero_()
    assert torch.equal(product(x), before)


def test_other_dtypes_and_machines_without_onednn_get_plain_ones(monkeypatch):
    for weight in (torch.randn(OUT, IN).double(), torch.empty(OUT, IN, device="meta")):
        assert isinstance(packed_linear.packed(weight, None), packed_linear.PlainLinear)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert isinstance(packed_linear.packed(torch.randn(OUT, IN), None), packed_linear.PlainLinear)


def test_a_torch_without_eight_bits_is_told_of(monkeypatch):
    monkeypatch.setattr(packed_linear, "_quantized_engine", lambda: "none")
    with pytest.raises(ValueError, match="int8: this PyTorch has no products in eight bits"):
        packed_linear.int8(torch.randn(OUT, IN), None)


def test_eight_bits_elsewhere_than_on_a_cpu_are_refused():
    with pytest.raises(ValueError, match="int8: expected weights on a CPU, got meta"):
        packed_linear.int8(torch.empty(OUT, IN, device="meta"), None)
