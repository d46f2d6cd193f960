"""One training, from a task to a folder with a machine in it that has learned it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import config as configs
from regard import zoo
from regard.data.episodes import EpisodeBatches
from regard.recipes.machines.config import MODELS, Config
from regard.recipes.machines.learning import judged, loss
from regard.recipes.machines.measuring import held_out
from regard.train import Fitted, checkpoints, fit, journal, silent
from regard.train.runs import Result, circumstances, opened

# Episodes that decide what is best, those beyond the task, and the seed they are drawn with.
DEVELOPMENT, FURTHER, SEED = 256, 64, 2**31
# Bits an episode, below which a task is solved.
SOLVED = 0.1


def trained(
    recipe: Any,
    config: Config,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> Result:
    """Train, keep the best weights by held-out episodes, and measure them on others.

    Args:
        recipe: a `Recipe`: its name, and what is measured of a model and typed for it.
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
    sized = replace(config.model, inputs=task.inputs, outputs=task.outputs)
    model = MODELS[type(sized)](sized)
    fitted = fit(
        model,
        loss,
        EpisodeBatches(task, seed=config.training.seed, **vars(config.batches)),
        config.training,
        run=folder,
        judge=_judge(task, recipe.further),
        report=report or silent,
        resume=resume is not None if step is None else checkpoints.name(step),
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    card = _card(recipe, config, folder, fitted)
    loaded = zoo.Loaded(model.eval(), None, sized, card)
    card["numbers"] = {**recipe.known(loaded), **_learned(folder, config.batches.rows)}
    loaded = zoo.Loaded(model.cpu(), None, sized, card)
    zoo.save(folder, model, sized, card)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    text = recipe.example(task)
    said = recipe.predict(loaded, text)
    shown = [(text, said.text, said.answer)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def _judge(task: Any, further: Any = None) -> Any:
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
    seconds: dict[int, float] = {}
    for line in journal.lines(folder / "journal.jsonl"):
        # what is not finite is null in a journal
        bits = line.get("metrics", {}).get("bits")
        if line["event"] == "train":
            seconds[line["step"]] = line["seconds"]
        elif line["event"] == "judge" and bits is not None and bits < SOLVED:
            at = line["step"]
            return {"solved_after": at * rows, "solved_seconds": seconds.get(at)}
    return {"solved_after": None, "solved_seconds": None}


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
        "episodes": fitted.step * config.batches.rows,
        **circumstances(folder, seconds=fitted.seconds, device=weights[0].device.type),
    }
