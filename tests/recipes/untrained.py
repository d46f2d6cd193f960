"""Models that have learned nothing: small machines, and what says whatever it is told to."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from regard import config as configs
from regard.models.lstm import LSTMConfig
from regard.models.ntm import NTMConfig
from regard.recipes.ntm.config import MODELS
from regard.zoo import Loaded

MACHINE = NTMConfig(width=7, slots=8, slot_width=5)
NET = LSTMConfig(width=7, layers=2)


def untrained(recipe: ModuleType, config: Any = MACHINE, **task: Any) -> Loaded:
    """A model for a task of this recipe, as it would be loaded."""
    data = replace(recipe.Config().data, **task)
    sized = replace(config, inputs=data.inputs, outputs=data.outputs)
    name = recipe.__name__.rpartition(".")[2]
    card = {"name": "tiny", "recipe": name, "settings": {"data": configs.to_json(data)}}
    return Loaded(MODELS[type(sized)](sized).eval(), None, sized, card)


class Says(nn.Module):
    """Says what a function makes of its inputs (B, T, I), as logits (B, T, O)."""

    def __init__(self, logits: Callable[[Tensor], Tensor]):
        super().__init__()
        self.logits = logits
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor, slots: int | None = None) -> tuple[Tensor, None]:
        """The logits, and no state."""
        return self.logits(inputs), None


def saying(loaded: Loaded, logits: Callable[[Tensor], Tensor]) -> Loaded:
    """The same, but what it says is made up."""
    return replace(loaded, model=Says(logits))


def copying(inputs: Tensor) -> Tensor:
    """What a machine says that can copy: the first episode decides of which length all are."""
    bits, n = inputs.shape[2] - 2, int(inputs[0, :, -1].argmax()) - 1
    logits = torch.zeros(*inputs.shape[:2], bits)
    logits[:, 2 + n : 2 + 2 * n] = 100 * (2 * inputs[:, 1 : 1 + n, :bits] - 1)
    return logits
