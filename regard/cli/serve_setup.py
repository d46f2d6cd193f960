"""What `regard serve` offers: the zoo, the user's runs, the lessons, and traces out of files."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from regard.cli import resolve
from regard.cli.console import on_enter, print_note, print_text
from regard.cli.resolve import UsageError

if TYPE_CHECKING:
    import regard.view
    from regard.view.server.app_state import AppState
    from regard.view.server.available_models import AvailableModel

# How many runs a page lists, and how deep below the folder of all runs they may lie.
MAX_RUNS, MAX_FOLDER_DEPTH = 100, 4
# How long it may take to look for them, in seconds, and how many are named that cannot be read.
MAX_SEARCH_SECONDS = 10.0
MAX_NAMED_RUNS = 20
# What a page is told of one run; those of the zoo take 2 kB at most, and a hundred come at a time.
MAX_DESCRIPTION_BYTES = 2**16


def build_app_state(
    traces: Sequence[Path], *, runs: Path, budget: int, report: Callable[[str], None]
) -> tuple["AppState", str]:
    """All that the server has, and where on the page to begin: with the last of `traces`, if any.

    Raises:
        UsageError: a file is no trace.
    """
    from regard.view.lessons import LESSONS
    from regard.view.server.app_state import AppState

    unreadable = UnreadableRuns()
    there = available_models(runs, unreadable)
    for line in unreadable.lines():
        report(line)
    found = AppState(there, LESSONS, report, budget=budget, unreadable_runs=unreadable.to_json())
    place = ""
    for path in traces:
        try:
            told = {"python": _load_trace_code(path)}
            place = f"#/t/{found.store_trace(_load_trace(path), told)}"
        except (ValueError, OSError) as error:
            found.close()
            raise UsageError(str(error).removeprefix("load: ")) from None
    return found, place


def announce_page(link: Callable[[], str], reachable: bool) -> None:
    """Say where the page is, and who can come."""
    if reachable:
        print_note("warning: others than this machine can reach it; whoever has a link may come in")
    print_text(link())
    if on_enter(lambda: print_text(link())):
        print_note("the link opens the page once; Enter prints another, Ctrl-C ends it")
    else:
        print_note("the link opens the page once; Ctrl-C ends it")


@dataclass
class UnreadableRuns:
    """The folders of runs that could not be read, the first by name."""

    count: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)

    def add(self, folder: str, why: str) -> None:
        """Count a folder, and name it if it is among the first."""
        self.count += 1
        if len(self.named) < MAX_NAMED_RUNS:
            self.named.append((_printable_text(folder), _printable_text(why)))

    def to_json(self) -> dict[str, Any]:
        """The count and the named folders, as JSON."""
        named = [{"name": name, "why": why} for name, why in self.named]
        return {"count": self.count, "named": named}

    def lines(self) -> Iterator[str]:
        """A line for each named folder, and one for the rest."""
        for name, why in self.named:
            yield f"a run that cannot be read is not offered: {name}: {why}"
        if self.count > len(self.named):
            yield f"and {self.count - len(self.named)} more"


def available_models(
    runs: Path, unreadable: UnreadableRuns | None = None
) -> Mapping[str, "AvailableModel"]:
    """Every model that can be asked, by name: the zoo's, then the runs, the newest first.

    Args:
        unreadable: told of every folder of a run that is left out because of its files.
    """
    from regard import zoo

    found = {
        name: available_model(name, zoo.card(name), zoo.find_model_folder(name))
        for name in zoo.names()
    }
    most = len(found) + MAX_RUNS
    unreadable = UnreadableRuns() if unreadable is None else unreadable
    end = time.monotonic() + MAX_SEARCH_SECONDS
    for folder in finished_runs(runs, unreadable, end=end):
        if len(found) == most or time.monotonic() > end:
            break
        name = folder.relative_to(runs).as_posix()
        name = f"{runs.name}/{name}" if name in found else name
        one = _available_run(name, folder, unreadable)
        if one is not None:
            found[name] = one
    if len(found) < most and time.monotonic() > end:
        unreadable.add(str(runs), f"not all was read within {MAX_SEARCH_SECONDS:g} s")
    return found


def available_model(
    name: str, card: Mapping[str, Any], folder: Path, *, run: bool = False
) -> "AvailableModel":
    """A model as the server is handed it."""
    from regard import zoo
    from regard.view.server import page_edits
    from regard.view.server.available_models import AvailableModel

    module = resolve.recipe_module(card["recipe"])

    def python(text: str, options: Mapping[str, Any], edits: Sequence[Any]) -> str:
        own = module.to_model_edits(card, module.parse_input(card, text), edits)
        return page_edits.python_code(
            str(folder) if run else name, text, options, own, card["recipe"]
        )

    return AvailableModel(
        name=name,
        about=zoo.describe_card(dict(card)),
        card=card,
        is_run=run,
        input=module.input_spec(card),
        load=lambda: _RecipeModel(zoo.load(folder), module),
        python=python,
    )


def finished_runs(
    runs: Path, unreadable: UnreadableRuns | None = None, *, end: float = math.inf
) -> list[Path]:
    """The folders of finished runs, the newest first; no link is followed.

    Args:
        end: when to look no further, by the monotonic clock.
    """
    there = _find_cards(runs, UnreadableRuns() if unreadable is None else unreadable, end)
    return [path.parent for _, path in sorted(there, key=lambda one: one[0], reverse=True)]


@dataclass(frozen=True, eq=False)
class _RecipeModel:
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
        on_progress: Callable[[int, int | None, str | None], None],
        edits: Sequence[Any],
    ) -> "regard.view.Trace":
        """What it looks at for this text, with these edits."""
        from regard import looking
        from regard.view.server import page_edits

        card = self.loaded.card
        given = self.module.parse_input(card, text)
        own = page_edits.parse_edits(self.module.to_model_edits(card, given, edits))
        # what changes nothing is in nobody's way
        with looking.edit(self.loaded.model, own) if own else nullcontext():
            trace = self.module.trace(self.loaded, given, on_progress=on_progress, **options)
        return replace(trace, header=replace(trace.header, edits=list(edits)))


def _available_run(name: str, folder: Path, unreadable: UnreadableRuns) -> "AvailableModel | None":
    """A run as an offer, or None where its card cannot be read, whatever stands in it."""
    from regard.zoo import untrusted_files

    try:
        found = available_model(name, untrusted_files.read_card(folder), folder, run=True)
        # what a page cannot be told, such as half a character in a name, would break the whole list
        told = json.dumps(found.to_json(), allow_nan=False, ensure_ascii=False).encode()
        if len(told) > MAX_DESCRIPTION_BYTES:
            raise ValueError(
                f"a page would be told {len(told)} bytes of it, the most is {MAX_DESCRIPTION_BYTES}"
            )
    # a recipe may stumble over a stranger's settings in any way, and none may stop the server
    except Exception as error:
        unreadable.add(name, _error_line(error))
        return None
    return found


def _error_line(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "its name or its card has what is not UTF-8"
    if isinstance(error, UsageError):
        return error.format_message()
    if isinstance(error, ValueError):
        return str(error).removeprefix("load: ")
    return f"its card does not fit this version: {type(error).__name__}: {error}"


def _find_cards(
    folder: Path, unreadable: UnreadableRuns, end: float, depth: int = 0
) -> Iterator[tuple[float, Path]]:
    """Every card below a folder that is found in time, and when it was written."""
    why = ""
    for entry in _folder_entries(folder, unreadable):
        if time.monotonic() > end:
            return
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_FOLDER_DEPTH and entry.name != "card.json":
                    yield from _find_cards(Path(entry.path), unreadable, end, depth + 1)
                    continue
            elif entry.is_file(follow_symlinks=False) and entry.name == "card.json":
                yield entry.stat(follow_symlinks=False).st_mtime, Path(entry.path)
                continue
        except (FileNotFoundError, NotADirectoryError):  # it has gone meanwhile
            continue
        except OSError as error:  # as in a folder that may be read and not searched
            why = _error_reason(error)
            continue
        if entry.name == "card.json":
            why = "expected card.json to be a plain file"
    if why:
        unreadable.add(str(folder), why)


def _folder_entries(folder: Path, unreadable: UnreadableRuns) -> list[Any]:
    """All that lies in a folder; nothing where it has gone or cannot be read."""
    try:
        return list(os.scandir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        unreadable.add(str(folder), _error_reason(error))
        return []


def _error_reason(error: OSError) -> str:
    return error.strerror or "it cannot be read"


def _printable_text(text: str) -> str:
    """Text that can be written down, cut where it is long; a name need not be UTF-8."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 300 else f"{text[:299]}…"


def _load_trace(path: Path) -> "regard.view.Trace":
    from regard import view

    return view.load(path)


def _load_trace_code(path: Path) -> str:
    return f"from regard import view\n\ntrace = view.load({path.name!r})"
