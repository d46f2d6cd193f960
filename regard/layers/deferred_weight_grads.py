"""Weights that every step of a loop uses learn once, from all steps together.

The gradient of such a weight is a sum over steps. Autograd makes a matrix a step and adds them up;
here each step leaves what it read and the gradient of what it gave, and one product of all that is
made when the last of them is known. The sum is the same, and is rounded once.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.functional.precision import to_autocast
from regard.kernels import guards
from regard.layers import gates

# What a step read and the gradient of what it gave (…, ·), by the step's number.
_Tape = dict[int, tuple[Tensor, Tensor]]


def maybe_defer_weight_grads(x: Tensor) -> AbstractContextManager[Any]:
    """`DeferredWeightGrads` for a loop over what lies on a GPU; elsewhere nothing.

    On a GPU little things take long. A CPU is as quick without, and compilers and transforms want
    to see what is done.
    """
    learns = torch.is_grad_enabled() and not guards.is_compiled_or_transformed()
    return DeferredWeightGrads() if x.is_cuda and learns else nullcontext()


class DeferredWeightGrads(TorchFunctionMode):
    """Inside, linear maps and recurrent cells learn once from all their steps.

    It takes the place of what has weights, and knows those that were met. Gradients of gradients
    are refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self._linears: dict[tuple[int, torch.dtype], _DeferredLinear] = {}
        self._overrides: dict[Callable[..., Any], Callable[..., Any]] = {
            F.linear: self._linear,
            torch.gru_cell: self._gru,
            torch.lstm_cell: self._lstm,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        ours = self._overrides.get(func)
        return func(*args, **(kwargs or {})) if ours is None else ours(*args, **(kwargs or {}))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not weight.requires_grad:
            return F.linear(x, weight, bias)
        x = to_autocast(x)
        met = (id(weight), x.dtype)
        if met not in self._linears:
            self._linears[met] = _DeferredLinear(
                weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
            )
        return self._linears[met](x)

    def _gru(self, x: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
        return gates.gru(*self._gates(x, h, *weights), h)

    def _lstm(
        self, x: Tensor, hidden: tuple[Tensor, Tensor], *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        h, c = hidden
        return gates.lstm(*self._gates(x, h, *weights), c)

    def _gates(
        self,
        x: Tensor,
        h: Tensor,
        weight_x: Tensor,
        weight_h: Tensor,
        bias_x: Tensor | None = None,
        bias_h: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return self._linear(x, weight_x, bias_x), self._linear(h, weight_h, bias_h)


class _DeferredLinear:
    """One linear map, and what its steps leave behind."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self._tape: _Tape = {}
        self._steps = 0
        self._weight, self._bias = _SumWeightGrad.apply(self._tape, weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        self._steps += 1
        found: Tensor = _LinearWithoutWeightGrad.apply(
            self._tape, self._steps, x, self._weight, self._bias
        )
        return found


class _LinearWithoutWeightGrad(torch.autograd.Function):
    """A linear map whose weights get no gradient here; what makes it up is left on a tape."""

    @staticmethod
    def forward(
        ctx: Any, tape: _Tape, step: int, x: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.tape, ctx.step = tape, step
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.tape[ctx.step] = (x, grad_output)
        return None, None, grad_output @ weight if ctx.needs_input_grad[2] else None, None, None


class _SumWeightGrad(torch.autograd.Function):
    """Weights as they are; their gradients are made of a tape, when all steps have written it."""

    @staticmethod
    def forward(
        ctx: Any, tape: _Tape, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        ctx.tape = tape
        ctx.set_materialize_grads(False)
        return weight.view_as(weight), None if bias is None else bias.view_as(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_: None) -> tuple[Tensor | None, ...]:
        read, gained = (
            torch.cat([part.flatten(0, -2) for part in parts])
            for parts in zip(*ctx.tape.values(), strict=True)
        )
        ctx.tape.clear()
        _, weight, bias = ctx.needs_input_grad
        return None, gained.mT @ read if weight else None, gained.sum(0) if bias else None
