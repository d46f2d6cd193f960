"""What `regard serve` offers: the zoo, the user's runs, the lessons, and traces out of files."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from regard import asking
from regard.asking import UsageError

if TYPE_CHECKING:
    import regard.view
    from regard.view.serving.desk import Desk
    from regard.view.serving.offers import Offer

# How many runs a page lists, and how deep below the folder of all runs they may lie.
MOST_RUNS, DEEPEST = 100, 4


def desk(
    traces: Sequence[Path], *, runs: Path, budget: int, report: Callable[[str], None]
) -> tuple["Desk", str]:
    """All that the server has, and where on the page to begin: with the last of `traces`, if any.

    Raises:
        UsageError: a file is no trace.
    """
    from regard.view.lessons import LESSONS
    from regard.view.serving.desk import Desk

    found = Desk(offers(runs), LESSONS, report, budget=budget)
    place = ""
    for path in traces:
        try:
            told = {"python": _reopened(path)}
            place = f"#/t/{found.keep(_opened(path), told)}"
        except (ValueError, OSError) as error:
            found.close()
            raise UsageError(str(error).removeprefix("load: ")) from None
    return found, place


def offers(runs: Path) -> Mapping[str, "Offer"]:
    """Every model that can be asked, by name: the zoo's, then the runs, the newest first."""
    from regard import zoo

    found = {name: offer(name, zoo.card(name), zoo.found(name)) for name in zoo.names()}
    for folder in finished(runs):
        name = folder.relative_to(runs).as_posix()
        name = f"{runs.name}/{name}" if name in found else name
        one = _run_offered(name, folder)
        if one is not None:
            found[name] = one
    return found


def offer(name: str, card: Mapping[str, Any], folder: Path, *, run: bool = False) -> "Offer":
    """A model as the server is handed it."""
    from regard import zoo
    from regard.view import changes
    from regard.view.serving.offers import Offer

    module = asking.recipe(card["recipe"])

    def python(text: str, options: Mapping[str, Any], edits: Sequence[Any]) -> str:
        own = module.placed(card, module.typed(card, text), edits)
        return changes.python(str(folder) if run else name, text, options, own, card["recipe"])

    return Offer(
        name=name,
        about=zoo.about(dict(card)),
        card=card,
        run=run,
        input=module.asks(card),
        load=lambda: _Asked(zoo.load(folder), module),
        python=python,
    )


def finished(runs: Path) -> list[Path]:
    """The folders of finished runs, the newest first; no link is followed."""
    there = sorted(_cards(runs), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent for path in there[:MOST_RUNS]]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A model that is loaded, asked through its recipe."""

    loaded: Any
    module: ModuleType

    @property
    def bytes(self) -> int:
        """How much memory its weights take."""
        return sum(tensor.nbytes for tensor in self.loaded.model.state_dict().values())

    def trace(
        self,
        text: str,
        options: Mapping[str, Any],
        tell: Callable[[int, int | None, str | None], None],
        edits: Sequence[Any],
    ) -> "regard.view.Trace":
        """What it looks at for this text, with these edits."""
        from regard import looking
        from regard.view import changes

        card = self.loaded.card
        given = self.module.typed(card, text)
        own = changes.changes(self.module.placed(card, given, edits))
        # what changes nothing is in nobody's way
        with looking.edit(self.loaded.model, own) if own else nullcontext():
            trace = self.module.trace(self.loaded, given, tell=tell, **options)
        return replace(trace, header=replace(trace.header, edits=list(edits)))


def _run_offered(name: str, folder: Path) -> "Offer | None":
    """A run as an offer, or None where this version does not know what it is."""
    from regard.zoo import reading

    try:
        return offer(name, reading.json_object(folder, "card.json"), folder, run=True)
    except (ValueError, KeyError, TypeError, UsageError):
        return None


def _cards(folder: Path, depth: int = 0) -> Iterator[Path]:
    try:
        inside = list(os.scandir(folder))
    except OSError:
        return
    for entry in inside:
        if entry.name == "card.json" and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
            yield from _cards(Path(entry.path), depth + 1)


def _opened(path: Path) -> "regard.view.Trace":
    from regard import view

    return view.load(path)


def _reopened(path: Path) -> str:
    return f"from regard import view\n\ntrace = view.load({path.name!r})"
