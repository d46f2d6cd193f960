"""Half precision is for storing; sums and softmax run in float32 or better."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard.runtime import onednn

R = TypeVar("R")


def to_float32(x: Tensor) -> Tensor:
    """`x` in float32 if it is stored in half precision, else `x` itself."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def tanh(x: Tensor) -> Tensor:
    """tanh of `x`, which may be written over: the same bits with a gradient and without."""
    if _is_traced(x) or not onednn.can_take(x, x.numel()):
        return torch.tanh(x)
    return _Tanh.apply(x) if x.requires_grad else onednn.tanh_(x.contiguous())


def widest_float_dtype(device: torch.device | None) -> torch.dtype:
    """float64, or float32 on a device that has nothing finer."""
    return torch.float32 if device is not None and device.type == "mps" else torch.float64


def has_autocast(device: torch.device) -> bool:
    """True if autocast is on for this device."""
    # a meta tensor has no autocast to ask about
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def to_autocast(x: Tensor) -> Tensor:
    """x in the dtype that autocast asks for, where it is on; float64 is left alone."""
    if x.dtype == torch.float64 or not has_autocast(x.device):
        return x
    return x.to(torch.get_autocast_dtype(x.device.type))


def no_autocast(device: torch.device) -> AbstractContextManager[None]:
    """A context with autocast off on this device."""
    if not has_autocast(device):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def autocast_snapshot(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """A function that gives contexts with autocast as it is now, on or off."""
    if device.type == "meta":
        return nullcontext
    enabled, dtype = has_autocast(device), torch.get_autocast_dtype(device.type)
    return partial(torch.autocast, device.type, dtype=dtype, enabled=enabled)


def without_autocast(function: Callable[..., R]) -> Callable[..., R]:
    """The function run with autocast off: it would lower the matrix products inside."""

    @wraps(function)
    def wrapper(*args: Any, **named: Any) -> R:
        first = next(x for x in (*args, *named.values()) if isinstance(x, Tensor))
        with no_autocast(first.device):
            return function(*args, **named)

    return wrapper


def cast_finite(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in another dtype; finite numbers beyond its range become its largest."""
    most = torch.finfo(dtype).max
    if most < torch.finfo(x.dtype).max:
        x = torch.where(x.isinf(), x, x.clamp(-most, most))
    return x.to(dtype)


def unit_vectors(x: Tensor) -> Tensor:
    """Vectors of length 1; one of zeros stays so, and its gradient is zero."""
    x = to_float32(x)
    if x.shape[-1] == 0:
        return x
    # shrunk or grown first, so that no square overflows or vanishes; the direction stays as it is
    largest = x.detach().abs().amax(-1, keepdim=True)
    there = largest.isfinite() & (largest > 0)
    even = x.where(there, 0) / largest.where(there, 1)
    unit = even * even.square().sum(-1, keepdim=True).where(there, 1).rsqrt()
    # a vector that is not finite stays so, but may be hidden later: it passes no NaN back
    return unit.where(largest.isfinite(), x.detach())


class _Tanh(torch.autograd.Function):
    """tanh by oneDNN, which may be differentiated as often as torch's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = onednn.tanh_(x.clone(memory_format=torch.contiguous_format))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        derived: Tensor = torch.ops.aten.tanh_backward(grad, out)
        return derived


def _is_traced(x: Tensor) -> bool:
    """True if a compiler, a transform or a mode handles operations on x."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or forward_ad._current_level >= 0
        or type(x) is not Tensor
    )
