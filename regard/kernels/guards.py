"""Who wants to be asked about each operation, so that a short way past them must not be taken."""

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext


def is_compiled_or_transformed() -> bool:
    """Whether a compiler or a transform follows, which must see all that is done."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def is_differentiated_by_transform(times: int = 1) -> bool:
    """True if derivatives are taken forwards, or at least so many times by `torch.func`.

    Operators of ours have none of these, fused kernels of PyTorch the first backwards alone. A
    compiler takes such derivatives of what it has traced.
    """
    if torch.compiler.is_compiling():
        return False
    if forward_ad._current_level >= 0:
        return True
    if not torch._C._are_functorch_transforms_active():
        return False
    kinds = [transform.key() for transform in get_interpreter_stack() or ()]
    return TransformType.Jvp in kinds or kinds.count(TransformType.Grad) >= times


def is_intercepted(*tensors: Tensor) -> bool:
    """Whether operators are followed: by a transform, a mode, or tensors of a kind of their own."""
    return (
        is_compiled_or_transformed()
        or torch._C._len_torch_dispatch_stack() > 0
        or not all(type(x) is Tensor or type(x) is Parameter for x in tensors)
    )


def has_function_mode() -> bool:
    """Whether a mode, such as a look, follows what is called; one that names a device does not."""
    modes = _get_current_function_mode_stack()
    return any(not isinstance(mode, DeviceContext) for mode in modes)
