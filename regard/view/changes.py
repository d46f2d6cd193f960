"""Edits as a page sends them, in JSON: the changes that they mean, and the Python that makes them.

An edit names an attention by its module, and counts its queries and keys as the attention does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard import check
from regard.functional import edits as made
from regard.functional import scores, selects
from regard.functional.edits import Change
from regard.view.axes import LONGEST, text

# The most edits of a run, and the most cells that they hide.
MOST, CELLS = 200, 10_000
# What can be said by a word, as a value and as Python says it.
SCORES: dict[str, tuple[Any, str]] = {
    "dot": (scores.dot, "scores.dot"),
    "scaled_dot": (scores.scaled_dot, "scores.scaled_dot"),
    "cosine": (scores.Cosine(), "scores.Cosine()"),
}
SELECTS: dict[str, tuple[Any, str]] = {
    "softmax": (selects.softmax, "selects.softmax"),
    "sparsemax": (selects.sparsemax, "selects.sparsemax"),
    "hard": (selects.hard, "selects.hard"),
}


@dataclass(frozen=True, eq=False)
class Edit:
    """One edit: which attention, how it is changed, and the same as Python says it."""

    at: str
    change: Change
    python: str


def changes(edits: Sequence[Any]) -> dict[str, Change]:
    """What `regard.edit` takes, of the edits of a page; those of one attention follow each other.

    Raises:
        ValueError: an edit is none, names what is not there to be named, or there are too many.
    """
    by_name = _by_name(edits)
    return {
        at: made.chain(*(each.change for each in several))
        if len(several) > 1
        else several[0].change
        for at, several in by_name.items()
    }


def python(
    model: str,
    input: str,
    options: Mapping[str, Any],
    edits: Sequence[Any],
    recipe: str,
) -> str:
    """The lines that make the same trace without a page.

    Args:
        model: the name or the folder that `regard.load` takes.
        input: what was typed.
        recipe: the name of its module in `regard.recipes`.
    """
    by_name = _by_name(edits)
    told = "".join(f", {name}={value!r}" for name, value in options.items())
    trace = f"trace = {recipe}.trace(loaded, given{told})"
    lines = [
        "import regard",
        f"from regard import {', '.join(_modules(by_name))}" if by_name else "",
        f"from regard.recipes import {recipe}",
        "",
        f"loaded = regard.load({model!r})",
        f"given = {recipe}.typed(loaded.card, {input!r})",
        *(_opened(by_name) if by_name else []),
        f"    {trace}" if by_name else trace,
    ]
    return "\n".join(line for i, line in enumerate(lines) if line or i == 3) + "\n"


def _modules(by_name: Mapping[str, list[Edit]]) -> list[str]:
    """The names of `regard` that the changes need."""
    said = " ".join(each.python for several in by_name.values() for each in several)
    return ["edits", *(name for name in ("scores", "selects") if f"{name}." in said)]


def _opened(by_name: Mapping[str, list[Edit]]) -> list[str]:
    lines = []
    for at, several in by_name.items():
        said = [f"edits.{each.python}" for each in several]
        value = said[0] if len(said) == 1 else f"edits.chain({', '.join(said)})"
        lines.append(f"    {at!r}: {value},")
    return ["changes = {", *lines, "}", "with regard.edit(loaded.model, changes):"]


def _by_name(edits: Sequence[Any]) -> dict[str, list[Edit]]:
    if not isinstance(edits, list | tuple):
        raise ValueError(f"edits: expected a list, got {check.kind(edits):.80}")
    if len(edits) > MOST:
        raise ValueError(f"edits: expected at most {MOST}, got {len(edits)}")
    cells = sum(len(_listed(each)) for each in edits)
    if cells > CELLS:
        raise ValueError(f"edits: expected at most {CELLS:,} cells, got {cells:,}")
    found: dict[str, list[Edit]] = {}
    for number, given in enumerate(edits):
        edit = _read(f"edit {number}", given)
        found.setdefault(edit.at, []).append(edit)
    return found


def _listed(given: Any) -> Sequence[Any]:
    cells = given.get("cells", ()) if isinstance(given, Mapping) else ()
    return cells if isinstance(cells, list | tuple) else ()


def _read(where: str, given: Any) -> Edit:
    """One edit, checked."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{where}: expected an object, got {check.kind(given):.80}")
    do = given.get("do")
    if not isinstance(do, str) or do not in _KINDS:
        raise ValueError(f"{where}: expected do of {', '.join(_KINDS)}, got {do!r:.80}")
    needed, may, make = _KINDS[do]
    wanted = {"at", "do", *needed}
    for name in (*sorted(wanted - given.keys()), *sorted(given.keys() - wanted - may)):
        what = "has no" if name in wanted else "has an unknown"
        raise ValueError(f"{where}: {do} {what} {name!r:.80}")
    at = text(where, "at", given["at"])
    change, said = make(where, given)
    return Edit(at, change, said)


