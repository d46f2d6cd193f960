"""What recipes share whose data is drawn without end: settings, a training, what was learned."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from regard import config as configs
from regard.data.licences import GENERATED, licence_field
from regard.train import Fitted, checkpoints, fit, silent
from regard.train.runs import circumstances, finite_metrics, opened
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


class Learning(NamedTuple):
    """What is learned from, and what decides which weights are best."""

    loss: Callable[..., Any]
    batches: Any
    judge: Callable[[nn.Module], dict[str, float]]


def fitted(
    name: str,
    config: Config,
    build: Callable[[], nn.Module],
    learning: Learning,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> tuple[Path, Fitted]:
    """The folder of a training, and what it gave.

    Args:
        name: that of the recipe.
        build: the model, made when the seed is set.
    """
    folder = opened(
        name,
        config,
        data={"task": configs.plain(config.data)},
        name=config.name,
        out=out,
        resume=resume,
        step=step,
    )
    torch.manual_seed(config.training.seed)
    found = fit(
        build(),
        learning.loss,
        learning.batches,
        config.training,
        run=folder,
        judge=learning.judge,
        report=report or silent,
        resume=resume is not None if step is None else checkpoints.name(step),
    )
    return folder, found


def card(recipe: Any, config: Config, folder: Path, fitted: Fitted) -> dict[str, Any]:
    """What is known of a trained model before it is measured."""
    weights = list(fitted.model.parameters())
    return {
        "name": folder.name,
        "recipe": recipe.name,
        "about": recipe.about,
        "settings": configs.plain(config),
        "licence": licence_field(GENERATED),
        "seed": config.training.seed,
        "parameters": sum(weight.numel() for weight in weights),
        "development": finite_metrics(fitted.metrics),
        **circumstances(folder, seconds=fitted.seconds, device=weights[0].device.type),
    }


def learned(recipe: Any, loaded: Any) -> Any:
    """The task that a model has learned; one of another recipe is refused."""
    return known(recipe, loaded.card)


def known(recipe: Any, card: Mapping[str, Any]) -> Any:
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
        return configs.restored(recipe.task, card["settings"]["data"])
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{where}: {error}") from None
