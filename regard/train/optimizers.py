"""PyTorch's own optimizers, made from settings; what is no weight is not decayed."""

from typing import Any

import torch
from torch import nn

from regard.train.settings import Optimizer


def build_optimizer(
    model: nn.Module, settings: Optimizer, *, fused: bool = True, capturable: bool = False
) -> torch.optim.Optimizer:
    """The optimizer of the parameters of `model` that want a gradient.

    Args:
        fused: one kernel for all parameters where PyTorch has one; not with a gradient scaler.
        capturable: all that a step needs lies on the GPU, the rate too, so that it can be
            recorded.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("fit: expected a model with parameters to train, got none")
    told = settings.hyperparameters()
    groups = _parameter_groups(parameters, told.pop("decay"))
    rate = told.pop("rate")
    told["lr"] = torch.tensor(rate, device=parameters[0].device) if capturable else rate
    if capturable and settings.kind != "sgd":
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


def named_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """What the optimizer remembers of each parameter, by the parameter's name."""
    state = optimizer.state_dict()["state"]
    names = _parameter_names(optimizer, model)
    return {names[place]: remembered for place, remembered in state.items()}


def load_named_state(
    optimizer: torch.optim.Optimizer, model: nn.Module, named: dict[str, Any]
) -> None:
    """Put back what the optimizer remembered; rates and decays stay those of the settings.

    What it remembers already is written over in place: a recorded step knows no other.
    """
    if optimizer.state:
        _overwrite_state(optimizer, model, named)
        return
    state = optimizer.state_dict()
    places = {name: place for place, name in enumerate(_parameter_names(optimizer, model))}
    state["state"] = {places[name]: found for name, found in named.items() if name in places}
    optimizer.load_state_dict(state)


def _overwrite_state(
    optimizer: torch.optim.Optimizer, model: nn.Module, named: dict[str, Any]
) -> None:
    parameters = dict(model.named_parameters())
    for name, remembered in named.items():
        for key, value in remembered.items():
            if isinstance(value, torch.Tensor):
                optimizer.state[parameters[name]][key].copy_(value)


def _parameter_names(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[str]:
    """The names of the parameters, in the order in which the optimizer counts them."""
    names = {id(p): name for name, p in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def _parameter_groups(parameters: list[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Matrices, which decay, and vectors (biases and norms), which do not."""
    if not decay:
        # said also where it is zero: the default of AdamW is not
        return [{"params": parameters, "weight_decay": 0.0}]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