def _ablate(where: str, given: Mapping[str, Any]) -> tuple[Change, str]:
    heads = _wholes(where, "heads", given["heads"])
    return made.ablate(*heads), f"ablate({', '.join(map(str, heads))})"


def _hide(where: str, given: Mapping[str, Any]) -> tuple[Change, str]:
    if not isinstance(given["cells"], list | tuple):
        raise ValueError(f"{where}: expected cells as a list, got {check.kind(given['cells']):.80}")
    cells = []
    for cell in given["cells"]:
        if not isinstance(cell, list | tuple) or len(cell) != 2:
            raise ValueError(f"{where}: expected cells as [query, key], got {cell!r:.80}")
        query, key = cell
        cells.append((_query(where, query), _whole(where, "keys", key)))
    heads, said = _heads(where, given)
    return made.hide(cells, heads), f"hide({cells!r}{said})"


def _score(where: str, given: Mapping[str, Any]) -> tuple[Change, str]:
    value, said = _word(where, "score", given["score"], SCORES)
    return made.score(value), f"score({said})"


def _select(where: str, given: Mapping[str, Any]) -> tuple[Change, str]:
    value, said = _word(where, "select", given["select"], SELECTS)
    return made.select(value), f"select({said})"


def _heat(where: str, given: Mapping[str, Any]) -> tuple[Change, str]:
    degrees = _number(where, "temperature", given["temperature"])
    return made.heat(degrees), f"heat({degrees!r})"


def _force(where: str, given: Mapping[str, Any]) -> tuple[Change, str]:
    query, key = _query(where, given["query"]), _whole(where, "keys", given["key"])
    weight = _number(where, "weight", given["weight"])
    heads, said = _heads(where, given)
    return made.force(query, key, weight, heads), f"force({query!r}, {key}, {weight!r}{said})"


def _heads(where: str, given: Mapping[str, Any]) -> tuple[list[int] | None, str]:
    """Whose heads are meant, and how Python says so; none at all are all of them."""
    if given.get("heads") is None:
        return None, ""
    heads = _wholes(where, "heads", given["heads"])
    return heads, f", heads={heads!r}"


def _query(where: str, given: Any) -> int | None:
    return None if given is None else _whole(where, "queries", given)


def _wholes(where: str, name: str, given: Any) -> list[int]:
    if not isinstance(given, list | tuple) or len(given) > LONGEST:
        raise ValueError(f"{where}: expected {name} as a list, got {check.kind(given):.80}")
    return [_whole(where, name, each) for each in given]


def _whole(where: str, name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < LONGEST:
        raise ValueError(
            f"{where}: expected {name} as whole numbers from 0 to {LONGEST - 1}, got {given!r:.80}"
        )
    return given


def _number(where: str, name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"{where}: expected {name} as a number, got {given!r:.80}")
    try:
        return float(given)
    except OverflowError:
        raise ValueError(f"{where}: expected {name} as a number, got one too large") from None


def _word(
    where: str, name: str, given: Any, there: Mapping[str, tuple[Any, str]]
) -> tuple[Any, str]:
    if not isinstance(given, str) or given not in there:
        raise ValueError(f"{where}: expected {name} of {', '.join(there)}, got {given!r:.80}")
    return there[given]


# By what is done: what has to be told of it, what may be, and what makes the change.
_Make = Callable[[str, Mapping[str, Any]], tuple[Change, str]]
_KINDS: dict[str, tuple[tuple[str, ...], set[str], _Make]] = {
    "ablate": (("heads",), set(), _ablate),
    "hide": (("cells",), {"heads"}, _hide),
    "score": (("score",), set(), _score),
    "select": (("select",), set(), _select),
    "heat": (("temperature",), set(), _heat),
    "force": (("query", "key", "weight"), {"heads"}, _force),
}
