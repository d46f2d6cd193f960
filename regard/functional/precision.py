"""Half precision is for storing; sums and softmax run in float32 or better."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """`x` in float32 if it is stored in half precision, else `x` itself."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def tanh(x: Tensor) -> Tensor:
    """tanh of `x`, which may be written over.

    On a CPU torch's own takes three times as long as 2 σ(2x) − 1, which is off by two eps at most.
    """
    if x.requires_grad or x.device.type != "cpu":
        return torch.tanh(x)
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def finest(device: torch.device | None) -> torch.dtype:
    """float64, or float32 on a device that has nothing finer."""
    return torch.float32 if device is not None and device.type == "mps" else torch.float64


def lowered(x: Tensor) -> Tensor:
    """x in the dtype that autocast asks for, where it is on; float64 is left alone."""
    # a meta tensor has no autocast to ask about
    if x.device.type == "meta" or not torch.is_autocast_enabled(x.device.type):
        return x
    return x if x.dtype == torch.float64 else x.to(torch.get_autocast_dtype(x.device.type))
