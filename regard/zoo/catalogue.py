"""Which trained models there are: those in the package by name, all others by their folder."""

import os
from pathlib import Path
from typing import Any

from regard.config.suggest import suggestion
from regard.zoo import untrusted_files

HERE = Path(__file__).parent


def names() -> list[str]:
    """The models that come with the package."""
    return sorted(_folders_by_name())


def card(name: str) -> dict[str, Any]:
    """The card of a model that comes with the package, without its weights."""
    return untrusted_files.read_card(_folders_by_name()[name])


def describe_card(card: dict[str, Any]) -> str:
    """A line on a model for a list: what its card says it is, and its first number."""
    numbers = card.get("numbers")
    first = list(numbers.items())[:1] if isinstance(numbers, dict) else []
    told = [f"{name} {number:.4g}" for name, number in first if isinstance(number, int | float)]
    return ", ".join([str(card.get("about") or card.get("recipe")), *told])


def licence(card: dict[str, Any]) -> str:
    """The licence of a model's weights, by its name; unknown where its card has none."""
    field = card.get("licence")
    weights = field.get("weights") if isinstance(field, dict) else None
    name = weights.get("name") if isinstance(weights, dict) else None
    return name if isinstance(name, str) and name else "unknown"


def find_model_folder(name_or_folder: str | Path) -> Path:
    """The folder of a trained model, given its name in the zoo or the folder of a run.

    Raises:
        ValueError: there is none, in one line that says what there is.
    """
    if name_or_folder in _folders_by_name():
        return _folders_by_name()[str(name_or_folder)]
    folder = Path(name_or_folder)
    # isdir is False, and does not raise, for what no file system would take as a path
    if not name_or_folder or not os.path.isdir(folder):  # noqa: PTH112
        raise untrusted_files.load_error(_not_found_message(folder, str(name_or_folder)))
    if (folder / "card.json").exists():
        return folder
    if (folder / "checkpoints").exists():
        raise untrusted_files.load_error(
            f"{folder} is a run that has not finished; `regard train --resume {folder}` goes on"
        )
    raise untrusted_files.load_error(f"{folder} has no card.json, so it is no trained model")


def read_run_settings(run: Path) -> tuple[str, dict[str, Any]]:
    """The recipe and the settings of a run, finished or not."""
    if not run.is_dir():
        raise untrusted_files.load_error(f"no folder {run}, so there is no run to go on with")
    told = untrusted_files.read_json_object(run, "config.json")
    recipe, settings = told.get("recipe"), told.get("settings")
    if told.get("schema") != 1 or not isinstance(recipe, str) or not isinstance(settings, dict):
        raise untrusted_files.load_error(
            f"{run / 'config.json'}: expected schema 1, a recipe and its settings"
        )
    return recipe, settings


def _folders_by_name() -> dict[str, Path]:
    # a name is looked up here and never made into a path, so no name can lead out of the zoo
    return {path.parent.name: path.parent for path in HERE.glob("*/card.json")}


def _not_found_message(path: Path, name: str) -> str:
    if name and os.path.exists(path):  # noqa: PTH110
        return f"expected a folder, got the file {path}; the folder it lies in may be the one"
    there = ", ".join(names()) or "nothing yet"
    if os.sep in name:
        return f"no folder {name:.200}; expected a run's folder or a name of the zoo: {there}"
    return f"no trained model named {name!r:.80}; the zoo has {there}{suggestion(name, names())}"
