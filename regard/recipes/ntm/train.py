"""One training, from a task to a folder with a machine in it that has learned it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard import zoo
from regard.data.ntm.episodes import EpisodeBatches
from regard.recipes import synthetic
from regard.recipes.ntm.config import MODELS
from regard.recipes.ntm.loss import loss, score_episodes
from regard.recipes.ntm.metrics import held_out_episodes
from regard.recipes.synthetic import Config, TrainingSetup
from regard.train import journal
from regard.train.runs import Result

# Episodes that decide what is best, those beyond the task, and the seed they are drawn with.
VALIDATION_EPISODES, HARDER_EPISODES, VALIDATION_SEED = 256, 64, 2**31
# Bits an episode, below which a task is solved.
SOLVED_BITS = 0.1


def train_recipe(recipe: Any, config: Config, **run_options: Any) -> Result:
    """Train, keep the best weights by held-out episodes, and measure them on others.

    Args:
        recipe: a `Recipe`: its name, and what is measured of a model and typed for it.
        run_options: what `fit_in_run_folder` takes: the folder, who reports, what goes on.
    """
    task = config.data
    sized = replace(config.model, inputs=task.inputs, outputs=task.outputs)
    batches = EpisodeBatches(task, seed=config.training.seed, **vars(config.batches))
    learning = TrainingSetup(loss, batches, recipe.build_validator(task))
    folder, fitted = synthetic.fit_in_run_folder(
        recipe.name, config, lambda: MODELS[type(sized)](sized), learning, **run_options
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    rows, model = config.batches.rows, fitted.model
    card = synthetic.build_card(recipe, config, folder, fitted) | {"episodes": fitted.step * rows}
    loaded = zoo.Loaded(model.eval(), None, sized, card)
    card["numbers"] = {**recipe.card_metrics(loaded), **_time_to_solve(folder, rows)}
    loaded = zoo.Loaded(model.cpu(), None, sized, card)
    zoo.save(folder, model, sized, card)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    text = recipe.example(task)
    said = recipe.predict(loaded, text)
    shown = [(text, said.text, said.answer)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def build_validator(task: Any, harder_task: Any = None) -> Any:
    """The error of held-out episodes in bits, and how many of them are without one.

    Beside it the error of those that go further than the task, and the geometric mean of both
    errors: as it falls, neither is lost for the other.
    """
    batch = held_out_episodes(task, VALIDATION_EPISODES, VALIDATION_SEED)
    beyond = (
        None
        if harder_task is None
        else held_out_episodes(harder_task(task), HARDER_EPISODES, VALIDATION_SEED)
    )

    def validate(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        bits, right = score_episodes(model, batch.to(device))
        found = {"bits": float(bits.mean()), "perfect": float(right.double().mean())}
        if beyond is not None:
            found["further"] = float(score_episodes(model, beyond.to(device))[0].mean())
            found["both"] = (found["bits"] * found["further"]) ** 0.5
        return found

    return validate


def _time_to_solve(folder: Path, rows: int) -> dict[str, int | float | None]:
    """After how many episodes, and seconds, held-out ones cost less than a tenth of a bit."""
    seconds: dict[int, float | None] = {}
    for line in journal.read_lines(folder / "journal.jsonl"):
        # what is not finite is null in a journal
        bits = line.get("metrics", {}).get("bits")
        if line["event"] == "train":
            seconds[line["step"]] = line.get("seconds")
        elif line["event"] == "validate" and isinstance(bits, int | float) and bits < SOLVED_BITS:
            at = line["step"]
            return {"solved_after": at * rows, "solved_seconds": seconds.get(at)}
    return {"solved_after": None, "solved_seconds": None}
