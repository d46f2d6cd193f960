"""Modules that cannot attend: norms, activations and the like, told by the code of their `forward`.

A mode costs a call into Python for every function, and half of a small model's functions run in
such modules. Where nothing is followed, the watcher is off the stack while they run.
"""

import dis
import math
import sys
import weakref
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as module_calls

# What a `forward` may name: of these, none multiplies matrices, attends, or moves rows of a cache.
NAMES = """
    abs add add_ bfloat16 bool clamp contiguous cos device dim div dropout dtype elu embedding exp
    expand_as float float16 float32 functional gelu group_norm half hardswish is_floating_point
    layer_norm leaky_relu log math max maximum mean min minimum mish mul mul_ ndim neg nn normalize
    numel pi pow relu relu6 reshape rms_norm rsqrt shape sigmoid silu sin size softplus sqrt square
    sub sum tanh to torch torch_dtype type type_as unsqueeze var view
"""
_names = frozenset(NAMES.split())
_GLOBALS = (torch, nn, F, math)
_DATA = (int, float, bool, str, type(None), torch.dtype, torch.device, Tensor, nn.Parameter)


class Leaves:
    """Which modules cannot attend, each asked once while it lives."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[nn.Module], bool]] = {}

    def clear(self) -> None:
        """Forget all modules."""
        self._found.clear()

    def is_idle(self, module: nn.Module, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether a module's call is of one plain tensor, runs no hook, and cannot attend."""
        # anything else might be called
        if kwargs or len(args) != 1 or type(args[0]) is not Tensor:
            return False
        found = self._found.get(id(module))
        if found is None or found[0]() is not module:
            found = self._found[id(module)] = weakref.ref(module), not can_attend(module)
        if not found[1] or "forward" in module.__dict__:
            return False
        if module._forward_hooks or module._forward_pre_hooks:
            return False
        return not module_calls._has_any_global_hook()


def can_attend(module: nn.Module) -> bool:
    """False only if a module's `forward` is known to multiply no matrices but by its own weight."""
    kind = type(module)
    if module._modules or "forward" in module.__dict__ or kind.__call__ is not nn.Module.__call__:
        return True
    if kind is _conv1d():
        return type(module._parameters.get("weight")) is not nn.Parameter
    forward = kind.forward
    if not isinstance(forward, FunctionType) or not _is_simple(forward):
        return True
    return not all(_is_known(name, module, forward) for name in forward.__code__.co_names)


def _is_simple(forward: FunctionType) -> bool:
    """Whether a function has no functions but those that it names, and multiplies no matrices."""
    code = forward.__code__
    given = (*(forward.__defaults__ or ()), *(forward.__kwdefaults__ or {}).values())
    if code.co_freevars or code.co_cellvars or not all(map(_is_data, given)):
        return False
    if any(hasattr(constant, "co_code") for constant in code.co_consts):
        return False
    return not any(
        "@" in step.argrepr or "MATRIX" in step.opname or "IMPORT" in step.opname
        for step in dis.get_instructions(code)
    )


def _is_known(name: str, module: nn.Module, forward: FunctionType) -> bool:
    """Whether a name means data of the module's, or a function that does not attend."""
    for there in (module.__dict__, module._parameters, module._buffers):
        if name in there:
            return _is_data(there[name])
    if name in forward.__globals__:
        return any(forward.__globals__[name] is one for one in _GLOBALS)
    # a module's own method may do anything
    own, common = (getattr(kind, name, None) for kind in (type(module), nn.Module))
    return name in _names and own is common


def _is_data(value: Any) -> bool:
    """Whether a value is data, of which nothing can be called."""
    if type(value) in (tuple, torch.Size):
        return all(map(_is_data, value))
    return type(value) in _DATA


def _conv1d() -> Any:
    """Hugging Face's linear layer, a product with a weight; None if nobody has imported it."""
    return getattr(sys.modules.get("transformers.pytorch_utils"), "Conv1D", None)
