"""PyTorch's own optimizers, made from settings; what is no weight is not decayed."""

from typing import Any

import torch
from torch import nn

from regard.train.settings import Optimizer


def made(
    model: nn.Module, settings: Optimizer, *, fused: bool = True, captured: bool = False
) -> torch.optim.Optimizer:
    """The optimizer of the parameters of `model` that want a gradient.

    Args:
        fused: one kernel for all parameters where PyTorch has one; not with a gradient scaler.
        captured: all that a step needs lies on the card, the rate too, so that it can be recorded.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("fit: expected a model with parameters to train, got none")
    told = settings.filled()
    groups = _groups(parameters, told.pop("decay"))
    rate = told.pop("rate")
    told["lr"] = torch.tensor(rate, device=parameters[0].device) if captured else rate
    if captured and settings.kind != "sgd":
        told["capturable"] = True
    if settings.kind == "adadelta":
        return torch.optim.Adadelta(groups, **told)
    fused = fused and all(p.is_floating_point() for p in parameters)
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": torch.optim.SGD,
    }
    made: torch.optim.Optimizer = kinds[settings.kind](groups, fused=fused or None, **told)
    return made


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Let the next step take this rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def moments(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """What the optimizer remembers of each parameter, by the parameter's name."""
    state = optimizer.state_dict()["state"]
    names = _names(optimizer, model)
    return {names[place]: remembered for place, remembered in state.items()}


def remember(optimizer: torch.optim.Optimizer, model: nn.Module, moments: dict[str, Any]) -> None:
    """Put back what the optimizer remembered; rates and decays stay those of the settings.

    What it remembers already is written over in place: a recorded step knows no other.
    """
    if optimizer.state:
        _written_over(optimizer, model, moments)
        return
    state = optimizer.state_dict()
    places = {name: place for place, name in enumerate(_names(optimizer, model))}
    state["state"] = {places[name]: found for name, found in moments.items() if name in places}
    optimizer.load_state_dict(state)


def _written_over(
    optimizer: torch.optim.Optimizer, model: nn.Module, moments: dict[str, Any]
) -> None:
    parameters = dict(model.named_parameters())
    for name, remembered in moments.items():
        for key, value in remembered.items():
            if isinstance(value, torch.Tensor):
                optimizer.state[parameters[name]][key].copy_(value)


def _names(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[str]:
    """The names of the parameters, in the order in which the optimizer counts them."""
    names = {id(p): name for name, p in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def _groups(parameters: list[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Matrices, which decay, and vectors (biases and norms), which do not."""
    if not decay:
        # said also where it is zero: the default of AdamW is not
        return [{"params": parameters, "weight_decay": 0.0}]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
