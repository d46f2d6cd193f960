"""What the server is handed: models that can be asked, and lessons; it knows no other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from regard.view.inputs import Input, Tell
from regard.view.trace import Trace


@runtime_checkable
class Model(Protocol):
    """A model that is loaded."""

    @property
    def bytes(self) -> int:
        """How much memory it takes."""

    def trace(
        self, text: str, options: Mapping[str, Any], tell: Tell, edits: Sequence[Any]
    ) -> Trace:
        """What it looks at for this text; `tell` is called at every step, and may raise to stop."""


@runtime_checkable
class Lesson(Protocol):
    """A lesson of the playground."""

    def told(self) -> dict[str, Any]:
        """What a list of lessons says of it."""

    def run(self, given: Any) -> dict[str, Any]:
        """What comes out for these numbers."""


@dataclass(frozen=True, eq=False)
class Offer:
    """A model that can be loaded.

    Args:
        about: what it is, in a line.
        card: what is known about it.
        run: whether it is a run of the user's.
        input: what it is given.
        load: loads it.
        python: the lines that make the same trace without the page: of a text, options, edits.
    """

    name: str
    about: str
    card: Mapping[str, Any]
    run: bool
    input: Input
    load: Callable[[], Model]
    python: Callable[[str, Mapping[str, Any], Sequence[Any]], str]

    def described(self) -> dict[str, Any]:
        """What a page is told about it."""
        numbers = self.card.get("numbers")
        config = self.card.get("config")
        return {
            "name": self.name,
            "about": self.about,
            "recipe": str(self.card.get("recipe", "")),
            "family": str(config.get("kind", "")) if isinstance(config, Mapping) else "",
            "run": self.run,
            "numbers": numbers if isinstance(numbers, Mapping) else {},
            "licence": _licence(self.card.get("licence")),
            "input": self.input.described(),
        }


def _licence(given: Any) -> dict[str, dict[str, str]]:
    """Under what the data and the weights of a model are, where its card says so."""
    given = given if isinstance(given, Mapping) else {}
    found = {of: given[of] for of in ("data", "weights") if isinstance(given.get(of), Mapping)}
    return {
        of: {word: str(one.get(word, ""))[:300] for word in ("name", "means")}
        for of, one in found.items()
        if one.get("name")
    }
