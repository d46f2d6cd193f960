"""What recipes share whose data is drawn without end: settings, a training, what was learned."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from regard import config as configs
from regard.data.licences import GENERATED, licence_field
from regard.train import FitResult, checkpoints, fit, silent
from regard.train.runs import create_run_folder, finite_metrics, provenance
from regard.train.settings import Training


@runtime_checkable
class Config(Protocol):
    """The settings of a recipe; each has a `Config` of its own, for its own task."""

    @property
    def name(self) -> str:
        """Stands in the name of the run's folder."""

    @property
    def data(self) -> Any:
        """The task."""

    @property
    def model(self) -> Any:
        """What learns it."""

    @property
    def training(self) -> Training:
        """How it learns."""

    @property
    def batches(self) -> Any:
        """What it learns from at a time."""


class TrainingSetup(NamedTuple):
    """What is learned from, and what decides which weights are best."""

    loss: Callable[..., Any]
    batches: Any
    validate: Callable[[nn.Module], dict[str, float]]


def fit_in_run_folder(
    name: str,
    config: Config,
    build_model: Callable[[], nn.Module],
    setup: TrainingSetup,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> tuple[Path, FitResult]:
    """The folder of a training, and what it gave.

    Args:
        name: that of the recipe.
        build_model: the model, made when the seed is set.
    """
    folder = create_run_folder(
        name,
        config,
        data={"task": configs.to_json(config.data)},
        name=config.name,
        out=out,
        resume=resume,
        step=step,
    )
    torch.manual_seed(config.training.seed)
    found = fit(
        build_model(),
        setup.loss,
        setup.batches,
        config.training,
        run=folder,
        validate=setup.validate,
        report=report or silent,
        resume=resume is not None if step is None else checkpoints.folder_name(step),
    )
    return folder, found


def build_card(recipe: Any, config: Config, folder: Path, fit_result: FitResult) -> dict[str, Any]:
    """What is known of a trained model before it is measured."""
    weights = list(fit_result.model.parameters())
    return {
        "name": folder.name,
        "recipe": recipe.name,
        "about": recipe.about,
        "settings": configs.to_json(config),
        "licence": licence_field(GENERATED),
        "seed": config.training.seed,
        "parameters": sum(weight.numel() for weight in weights),
        "development": finite_metrics(fit_result.metrics),
        **provenance(folder, seconds=fit_result.seconds, device=weights[0].device.type),
    }


def task_of_model(recipe: Any, loaded: Any) -> Any:
    """The task that a model has learned; one of another recipe is refused."""
    return task_of_card(recipe, loaded.card)


def task_of_card(recipe: Any, card: Mapping[str, Any]) -> Any:
    """The task that the model of a card has learned; a card of another recipe is refused."""
    if card.get("recipe") != recipe.name:
        raise ValueError(
            f"{recipe.name}: expected a model that was trained by this recipe, got "
            f"{card.get('name')!r:.60}, which learned {card.get('recipe')!r:.60}"
        )
    where = f"{recipe.name}: settings.data in the card.json of {card.get('name')!r:.60}"
    if "data" not in card.get("settings", {}):
        raise ValueError(f"{where}: expected the task it has learned, got nothing")
    try:
        return configs.from_json(recipe.task_type, card["settings"]["data"])
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{where}: {error}") from None
