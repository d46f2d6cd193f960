"""One training, from a task to a folder with a model in it that has learned it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import config as configs
from regard import zoo
from regard.data.instances import InstanceBatches
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointing import asked
from regard.recipes.pointing.config import MODELS, Config, ModelConfig
from regard.train import Fitted, checkpoints, fit, silent
from regard.train.runs import Result, circumstances, opened

# What the instances that decide what is best are drawn with.
SEED = 2**31


def trained(
    recipe: Any,
    config: Config,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> Result:
    """Train, keep the best weights by held-out instances, and measure them on others.

    Args:
        recipe: a `Recipe`: what is learned from, and what is measured of a model.
    """
    task = config.data
    folder = opened(
        recipe.name,
        config,
        data={"task": configs.plain(task)},
        name=config.name,
        out=out,
        resume=resume,
        step=step,
    )
    torch.manual_seed(config.training.seed)
    sized = _sized(config.model, task, recipe.follows)
    model = MODELS[type(sized)](sized)
    fitted = fit(
        model,
        recipe.loss,
        InstanceBatches(task, seed=config.training.seed, **vars(config.batches)),
        config.training,
        run=folder,
        judge=_judge(recipe, task),
        report=report or silent,
        resume=resume is not None if step is None else checkpoints.name(step),
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    card = _card(recipe, config, folder, fitted)
    loaded = zoo.Loaded(model.eval(), None, sized, card)
    card["numbers"] = recipe.known(loaded)
    loaded = zoo.Loaded(model.cpu(), None, sized, card)
    zoo.save(folder, model, sized, card)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    # the answer stands in the first line, and what is to be said of it below
    said, _, remark = recipe.predict(loaded, recipe.example).text.partition("\n")
    shown = [(recipe.example, said, remark)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def _sized(model: ModelConfig, task: Any, follows: Any) -> ModelConfig:
    """The model for points of this task."""
    if isinstance(model, PointerNetworkConfig):
        return replace(model, inputs=task.inputs, follows=follows)
    return replace(model, inputs=task.inputs)


def _judge(recipe: Any, task: Any) -> Any:
    """What held-out answers are worth, of few points and of many; the last number is of the most.

    Numbers of several sizes are told apart by the size behind their names.
    """
    several = {min(size, task.most): count for size, count in recipe.development}
    posed = {size: asked.drawn(task, size, count, SEED) for size, count in several.items()}
    how = recipe.evaluation()

    def judge(model: nn.Module) -> dict[str, float]:
        found: dict[str, float] = {}
        for size, questions in posed.items():
            answers = recipe.answered(model, questions.points, task, how)
            numbers = recipe.judged(questions, answers, how)
            told = {name: x for name, x in numbers.items() if isinstance(x, int | float)}
            found |= told | {f"{name}_{size}": x for name, x in told.items()}
        return found

    return judge


def _card(recipe: Any, config: Config, folder: Path, fitted: Fitted) -> dict[str, Any]:
    """What is known of a trained model before it is measured."""
    weights = list(fitted.model.parameters())
    return {
        "name": folder.name,
        "recipe": recipe.name,
        "about": recipe.about,
        "settings": configs.plain(config),
        "seed": config.training.seed,
        "parameters": sum(weight.numel() for weight in weights),
        "steps": fitted.step,
        **circumstances(folder, seconds=fitted.seconds, device=weights[0].device.type),
    }
