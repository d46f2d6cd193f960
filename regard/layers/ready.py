"""Models with their weights made ready once, to decode many sources on a CPU."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.layers import gates, products
from regard.layers.products import Make


@runtime_checkable
class Readies(Protocol):
    """A model with a shorter way on a CPU, if its weights were made ready for it."""

    def ready(self, make: Make) -> Any:
        """What its `start` takes as `ready`; None if there is no shorter way for its kind."""


class Prepared(NamedTuple):
    """A model, and what its `start` goes by."""

    model: Any
    ready: Any

    def start(self, source: Any) -> Any:
        """The state before the first token, as the model's own."""
        return self.model.start(source, ready=self.ready)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits and the state after `tokens`, as the model's own."""
        logits, after = self.model.step(tokens, state)
        return logits, after


@torch.no_grad()
def prepared(model: nn.Module, make: Make = products.packed) -> Any:
    """What `regard.decode` takes in place of a model on a CPU, while its weights stay as they are.

    When they have learned, make it anew: part of them was copied. Packed in float32 it gives the
    model's own numbers, rounded in another order; `products.int8` gives numbers near to them. On a
    card, decode the model itself.

    Args:
        model: which is to be decoded, and not to learn.
        make: what its products are made of, `products.packed` or `products.int8`.
    """
    ready = model.ready(make) if isinstance(model, Readies) else None
    return _twin(model, make, {}) if ready is None else Prepared(model, ready)


class _Linear(nn.Linear):
    """A layer whose product is ready; its weights are those of `linear` themselves."""

    def __init__(self, linear: nn.Linear, make: Make):
        _alike(self, linear)
        self.product = products.of(linear, make)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if _learns(self) else self.product(x)


class _Recurrent(nn.Module):
    """The products of a cell, or of a net of one layer: of what it reads and what it recalls."""

    def __init__(self, net: nn.Module, make: Make):
        _alike(self, net)
        weights = {name.removesuffix("_l0"): x for name, x in net.named_parameters(recurse=False)}
        self.reads = make(weights["weight_ih"], weights.get("bias_ih"))
        self.recalls = make(weights["weight_hh"], weights.get("bias_hh"))

    def apt(self, x: Any, before: Any) -> bool:
        """Whether a cell is given rows (B, ·) and what was before, and learns nothing."""
        return before is not None and x.dim() == 2 and not _learns(self)

    def apt_alone(self, x: Any, before: Any) -> bool:
        """Whether a net is given batches (B, S, ·) and nothing else, and learns nothing."""
        given = before is None and isinstance(x, Tensor) and x.dim() == 3
        return given and not _learns(self)


class _GRUCell(_Recurrent, nn.GRUCell):
    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        if h is None or not self.apt(x, h):
            return super().forward(x, h)
        return gates.gru(self.reads(x), self.recalls(h), h)


class _LSTMCell(_Recurrent, nn.LSTMCell):
    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Tensor]:
        if not self.apt(x, state):
            return super().forward(x, state)
        h, c = state
        return gates.lstm(self.reads(x), self.recalls(h), c)


class _GRU(_Recurrent, nn.GRU):
    def forward(self, x: Any, first: Any = None) -> Any:
        if not self.apt_alone(x, first):
            return super().forward(x, first)
        h, states = x.new_zeros(len(x), self.hidden_size), []
        for of_x in self.reads(x).unbind(1):
            h = gates.gru(of_x, self.recalls(h), h)
            states.append(h)
        return torch.stack(states, 1), h[None]


class _LSTM(_Recurrent, nn.LSTM):
    def forward(self, x: Any, first: Any = None) -> Any:
        if not self.apt_alone(x, first):
            return super().forward(x, first)
        h = c = x.new_zeros(len(x), self.hidden_size)
        states = []
        for of_x in self.reads(x).unbind(1):
            h, c = gates.lstm(of_x, self.recalls(h), c)
            states.append(h)
        return torch.stack(states, 1), (h[None], c[None])


_KINDS: dict[type, Any] = {
    nn.Linear: _Linear,
    nn.GRUCell: _GRUCell,
    nn.LSTMCell: _LSTMCell,
    nn.GRU: _GRU,
    nn.LSTM: _LSTM,
}


def _twin(module: nn.Module, make: Make, made: dict[nn.Module, nn.Module]) -> nn.Module:
    """A module like this one, with the same weights, of layers that are ready.

    Args:
        module: which stays as it is.
        make: as in `prepared`.
        made: the twins of modules that were met before.
    """
    if module not in made:
        kind = None if _deep(module) else _KINDS.get(type(module))
        made[module] = kind(module, make) if kind else _alike(object.__new__(type(module)), module)
        for name, child in module._modules.items():
            if child is not None:
                made[module]._modules[name] = _twin(child, make, made)
    return made[module]


def _deep(module: nn.Module) -> bool:
    """Whether a module is a recurrent net that is more than one layer read from its start."""
    if not isinstance(module, nn.RNNBase):
        return False
    ahead = module.batch_first and not module.bidirectional and not module.proj_size
    return module.num_layers > 1 or not ahead


def _alike(new: nn.Module, module: nn.Module) -> nn.Module:
    """A new module with all that another has, its parameters, buffers and children among it."""
    new.__dict__.update(module.__dict__)
    for kind in ("_parameters", "_buffers", "_modules"):
        new.__dict__[kind] = dict(module.__dict__[kind])
    return new


def _learns(module: nn.Module) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters(False))
