"""What can be typed behind a command: its arguments and options, with a line of help for each."""

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli import resolve
from regard.cli.console import print_table, print_text

PICTURE_SUFFIXES = (".png", ".svg", ".pdf", ".html")

Model = Annotated[str, typer.Argument(metavar="NAME_OR_RUN", help="As `regard list` shows it.")]
Text = Annotated[str, typer.Argument(help="A sentence, or what else the model takes.")]
TextOrLines = Annotated[
    str, typer.Argument(help="A sentence, or what else the model takes; `-` reads standard input.")
]
OptionalText = Annotated[
    str | None, typer.Argument(help="A sentence, or what else the model takes; else an example.")
]
Settings = Annotated[list[str] | None, typer.Argument(metavar="FIELD=VALUE", help="What to set.")]
Folder = Annotated[Path | None, typer.Option(help="The run's folder; else one in runs/.")]
Resume = Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")]
Step = Annotated[int | None, typer.Option(min=0, help="Resume from this checkpoint.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="A grid: so many runs side by side.")]
Only = Annotated[str | None, typer.Option(help="A grid: this row alone.")]
PictureFile = Annotated[
    Path | None, typer.Option("--out", "-o", help=f"A file {' '.join(PICTURE_SUFFIXES)}")
]
Kind = Annotated[
    Literal["matrix", "ribbons", "arcs", "wall", "tape", "plane"] | None,
    typer.Option(
        help="Arcs lead over a sentence to what each token reads, the wall shows all heads, the "
        "tape a memory over time, the plane points that are pointed at; else what fits."
    ),
]
Words = Annotated[bool, typer.Option("--words/--tokens", help="Words, or what a model reads.")]
Beam = Annotated[
    int | None, typer.Option(min=1, max=100, help="How many beams; 1 is greedy; else as usual.")
]
Prove = Annotated[
    bool, typer.Option("--prove", help="Also find the best answer that there is, and prove it.")
]
Host = Annotated[str, typer.Option(help="Any other lets others than this machine in.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open it, or not.")]
Traces = Annotated[list[Path] | None, typer.Option("--trace", help="A saved trace to open.")]
Budget = Annotated[int, typer.Option(min=16, help="MB for models and traces in memory.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class Place:
    """Which head of what a model looks at, and of a tape or a plane which step."""

    map: Annotated[str | None, typer.Option(help="Such as cross; else the first.")] = None
    layer: Annotated[int, typer.Option(min=0, help="From 0.")] = 0
    head: Annotated[int, typer.Option(min=0, help="From 0.")] = 0
    step: Annotated[
        int | None, typer.Option(min=0, help="A tape or a plane: the step shown up close.")
    ] = None


DEFAULT_PLACE = Place()


def with_place_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes a `place`, as one that takes its fields as options of their own."""

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        place = Place(*(arguments.pop(option.name) for option in options))
        return command(place=place, **arguments)

    options = list(inspect.signature(Place).parameters.values())
    own = list(inspect.signature(command).parameters.values())
    where = [parameter.name for parameter in own].index("place")
    whole = [*own[:where], *options, *own[where + 1 :]]
    wrapper.__signature__ = inspect.Signature(whole)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in whole}
    return wrapper


def print_config_fields(words: list[str]) -> None:
    """Every field that can be set of the recipes among `words`, with the values they give it."""
    from regard.config import fields

    for name in (word for word in words if word in resolve.RECIPES):
        module = resolve.recipe_module(name)
        config: Any = module.Config
        with suppress(resolve.UsageError):  # who asks for help may have typed what is not there
            settings = resolve.split_setting("grid", [word for word in words if "=" in word])[1]
            config = resolve.recipe_and_config(name, None, settings)[1]
        for command, shown in (("train", config), ("evaluate", module.Evaluation)):
            print_text(f"\nFields for `regard {command}`, and their defaults:")
            typed = {"None": "none", "True": "true", "False": "false"}
            rows = (
                (f.name, str(f.default), "; ".join(filter(None, (f.type_description, f.about))))
                for f in fields(shown)
            )
            print_table((name, typed.get(default, default), about) for name, default, about in rows)
        if presets := resolve.named_choices(module, "preset"):
            known = ", ".join(presets)
            print_text(f"\nWhole configs for `regard train {name} preset=NAME`:\n  {known}")
        if grids := resolve.named_choices(module, "grid"):
            print_text(f"\nWhole tables for `regard train {name} grid=NAME`:")
            print_table((grid, held.about) for grid, held in grids.items())
