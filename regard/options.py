"""What can be typed behind a command: its arguments and options, with a line of help for each."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

PICTURES = (".png", ".svg", ".pdf", ".html")

Model = Annotated[str, typer.Argument(metavar="NAME_OR_RUN", help="As `regard list` shows it.")]
Text = Annotated[str, typer.Argument(help="A sentence, or what else the model takes.")]
TextOrLines = Annotated[
    str, typer.Argument(help="A sentence, or what else the model takes; `-` reads standard input.")
]
AnyText = Annotated[
    str | None, typer.Argument(help="A sentence, or what else the model takes; else an example.")
]
Settings = Annotated[list[str] | None, typer.Argument(metavar="FIELD=VALUE", help="What to set.")]
Folder = Annotated[Path | None, typer.Option(help="The run's folder; else one in runs/.")]
Resume = Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")]
Step = Annotated[int | None, typer.Option(min=0, help="Resume from this checkpoint.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="A grid: so many runs side by side.")]
Only = Annotated[str | None, typer.Option(help="A grid: this row alone.")]
Picture = Annotated[Path | None, typer.Option("--out", "-o", help=f"A file {' '.join(PICTURES)}")]
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


FIRST = Place()


def placed(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes a `place`, as one that takes its fields as options of their own."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        place = Place(*(given.pop(option.name) for option in options))
        return command(place=place, **given)

    options = list(inspect.signature(Place).parameters.values())
    own = list(inspect.signature(command).parameters.values())
    where = [parameter.name for parameter in own].index("place")
    whole = [*own[:where], *options, *own[where + 1 :]]
    run.__signature__ = inspect.Signature(whole)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in whole}
    return run
