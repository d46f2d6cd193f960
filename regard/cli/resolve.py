"""What was typed, as values: a recipe, its config, a trained model; and what an error deserves."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from regard.cli.console import escape_unprintable
from regard.config.suggest import suggestion

# Each recipe's module, imported when asked for, and what it is, for a list that imports nothing.
RECIPES = {
    "translate": ("regard.recipes.translate", "recurrent nets and Transformers that translate"),
    "copy": ("regard.recipes.copy", "a Neural Turing Machine that copies vectors of bits"),
    "repeat_copy": ("regard.recipes.repeat_copy", "one that copies them as often as it is told"),
    "recall": ("regard.recipes.recall", "one that names the item that followed another"),
    "ngrams": ("regard.recipes.ngrams", "one that foretells bits by a table it has to learn"),
    "sort_bits": ("regard.recipes.sort_bits", "one that sorts vectors by their priorities"),
    "hull": ("regard.recipes.hull", "a pointer network that points at convex hulls"),
    "delaunay": ("regard.recipes.delaunay", "one that points at triangles between points"),
    "tsp": ("regard.recipes.tsp", "attention that points at cities along a short round trip"),
    "sort": ("regard.recipes.sort", "a pointer network that sorts numbers"),
}
# What was typed is not there or does not fit: exit code 2. Typer does not say its name in public.
UsageError: Any = typer.BadParameter.__base__
# The most characters of an error that are shown: what was typed may be of any length.
MAX_ERROR_CHARACTERS = 600
# Under which name a recipe holds what can be asked for by a word: whole configs, and tables.
RECIPE_TABLES = {"preset": "PRESETS", "grid": "GRIDS"}


def recipe_module(name: str) -> ModuleType:
    """The module of a recipe."""
    if name not in RECIPES:
        near = suggestion(name, RECIPES)
        raise UsageError(f"expected a recipe ({', '.join(RECIPES)}), got {name or 'none'}{near}")
    return import_module(RECIPES[name][0])


def load_model(name: str) -> tuple[Any, ModuleType]:
    """A trained model, and its recipe."""
    from regard import zoo

    with as_usage_errors():
        folder = zoo.find_model_folder(name)
    found = zoo.load(folder)
    return found, recipe_module(found.card["recipe"])


def recipe_and_config(
    name: str | None, resume: Path | None, settings: list[str]
) -> tuple[str, Any]:
    """A recipe's name and its config: new or as in the run that goes on, with these settings.

    A new one is the recipe's own, or with `preset=NAME` another that it offers by that name.
    """
    from regard import config, zoo

    preset, others = split_setting("preset", settings)
    if preset is not None and resume is not None:
        raise UsageError(f"expected preset={preset} for a new run, got --resume {resume}")
    with as_usage_errors():
        named, told = zoo.read_run_settings(resume) if resume else (str(name or ""), {})
        if name not in (None, named):
            raise UsageError(f"{resume} is a run of {named}, got {name}")
        module = recipe_module(named)
        base = (
            config.from_json(module.Config, told)
            if preset is None
            else named_choice(module, "preset", preset)
        )
        return named, config.override(base, others)


def grid_plan(name: str, grid: str, settings: list[str], out: Path | None, only: str | None) -> Any:
    """The plan of a grid that a recipe offers, with these settings."""
    from regard.train.grids import plan_grid
    from regard.train.runs import RUNS_FOLDER

    found, folder = (
        named_choice(recipe_module(name), "grid", grid),
        out or RUNS_FOLDER / name / f"grid-{grid}",
    )
    if any(setting.startswith("preset=") for setting in settings):
        raise UsageError(
            f"expected no preset=… beside grid={grid}, which begins with its own config"
        )
    with as_usage_errors():
        return plan_grid(name, grid, found, settings, folder, only=only)


def split_setting(word: str, settings: list[str]) -> tuple[str | None, list[str]]:
    """What was typed as `word=…`, or None, and all the other settings."""
    values = [text.removeprefix(f"{word}=") for text in settings if text.startswith(f"{word}=")]
    if len(values) > 1:
        raise UsageError(f"expected {word}=… once, got {' and '.join(values)}")
    others = [text for text in settings if not text.startswith(f"{word}=")]
    return (values[0] if values else None), others


def named_choices(module: ModuleType, word: str) -> dict[str, Any]:
    """What may stand behind `word=` for this recipe, by name; a recipe need not offer any."""
    there: dict[str, Any] = vars(module).get(RECIPE_TABLES[word], {})
    return there


def named_choice(module: ModuleType, word: str, name: str) -> Any:
    """What a recipe offers as `word=name`."""
    there = named_choices(module, word)
    if name not in there:
        known = f"one of {', '.join(there)}" if there else "nothing: this recipe has none"
        raise UsageError(f"expected {word}=… with {known}, got {name}{suggestion(name, there)}")
    return there[name]


def search_options(name: str, run: Callable[..., Any], beam: int | None) -> dict[str, int]:
    """What `run` of a recipe is told of its search: nothing, unless a number of beams was typed."""
    if beam is None:
        return {}
    if "beam" not in inspect.signature(run).parameters:
        raise UsageError(f"{name} searches with no beams; leave --beam out")
    return {"beam": beam}


def proof_options(name: str, run: Callable[..., Any], prove: bool) -> dict[str, bool]:
    """What `run` of a recipe is told of proofs: nothing, unless one was asked for."""
    if not prove:
        return {}
    if "prove" not in inspect.signature(run).parameters:
        raise UsageError(f"{name} can prove no answer; leave --prove out")
    return {"prove": True}


def details(prediction: Any) -> dict[str, Any]:
    """What a recipe's answer tells beside its text, for programs; a recipe need not tell any."""
    there = vars(prediction).get("details")
    return {"details": there} if there else {}


def example_input(module: ModuleType) -> str:
    """What a recipe's models can be asked when nothing was typed; a recipe need not offer it."""
    text: str = vars(module).get("EXAMPLE", "I see a cat.")
    return text


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Inside, whatever does not fit is what was typed."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def exit_code_and_message(error: BaseException) -> tuple[int, str]:
    """The exit code and the one line that an error deserves."""
    code, line = _exit_code_and_line(error)
    # as it is shown: an escape is up to ten letters long
    line = escape_unprintable(" ".join(line.split()))
    if len(line) <= MAX_ERROR_CHARACTERS:
        return code, line
    # what is wrong stands in front, and the way out at the end
    half = MAX_ERROR_CHARACTERS // 2
    return code, f"{line[:half]} … {line[-half:]}"


def _exit_code_and_line(error: BaseException) -> tuple[int, str]:
    line = str(error).removeprefix("load: ")
    if isinstance(error, BrokenPipeError):
        return 0, ""  # who read this has seen enough
    if isinstance(error, KeyboardInterrupt):
        return 1, "interrupted"
    if isinstance(error, UsageError):
        return 2, error.format_message().removeprefix("load: ")
    if isinstance(error, OSError) and error.strerror:
        return 1, f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    if isinstance(error, MemoryError) or "can't allocate memory" in line:  # of numpy, of torch
        return 1, "not enough memory for what was asked; ask for less at a time"
    if isinstance(error, ValueError | ModuleNotFoundError | OSError) and line:
        return 1, line
    return 1, f"{type(error).__name__}: {line}; run again with --debug to see where"
