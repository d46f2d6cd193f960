"""The oracle lets good work pass, and catches each way of being wrong."""

import pytest
import torch

from tests.oracle import assert_as_good_as


class WrongGradient(torch.autograd.Function):
    """The identity, whose gradient is a tenth too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.1


def total(*inputs):
    return sum(x.exp() for x in inputs)


def drawn(count, dtype=torch.float32):
    return [torch.randn(5, 7).to(dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_same_computation_passes(dtype):
    assert_as_good_as(total, total, *drawn(3, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_better_computation_passes(dtype):
    def better(x):
        return x.double().softmax(-1).to(dtype)

    assert_as_good_as(better, lambda x: x.softmax(-1), *drawn(1, dtype))


def test_a_wrong_output_is_caught():
    with pytest.raises(AssertionError, match=r"^output: "):
        assert_as_good_as(lambda x: x.exp() * 1.01, total, *drawn(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wrong", [0, 1, 4], ids=["first", "second", "last"])
def test_a_right_output_with_a_wrong_gradient_is_caught(wrong, dtype):
    def ours(*inputs):
        return total(*(WrongGradient.apply(x) if i == wrong else x for i, x in enumerate(inputs)))

    with pytest.raises(AssertionError, match=f"^gradient of input {wrong}: "):
        assert_as_good_as(ours, total, *drawn(5, dtype))


def test_a_gradient_that_was_cut_is_caught():
    with pytest.raises(AssertionError, match=r"^gradient of input 1: "):
        assert_as_good_as(lambda a, b: total(a, b.detach()), total, *drawn(2))


def test_a_nan_is_caught():
    with pytest.raises(AssertionError, match=r"^output: nan off"):
        assert_as_good_as(lambda x: total(x) + float("nan"), total, *drawn(1))


def test_a_shape_that_would_broadcast_is_caught():
    with pytest.raises(AssertionError, match=r"^output: \(1, 7\), plain has \(5, 7\)"):
        assert_as_good_as(lambda x: x[:1] * 0, lambda x: x * 0, *drawn(1))


def test_another_dtype_is_caught():
    with pytest.raises(AssertionError, match=r"^output: torch.float64, plain has torch.float32"):
        assert_as_good_as(lambda x: total(x).double(), total, *drawn(1))


def test_a_judge_that_overflows_is_refused():
    with pytest.raises(AssertionError, match="cannot judge"):
        assert_as_good_as(total, total, torch.full((3,), 12.0).half())


def test_float64_is_refused():
    with pytest.raises(AssertionError, match="float64"):
        assert_as_good_as(total, total, *drawn(1, torch.float64))


def test_an_input_without_a_part_and_an_empty_output_pass():
    assert_as_good_as(lambda a, b: a * 2, lambda a, b: a + a, *drawn(2))
    assert_as_good_as(total, total, torch.empty(0, 3))
    assert_as_good_as(lambda x: torch.zeros(5, 7), lambda x: x * 0, *drawn(1))
