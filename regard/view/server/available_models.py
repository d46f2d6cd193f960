"""What the server is handed: models that can be asked, and lessons; it knows no other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from regard.view.inputs import Input, ProgressCallback
from regard.view.traces.trace import Trace


@runtime_checkable
class LoadedModel(Protocol):
    """A model that is loaded."""

    @property
    def bytes(self) -> int:
        """How much memory it takes."""

    def trace(
        self,
        text: str,
        options: Mapping[str, Any],
        on_progress: ProgressCallback,
        edits: Sequence[Any],
    ) -> Trace:
        """What it looks at for this text; `tell` is called at every step, and may raise to stop."""


@runtime_checkable
class Lesson(Protocol):
    """A lesson of the playground."""

    def to_json(self) -> dict[str, Any]:
        """What a list of lessons says of it."""

    def answer(self, inputs: Any) -> dict[str, Any]:
        """What comes out for these numbers."""


@dataclass(frozen=True, eq=False)
class AvailableModel:
    """A model that can be loaded.

    Args:
        about: what it is, in a line.
        card: what is known about it.
        is_run: whether it is a run of the user's.
        input: what it is given.
        load: loads it.
        python: the lines that make the same trace without the page: of a text, options, edits.
    """

    name: str
    about: str
    card: Mapping[str, Any]
    is_run: bool
    input: Input
    load: Callable[[], LoadedModel]
    python: Callable[[str, Mapping[str, Any], Sequence[Any]], str]

    def to_json(self) -> dict[str, Any]:
        """What a page is told about it."""
        numbers = self.card.get("numbers")
        config = self.card.get("config")
        return {
            "name": self.name,
            "about": self.about,
            "recipe": str(self.card.get("recipe", "")),
            "family": str(config.get("kind", "")) if isinstance(config, Mapping) else "",
            "run": self.is_run,
            "numbers": numbers if isinstance(numbers, Mapping) else {},
            "licence": _licence_to_json(self.card.get("licence")),
            "input": self.input.to_json(),
        }


def _licence_to_json(licence: Any) -> dict[str, dict[str, str]]:
    """Under what the data and the weights of a model are, where its card says so."""
    licence = licence if isinstance(licence, Mapping) else {}
    found = {of: licence[of] for of in ("data", "weights") if isinstance(licence.get(of), Mapping)}
    return {
        of: {word: str(one.get(word, ""))[:300] for word in ("name", "means")}
        for of, one in found.items()
        if one.get("name")
    }
