"""What a model is given, as its recipe tells it to a page: `Input`, and the `Option`s beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from regard import check
from regard.view.traces.axes import check_text
from regard.view.traces.trace import fields_to_json, to_json_value

# A sentence, vectors of bits, points of the plane, a row of numbers.
InputKind = Literal["text", "bits", "points", "numbers"]
# A whole number, a text, one of some words.
OptionKind = Literal["whole", "text", "choice"]
# What a run tells at every step: how many are done, of how many if that is known, and what was said
# so far. Whatever it raises ends the run.
ProgressCallback = Callable[[int, int | None, str | None], None]


@dataclass(frozen=True)
class Option:
    """What can be told beside an input.

    Args:
        default: what a page begins with.
        least: the least number; of a text, nothing.
        most: the greatest number; of a text, how many characters it may have.
        values: the words of a choice.
    """

    name: str
    about: str
    kind: OptionKind
    default: Any
    least: int | None = None
    most: int | None = None
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"Option: expected a name as in Python, got {self.name!r:.80}")
        if self.kind not in get_args(OptionKind):
            kinds = ", ".join(get_args(OptionKind))
            raise ValueError(f"Option {self.name!r}: expected a kind of {kinds}, got {self.kind!r}")
        if (self.kind == "choice") != bool(self.values):
            raise ValueError(f"Option {self.name!r}: expected values of a choice, and of no other")
        self.check_value(self.default)

    def check_value(self, value: Any) -> Any:
        """What was given, if it may stand here."""
        if self.kind == "whole":
            self._check_integer(value)
        elif self.kind == "choice" and value not in self.values:
            raise ValueError(
                f"option {self.name!r}: expected one of {', '.join(self.values)}, got {value!r:.80}"
            )
        elif self.kind == "text":
            check_text(f"option {self.name!r}", "it", value)
            if self.most is not None and len(value) > self.most:
                raise ValueError(
                    f"option {self.name!r}: expected at most {self.most} characters, "
                    f"got {len(value)}"
                )
        return value

    def to_json(self) -> dict[str, Any]:
        """The same in what JSON can say."""
        return fields_to_json(self)

    def _check_integer(self, value: Any) -> None:
        # to Python True is a number; to us it is not
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(
                f"option {self.name!r}: expected a whole number, got "
                f"{check.describe_kind(value):.80}"
            )
        low = self.least is not None and value < self.least
        if low or (self.most is not None and value > self.most):
            raise ValueError(
                f"option {self.name!r}: expected {_range_text(self.least, self.most)}, "
                f"got {value!r:.80}"
            )


@dataclass(frozen=True)
class Input:
    """What a model is given, always as a text that one would type.

    Args:
        about: what to type, in a sentence.
        example: one of them.
        most: how much of it a page may ask for: tokens, vectors, points or numbers.
        form: how the text is put together; docs/page.md has its words.
    """

    kind: InputKind
    about: str
    example: str
    most: int
    form: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(InputKind):
            kinds = ", ".join(get_args(InputKind))
            raise ValueError(f"Input: expected a kind of {kinds}, got {self.kind!r:.80}")
        if self.most < 1:
            raise ValueError(f"Input: expected most of at least 1, got {self.most}")
        object.__setattr__(self, "form", to_json_value("Input", dict(self.form)))

    def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that were given, each checked; those that were not are left out."""
        there = {option.name: option for option in self.options}
        for name in options:
            if name not in there:
                known = ", ".join(there) or "none"
                raise ValueError(f"options: expected {known}, got {name!r:.80}")
        return {name: there[name].check_value(value) for name, value in options.items()}

    def to_json(self) -> dict[str, Any]:
        """The same in what JSON can say."""
        return fields_to_json(self, exclude=("options",)) | {
            "options": [option.to_json() for option in self.options]
        }


def _range_text(least: int | None, most: int | None) -> str:
    if least is None or most is None:
        return f"at most {most}" if least is None else f"at least {least}"
    return f"{least} to {most}"
