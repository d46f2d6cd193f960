"""What an annotation lets in is told in words; several configs must be told apart by theirs."""

from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Literal, Optional

import pytest

from regard.config import annotations


@dataclass(frozen=True)
class Recurrent:
    kind: Literal["gru", "lstm"] = "gru"
    width: int = 8
    gates: int = field(init=False, default=3)


@dataclass(frozen=True)
class Transformer:
    kind: Literal["transformer"] = "transformer"


@dataclass(frozen=True)
class Other:
    sort: Literal["other"] = "other"


@dataclass(frozen=True)
class Again:
    kind: Literal["lstm"] = "lstm"


@dataclass(frozen=True)
class Sizes:
    width: int = 8


@dataclass(frozen=True)
class Empty:
    pass


def test_the_fields_that_can_be_given_have_annotations():
    assert annotations.field_annotations(Recurrent) == {
        "kind": Literal["gru", "lstm"],
        "width": int,
    }


def test_each_word_chooses_its_config():
    kinds = {"gru": Recurrent, "lstm": Recurrent, "transformer": Transformer}
    assert annotations.config_discriminator(Recurrent | Transformer | None) == ("kind", kinds)
    assert annotations.config_discriminator(Transformer) == ("kind", {"transformer": Transformer})


@pytest.mark.parametrize("hint", [Sizes, Empty, int, int | None, Literal["a"]], ids=str)
def test_nothing_is_chosen_by_a_word_where_no_config_begins_with_words(hint):
    assert annotations.config_discriminator(hint)[1] == {}


@pytest.mark.parametrize("other", [Other, Again, Sizes, Empty])
def test_configs_that_no_word_tells_apart_do_not_share_a_field(other):
    words = "config: expected configs that the words of their first field tell apart, got Recurrent"
    with pytest.raises(ValueError, match=f"{words} or {other.__name__}"):
        annotations.config_discriminator(Recurrent | other)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int | float, "a number"),
        (Optional[Path], "a path or none"),  # noqa: UP045
        (Literal[1, 2], "one of 1, 2"),
        (tuple[int, ...], "a whole number, or several with commas between"),
        (tuple[int, str], "2 values with commas between (a whole number, text)"),
        (Sizes | None, "Sizes or none"),
        (Recurrent, "one of gru, lstm"),
        (None | Recurrent | Path | Transformer, "one of gru, lstm, transformer or a path or none"),
        (list, "list"),
    ],
)
def test_an_annotation_is_told_in_words(hint, words):
    assert annotations.describe_type(hint) == words


def test_none_is_tried_first_and_text_last():
    assert annotations.union_members(str | int | None) == [NoneType, int, str]


def test_a_tuple_has_so_many_items():
    assert annotations.tuple_item_types(tuple[int, ...], 3) == (int, int, int)
    assert annotations.tuple_item_types(tuple[int, str], 2) == (int, str)
    with pytest.raises(ValueError):
        annotations.tuple_item_types(tuple[int, str], 3)
