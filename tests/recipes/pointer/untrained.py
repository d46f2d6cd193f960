"""Pointer networks that have learned nothing, and answers that are made up."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from regard import config as configs
from regard import zoo
from regard.models.attention_pointer import AttentionPointerConfig
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointer.config import MODELS
from regard.recipes.pointer.train import config_for_task
from regard.zoo import Loaded

NET = PointerNetworkConfig(encoder="attention", width=8, heads=2, layers=1, feed_forward_width=13)
LSTM = PointerNetworkConfig(width=7)
WORDS = PointerNetworkConfig(width=7, output="vocabulary", max_points=7)
TOURING = AttentionPointerConfig(width=8, heads=2, layers=1, feed_forward_width=13)


def untrained(recipe: ModuleType, model: Any = NET, **task: Any) -> Loaded:
    """A model for a task of this recipe, as it would be loaded."""
    data = replace(recipe.Config().data, **task)
    sized = config_for_task(model, data, recipe.RECIPE.pointing_rule)
    torch.manual_seed(0)
    net = MODELS[type(sized)](sized)
    card = {
        "name": "tiny",
        "recipe": recipe.RECIPE.name,
        "about": "knows nothing",
        "model": sized.kind,
        "settings": {"data": configs.to_json(data)},
        "numbers": {},
    }
    return Loaded(net.eval(), None, sized, card)


def saved(folder: Path, recipe: ModuleType, model: Any = NET, **task: Any) -> str:
    """The folder of such a model."""
    loaded = untrained(recipe, model, **task)
    zoo.save(folder, loaded.model, loaded.config, loaded.card)
    return str(folder)
