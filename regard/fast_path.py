"""The one guard of all short cuts: kernels and fast decoding that leave the general path.

A short cut gives the same numbers in fewer operations. It may be taken only where the difference
cannot be observed: a look and an edit need every call of `attend`, autograd needs every operation,
a mode or a transform needs to intercept each of them, and a backend forced by name must run.
"""

import torch
from torch import Tensor

from regard import looking
from regard.dispatch import requested_backend
from regard.kernels import guards


def not_observed() -> bool:
    """True if no look or edit is open on this thread and no backend is forced."""
    return requested_backend() == "auto" and not looking.is_observed()


def not_intercepted(*tensors: Tensor) -> bool:
    """True if no mode, compiler, transform or tensor subclass sees single operations."""
    return not guards.has_function_mode() and not guards.is_intercepted(*tensors)


def allowed(*tensors: Tensor) -> bool:
    """True if a short cut without gradients may compute with `tensors`.

    They must share one dtype and one device, none may need a gradient, and autocast must be off:
    a short cut casts nothing.
    """
    x = tensors[0]
    if not all(y.dtype == x.dtype and y.device == x.device for y in tensors):
        return False
    if torch.is_grad_enabled() and any(y.requires_grad for y in tensors):
        return False
    casts = torch.is_autocast_enabled(x.device.type)
    return not casts and not_observed() and not_intercepted(*tensors)
