"""Options: what a command is handed for what was typed."""

import inspect

import pytest
import typer

from regard.cli import options
from regard.cli.options import DEFAULT_PLACE, Place, with_place_options
from regard.view.export.pictures import PICTURE_SUFFIXES


@with_place_options
def asked(first: str, place: Place = DEFAULT_PLACE, last: bool = False) -> None:
    """What was asked."""
    TOLD.append((first, place, last))


TOLD: list[tuple[str, Place, bool]] = []


def test_a_place_is_typed_field_by_field():
    assert list(inspect.signature(asked).parameters) == [
        "first",
        "map",
        "layer",
        "head",
        "step",
        "last",
    ]
    assert asked.__doc__ == "What was asked."


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("a", Place(None, 0, 0)),
        ("a --map cross --layer 2 --head 1", Place("cross", 2, 1)),
        ("a --head 3 --last", Place(None, 0, 3)),
        ("a --step 7", Place(None, 0, 0, 7)),
    ],
)
def test_a_command_is_handed_one_place(words, place):
    app = typer.Typer()
    app.command()(asked)
    app(words.split(), standalone_mode=False)
    assert TOLD.pop() == ("a", place, "--last" in words)


def test_the_endings_are_those_that_can_be_drawn():
    assert options.PICTURE_SUFFIXES == PICTURE_SUFFIXES
