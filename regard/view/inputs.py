"""What a model is given, as its recipe tells it to a page: `Input`, and the `Option`s beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from regard import check
from regard.view.axes import text
from regard.view.trace import described, plain

# A sentence, vectors of bits, points of the plane, a row of numbers.
Kind = Literal["text", "bits", "points", "numbers"]
# A whole number, a text, one of some words.
OptionKind = Literal["whole", "text", "choice"]
# What a run tells at every step: how many are done, of how many if that is known, and what was said
# so far. Whatever it raises ends the run.
Tell = Callable[[int, int | None, str | None], None]


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
        self.checked(self.default)

    def checked(self, given: Any) -> Any:
        """What was given, if it may stand here."""
        if self.kind == "whole":
            self._whole(given)
        elif self.kind == "choice" and given not in self.values:
            raise ValueError(
                f"option {self.name!r}: expected one of {', '.join(self.values)}, got {given!r:.80}"
            )
        elif self.kind == "text":
            text(f"option {self.name!r}", "it", given)
            if self.most is not None and len(given) > self.most:
                raise ValueError(
                    f"option {self.name!r}: expected at most {self.most} characters, "
                    f"got {len(given)}"
                )
        return given

    def described(self) -> dict[str, Any]:
        """The same in what JSON can say."""
        return described(self)

    def _whole(self, given: Any) -> None:
        # to Python True is a number; to us it is not
        if isinstance(given, bool) or not isinstance(given, int):
            raise ValueError(
                f"option {self.name!r}: expected a whole number, got {check.kind(given):.80}"
            )
        low = self.least is not None and given < self.least
        if low or (self.most is not None and given > self.most):
            raise ValueError(
                f"option {self.name!r}: expected {_between(self.least, self.most)}, "
                f"got {given!r:.80}"
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

    kind: Kind
    about: str
    example: str
    most: int
    form: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            kinds = ", ".join(get_args(Kind))
            raise ValueError(f"Input: expected a kind of {kinds}, got {self.kind!r:.80}")
        if self.most < 1:
            raise ValueError(f"Input: expected most of at least 1, got {self.most}")
        object.__setattr__(self, "form", plain("Input", dict(self.form)))

    def chosen(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that were given, each checked; those that were not are left out."""
        there = {option.name: option for option in self.options}
        for name in given:
            if name not in there:
                known = ", ".join(there) or "none"
                raise ValueError(f"options: expected {known}, got {name!r:.80}")
        return {name: there[name].checked(value) for name, value in given.items()}

    def described(self) -> dict[str, Any]:
        """The same in what JSON can say."""
        return described(self, but=("options",)) | {
            "options": [option.described() for option in self.options]
        }


def _between(least: int | None, most: int | None) -> str:
    if least is None or most is None:
        return f"at most {most}" if least is None else f"at least {least}"
    return f"{least} to {most}"
