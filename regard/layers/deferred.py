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

from regard.functional.precision import lowered
from regard.kernels import following
from regard.layers import gates

# What a step read and the gradient of what it gave (…, ·), by the step's number.
_Tape = dict[int, tuple[Tensor, Tensor]]


def on_card(x: Tensor) -> AbstractContextManager[Any]:
    """`Deferred` for a loop over what lies on a card, where little things take long; else nothing.

    A CPU is as quick without, and compilers and transforms want to see what is done.
    """
    learns = torch.is_grad_enabled() and not following.transformed()
    return Deferred() if x.is_cuda and learns else nullcontext()


class Deferred(TorchFunctionMode):
    """Inside, linear maps and recurrent cells learn once from all their steps.

    It takes the place of what has weights, and knows those that were met. Gradients of gradients
    are refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self._met: dict[tuple[int, torch.dtype], _Weights] = {}
        self._ours: dict[Callable[..., Any], Callable[..., Any]] = {
            F.linear: self._linear,
            torch.gru_cell: self._gru,
            torch.lstm_cell: self._lstm,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        ours = self._ours.get(func)
        return func(*args, **(kwargs or {})) if ours is None else ours(*args, **(kwargs or {}))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not weight.requires_grad:
            return F.linear(x, weight, bias)
        x = lowered(x)
        met = (id(weight), x.dtype)
        if met not in self._met:
            self._met[met] = _Weights(
                weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
            )
        return self._met[met](x)

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
        of_x: Tensor,
        of_h: Tensor,
        bias_x: Tensor | None = None,
        bias_h: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return self._linear(x, of_x, bias_x), self._linear(h, of_h, bias_h)


class _Weights:
    """One linear map, and what its steps leave behind."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self._tape: _Tape = {}
        self._steps = 0
        self._weight, self._bias = _Learn.apply(self._tape, weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        self._steps += 1
        found: Tensor = _Map.apply(self._tape, self._steps, x, self._weight, self._bias)
        return found


class _Map(torch.autograd.Function):
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
    def backward(ctx: Any, gained: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.tape[ctx.step] = (x, gained)
        return None, None, gained @ weight if ctx.needs_input_grad[2] else None, None, None


class _Learn(torch.autograd.Function):
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
