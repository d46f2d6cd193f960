"""Products by weights that a CPU multiplies by many times: as they lie, packed, or in eight bits.

What is made here keeps the weights as they were. Who trains on makes it anew.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Of rows (…, I) rows (…, O).
LinearFunction = Callable[[Tensor], Tensor]


@runtime_checkable
class LinearFactory(Protocol):
    """What makes a product, such as `packed` or `int8`."""

    def __call__(self, weight: Tensor, bias: Tensor | None, relu: bool = False) -> LinearFunction:
        """The product by weights (O, I) and a bias (O,), with ReLU behind it if so wished."""


@dataclass(frozen=True, eq=False)
class PlainLinear:
    """`F.linear` by weights (O, I) and a bias (O,), and ReLU behind it."""

    weight: Tensor
    bias: Tensor | None
    relu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Of each row (…, I) a row (…, O)."""
        out = F.linear(x, self.weight)
        # PyTorch would fill the result with the bias before, which takes longer than to add it
        out = out if self.bias is None else out.add_(self.bias)
        return F.relu_(out) if self.relu else out


@dataclass(frozen=True, eq=False)
class _PackedLinear:
    """The same by oneDNN, from weights that lie as it wants them."""

    weight: Tensor
    bias: Tensor | None
    activation: str

    def __call__(self, x: Tensor) -> Tensor:
        product = torch.ops.mkldnn._linear_pointwise.default
        found: Tensor = product(x, self.weight, self.bias, self.activation, [], "")
        return found


@dataclass(frozen=True, eq=False)
class _Int8Linear:
    """The same in eight bits: weights by a scale a row, and what they meet by one scale a call."""

    weight: Any
    operator: Any

    def __call__(self, x: Tensor) -> Tensor:
        # seven bits of what is met: without VNNI, sums of two products of eight would not fit
        found: Tensor = self.operator(x, self.weight, True)
        return found


def plain(weight: Tensor, bias: Tensor | None, relu: bool = False) -> LinearFunction:
    """A product by the weights themselves, which costs nothing to make."""
    return PlainLinear(weight, bias, relu)


def packed(weight: Tensor, bias: Tensor | None, relu: bool = False) -> LinearFunction:
    """A product by weights that oneDNN has packed; a plain one where there is nothing to pack.

    It packs float32 on a CPU.
    """
    apt = weight.device.type == "cpu" and weight.dtype == torch.float32
    if not apt or not torch.backends.mkldnn.is_available():
        return plain(weight, bias, relu)
    lying = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
    return _PackedLinear(lying, _float_bias(bias), "relu" if relu else "none")


def int8(weight: Tensor, bias: Tensor | None, relu: bool = False) -> LinearFunction:
    """A product in eight bits, which is near to the one in float32.

    A row of weights is at most 127 of its scale, and what they meet is rounded to 128 steps from
    its least to its largest number in a call.
    """
    if _quantized_engine() == "none":
        raise ValueError("int8: this PyTorch has no products in eight bits")
    if weight.device.type != "cpu":
        raise ValueError(f"int8: expected weights on a CPU, got {weight.device}")
    weight = weight.detach().float()
    scales = (weight.abs().amax(1).double() / 127).clamp(min=1e-12)
    with warnings.catch_warnings():
        # that quantized tensors are to leave PyTorch one day
        warnings.simplefilter("ignore")
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    ops = torch.ops.quantized
    product = ops.linear_relu_dynamic if relu else ops.linear_dynamic
    return _Int8Linear(ops.linear_prepack(rounded, _float_bias(bias)), product.default)


def from_linear(linear: nn.Linear, make: LinearFactory, relu: bool = False) -> LinearFunction:
    """The product of a layer."""
    return make(linear.weight, linear.bias, relu)


def _float_bias(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach().float()


def _quantized_engine() -> str:
    """What multiplies in eight bits."""
    return str(torch.backends.quantized.engine)
