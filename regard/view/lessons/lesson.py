"""A lesson: a question to answer first, numbers to drag, and what the library makes of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.view.lessons.fields import Field

Answer = dict[str, Any]


@dataclass(frozen=True)
class Lesson:
    """One idea that one can play with.

    Args:
        name: what it is called in an address.
        title: what it is called on the page.
        question: what to guess before anything is dragged.
        guesses: the answers one may guess.
        right: which of them holds.
        aha: what is to be seen then.
        fields: what may be given, by name.
        compute: from all of that, as arguments, to the numbers of the picture and their `code`.
    """

    name: str
    title: str
    question: str
    guesses: tuple[str, ...]
    right: int
    aha: str
    fields: Mapping[str, Field]
    compute: Callable[..., Answer]

    def answer(self, inputs: Any) -> Answer:
        """The numbers of the picture, `code`: the lines that ran, and `given`: what they ran on.

        Args:
            inputs: numbers by name; what is not there is as the lesson begins.

        Raises:
            ValueError: something was given that the lesson does not know, or out of bounds.
        """
        checked = self.check_inputs(inputs)
        return {"given": checked, **self.compute(**checked)}

    def check_inputs(self, inputs: Any) -> Answer:
        """All that the lesson needs, from some of it."""
        where = f"lesson {self.name}"
        if not isinstance(inputs, Mapping):
            raise ValueError(f"{where}: expected numbers by name, got a {type(inputs).__name__}")
        unknown = [str(name)[:40] for name in inputs if name not in self.fields]
        if unknown:
            raise ValueError(
                f"{where}: there is no {unknown[0]!r}; there is {', '.join(self.fields)}"
            )
        return {
            name: field.check_value(f"{where}: {name}", inputs.get(name, field.default))
            for name, field in self.fields.items()
        }

    def to_json(self) -> Answer:
        """What a list of lessons says of this one."""
        return {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "guesses": list(self.guesses),
            "right": self.right,
            "aha": self.aha,
        }
