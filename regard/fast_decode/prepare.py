"""Models with their weights made ready once, to decode many sources on a CPU."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.fast_decode import packed_linear
from regard.fast_decode.cpu import CpuDecoder, pack
from regard.fast_decode.packed_linear import LinearFactory
from regard.fast_decode.stack import find_stack
from regard.layers import gates


@torch.no_grad()
def prepare_for_cpu_decode(model: nn.Module, make: LinearFactory = packed_linear.packed) -> Any:
    """A decoder that takes the place of `model` on a CPU, its weights packed once.

    Pack again after training: part of the weights are copies. Packed in float32 it gives the
    model's own numbers, rounded in another order; `packed_linear.int8` gives numbers near to them.
    On a GPU, decode the model itself.

    Args:
        model: which is decoded, and not trained.
        make: how its linear layers are packed, `packed_linear.packed` or `packed_linear.int8`.
    """
    stack = find_stack(model)
    if stack is None or not stack.has_plain_attention:
        return _copy_with_products(model, make, {})
    return CpuDecoder(model, stack, pack(stack, make))


class _Linear(nn.Linear):
    """A layer whose product is ready; its weights are those of `linear` themselves."""

    def __init__(self, linear: nn.Linear, make: LinearFactory):
        _copy_attributes(self, linear)
        self.product = packed_linear.from_linear(linear, make)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if _needs_grad(self) else self.product(x)


class _RecurrentBase(nn.Module):
    """The products of a cell, or of a net of one layer: of what it reads and what it recalls."""

    def __init__(self, net: nn.Module, make: LinearFactory):
        _copy_attributes(self, net)
        weights = {name.removesuffix("_l0"): x for name, x in net.named_parameters(recurse=False)}
        self.input_product = make(weights["weight_ih"], weights.get("bias_ih"))
        self.hidden_product = make(weights["weight_hh"], weights.get("bias_hh"))

    def can_step(self, x: Any, state: Any) -> bool:
        """Whether a cell is given rows (B, ·) and what was before, and learns nothing."""
        return state is not None and x.dim() == 2 and not _needs_grad(self)

    def can_unroll(self, x: Any, state: Any) -> bool:
        """Whether a net is given batches (B, S, ·) and nothing else, and learns nothing."""
        given = state is None and isinstance(x, Tensor) and x.dim() == 3
        return given and not _needs_grad(self)


class _GRUCell(_RecurrentBase, nn.GRUCell):
    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        if h is None or not self.can_step(x, h):
            return super().forward(x, h)
        return gates.gru(self.input_product(x), self.hidden_product(h), h)


class _LSTMCell(_RecurrentBase, nn.LSTMCell):
    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Tensor]:
        if not self.can_step(x, state):
            return super().forward(x, state)
        h, c = state
        return gates.lstm(self.input_product(x), self.hidden_product(h), c)


class _GRU(_RecurrentBase, nn.GRU):
    def forward(self, x: Any, first: Any = None) -> Any:
        if not self.can_unroll(x, first):
            return super().forward(x, first)
        h, states = x.new_zeros(len(x), self.hidden_size), []
        for of_x in self.input_product(x).unbind(1):
            h = gates.gru(of_x, self.hidden_product(h), h)
            states.append(h)
        return torch.stack(states, 1), h[None]


class _LSTM(_RecurrentBase, nn.LSTM):
    def forward(self, x: Any, first: Any = None) -> Any:
        if not self.can_unroll(x, first):
            return super().forward(x, first)
        h = c = x.new_zeros(len(x), self.hidden_size)
        states = []
        for of_x in self.input_product(x).unbind(1):
            h, c = gates.lstm(of_x, self.hidden_product(h), c)
            states.append(h)
        return torch.stack(states, 1), (h[None], c[None])


_REPLACEMENTS: dict[type, Any] = {
    nn.Linear: _Linear,
    nn.GRUCell: _GRUCell,
    nn.LSTMCell: _LSTMCell,
    nn.GRU: _GRU,
    nn.LSTM: _LSTM,
}


def _copy_with_products(
    module: nn.Module, make: LinearFactory, copies: dict[nn.Module, nn.Module]
) -> nn.Module:
    """A module like this one, with the same weights, of layers that are ready.

    Args:
        module: which stays as it is.
        make: as in `prepare_for_cpu_decode`.
        copies: the twins of modules that were met before.
    """
    if module not in copies:
        kind = None if _is_stacked_or_reversed(module) else _REPLACEMENTS.get(type(module))
        copies[module] = (
            kind(module, make) if kind else _copy_attributes(object.__new__(type(module)), module)
        )
        for name, child in module._modules.items():
            if child is not None:
                copies[module]._modules[name] = _copy_with_products(child, make, copies)
    return copies[module]


def _is_stacked_or_reversed(module: nn.Module) -> bool:
    """Whether a module is a recurrent net that is more than one layer read from its start."""
    if not isinstance(module, nn.RNNBase):
        return False
    ahead = module.batch_first and not module.bidirectional and not module.proj_size
    return module.num_layers > 1 or not ahead


def _copy_attributes(new: nn.Module, module: nn.Module) -> nn.Module:
    """A new module with all that another has, its parameters, buffers and children among it."""
    new.__dict__.update(module.__dict__)
    for kind in ("_parameters", "_buffers", "_modules"):
        new.__dict__[kind] = dict(module.__dict__[kind])
    return new


def _needs_grad(module: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters(False))
