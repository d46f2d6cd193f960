"""One training, from a task to a folder with a machine in it that has learned it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard import zoo
from regard.data.episodes import EpisodeBatches
from regard.recipes import drawn
from regard.recipes.drawn import Config, Learning
from regard.recipes.machines.config import MODELS
from regard.recipes.machines.learning import judged, loss
from regard.recipes.machines.measuring import held_out
from regard.train import journal
from regard.train.runs import Result

# Episodes that decide what is best, those beyond the task, and the seed they are drawn with.
DEVELOPMENT, FURTHER, SEED = 256, 64, 2**31
# Bits an episode, below which a task is solved.
SOLVED = 0.1


def trained(recipe: Any, config: Config, **where: Any) -> Result:
    """Train, keep the best weights by held-out episodes, and measure them on others.

    Args:
        recipe: a `Recipe`: its name, and what is measured of a model and typed for it.
        where: what `drawn.fitted` takes: the folder, who reports, what goes on.
    """
    task = config.data
    sized = replace(config.model, inputs=task.inputs, outputs=task.outputs)
    batches = EpisodeBatches(task, seed=config.training.seed, **vars(config.batches))
    learning = Learning(loss, batches, recipe.judge(task))
    folder, fitted = drawn.fitted(
        recipe.name, config, lambda: MODELS[type(sized)](sized), learning, **where
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    rows, model = config.batches.rows, fitted.model
    card = drawn.card(recipe, config, folder, fitted) | {"episodes": fitted.step * rows}
    loaded = zoo.Loaded(model.eval(), None, sized, card)
    card["numbers"] = {**recipe.known(loaded), **_learned(folder, rows)}
    loaded = zoo.Loaded(model.cpu(), None, sized, card)
    zoo.save(folder, model, sized, card)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    text = recipe.example(task)
    said = recipe.predict(loaded, text)
    shown = [(text, said.text, said.answer)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def judge_for(task: Any, further: Any = None) -> Any:
    """The error of held-out episodes in bits, and how many of them are without one.

    Beside it the error of those that go further than the task, and the geometric mean of both
    errors: as it falls, neither is lost for the other.
    """
    batch = held_out(task, DEVELOPMENT, SEED)
    beyond = None if further is None else held_out(further(task), FURTHER, SEED)

    def judge(model: nn.Module) -> dict[str, float]:
        device = next(model.parameters()).device
        bits, right = judged(model, batch.to(device))
        found = {"bits": float(bits.mean()), "perfect": float(right.double().mean())}
        if beyond is not None:
            found["further"] = float(judged(model, beyond.to(device))[0].mean())
            found["both"] = (found["bits"] * found["further"]) ** 0.5
        return found

    return judge


def _learned(folder: Path, rows: int) -> dict[str, int | float | None]:
    """After how many episodes, and seconds, held-out ones cost less than a tenth of a bit."""
    seconds: dict[int, float | None] = {}
    for line in journal.lines(folder / "journal.jsonl"):
        # what is not finite is null in a journal
        bits = line.get("metrics", {}).get("bits")
        if line["event"] == "train":
            seconds[line["step"]] = line.get("seconds")
        elif line["event"] == "judge" and isinstance(bits, int | float) and bits < SOLVED:
            at = line["step"]
            return {"solved_after": at * rows, "solved_seconds": seconds.get(at)}
    return {"solved_after": None, "solved_seconds": None}
