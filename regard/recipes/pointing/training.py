"""One training, from a task to a folder with a model in it that has learned it."""

from dataclasses import replace
from typing import Any

from torch import nn

from regard import zoo
from regard.data.instances import InstanceBatches
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes import drawn
from regard.recipes.drawn import Config, Learning
from regard.recipes.pointing import asked
from regard.recipes.pointing.config import MODELS, ModelConfig
from regard.train.runs import Result

# What the instances that decide what is best are drawn with.
SEED = 2**31


def trained(recipe: Any, config: Config, **where: Any) -> Result:
    """Train, keep the best weights by held-out instances, and measure them on others.

    Args:
        recipe: a `Recipe`: what is learned from, and what is measured of a model.
        where: what `drawn.fitted` takes: the folder, who reports, what goes on.
    """
    task = config.data
    sized = sized_for(config.model, task, recipe.follows)
    batches = InstanceBatches(task, seed=config.training.seed, **vars(config.batches))
    learning = Learning(recipe.learns(config), batches, recipe.judge(task))
    folder, fitted = drawn.fitted(
        recipe.name, config, lambda: MODELS[type(sized)](sized), learning, **where
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    model = fitted.model
    card = drawn.card(recipe, config, folder, fitted) | {"steps": fitted.step}
    loaded = zoo.Loaded(model.eval(), None, sized, card)
    card["numbers"] = recipe.known(loaded)
    loaded = zoo.Loaded(model.cpu(), None, sized, card)
    zoo.save(folder, model, sized, card)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    # the answer stands in the first line, and what is to be said of it below
    said, _, remark = recipe.predict(loaded, recipe.example).text.partition("\n")
    shown = [(recipe.example, said, remark)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def sized_for(model: ModelConfig, task: Any, follows: Any) -> ModelConfig:
    """The model for points of this task."""
    if isinstance(model, PointerNetworkConfig):
        return replace(model, inputs=task.inputs, follows=follows)
    return replace(model, inputs=task.inputs)


def judge_for(recipe: Any, task: Any) -> Any:
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
