"""One training, from a task to a folder with a model in it that has learned it."""

from dataclasses import replace
from typing import Any

from torch import nn

from regard import zoo
from regard.data.geometry.instances import InstanceBatches
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes import synthetic
from regard.recipes.pointer import problems
from regard.recipes.pointer.config import MODELS, ModelConfig
from regard.recipes.synthetic import Config, TrainingSetup
from regard.train.runs import Result

# What the instances that decide what is best are drawn with.
VALIDATION_SEED = 2**31


def train_recipe(recipe: Any, config: Config, **run_options: Any) -> Result:
    """Train, keep the best weights by held-out instances, and measure them on others.

    Args:
        recipe: a `Recipe`: what is learned from, and what is measured of a model.
        run_options: what `fit_in_run_folder` takes: the folder, who reports, what goes on.
    """
    task = config.data
    sized = config_for_task(config.model, task, recipe.pointing_rule)
    batches = InstanceBatches(task, seed=config.training.seed, **vars(config.batches))
    learning = TrainingSetup(recipe.loss_function(config), batches, recipe.build_validator(task))
    folder, fitted = synthetic.fit_in_run_folder(
        recipe.name, config, lambda: MODELS[type(sized)](sized), learning, **run_options
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    model = fitted.model
    card = synthetic.build_card(recipe, config, folder, fitted) | {"steps": fitted.step}
    loaded = zoo.Loaded(model.eval(), None, sized, card)
    card["numbers"] = recipe.card_metrics(loaded)
    loaded = zoo.Loaded(model.cpu(), None, sized, card)
    zoo.save(folder, model, sized, card)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    # the answer stands in the first line, and what is to be said of it below
    said, _, remark = recipe.predict(loaded, recipe.example).text.partition("\n")
    shown = [(recipe.example, said, remark)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def config_for_task(config: ModelConfig, task: Any, pointing_rule: Any) -> ModelConfig:
    """The model for points of this task."""
    if isinstance(config, PointerNetworkConfig):
        return replace(config, inputs=task.inputs, pointing_rule=pointing_rule)
    return replace(config, inputs=task.inputs)


def build_validator(recipe: Any, task: Any) -> Any:
    """What held-out answers are worth, of few points and of many; the last number is of the most.

    Numbers of several sizes are told apart by the size behind their names.
    """
    several = {min(size, task.max_points): count for size, count in recipe.validation_sizes}
    posed = {
        size: problems.draw_problems(task, size, count, VALIDATION_SEED)
        for size, count in several.items()
    }
    how = recipe.evaluation_type()

    def validate(model: nn.Module) -> dict[str, float]:
        found: dict[str, float] = {}
        for size, questions in posed.items():
            answers = recipe.decode_answers(model, questions.points, task, how)
            numbers = recipe.answer_metrics(questions, answers, how)
            told = {name: x for name, x in numbers.items() if isinstance(x, int | float)}
            found |= told | {f"{name}_{size}": x for name, x in told.items()}
        return found

    return validate
