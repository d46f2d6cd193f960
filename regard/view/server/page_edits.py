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
from regard.view.traces.axes import MAX_AXIS_LENGTH, check_text

# The most edits of a run, and the most cells that they hide.
MAX_EDITS, MAX_HIDDEN_CELLS = 200, 10_000
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
class PageEdit:
    """One edit: which attention, how it is changed, and the same as Python says it."""

    module_path: str
    change: Change
    python: str


def parse_edits(edits: Sequence[Any]) -> dict[str, Change]:
    """What `regard.edit` takes, of the edits of a page; those of one attention follow each other.

    Raises:
        ValueError: an edit is none, names what is not there to be named, or there are too many.
    """
    by_name = _parse_by_module(edits)
    return {
        at: made.chain(*(each.change for each in several))
        if len(several) > 1
        else several[0].change
        for at, several in by_name.items()
    }


def python_code(
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
    by_name = _parse_by_module(edits)
    told = "".join(f", {name}={value!r}" for name, value in options.items())
    trace = f"trace = {recipe}.trace(loaded, given{told})"
    lines = [
        "import regard",
        f"from regard import {', '.join(_needed_imports(by_name))}" if by_name else "",
        f"from regard.recipes import {recipe}",
        "",
        f"loaded = regard.load({model!r})",
        f"given = {recipe}.parse_input(loaded.card, {input!r})",
        *(_edit_lines(by_name) if by_name else []),
        f"    {trace}" if by_name else trace,
    ]
    return "\n".join(line for i, line in enumerate(lines) if line or i == 3) + "\n"


def _needed_imports(by_name: Mapping[str, list[PageEdit]]) -> list[str]:
    """The names of `regard` that the changes need."""
    said = " ".join(each.python for several in by_name.values() for each in several)
    return ["edits", *(name for name in ("scores", "selects") if f"{name}." in said)]


def _edit_lines(by_name: Mapping[str, list[PageEdit]]) -> list[str]:
    lines = []
    for at, several in by_name.items():
        said = [f"edits.{each.python}" for each in several]
        value = said[0] if len(said) == 1 else f"edits.chain({', '.join(said)})"
        lines.append(f"    {at!r}: {value},")
    return ["changes = {", *lines, "}", "with regard.edit(loaded.model, changes):"]


def _parse_by_module(edits: Sequence[Any]) -> dict[str, list[PageEdit]]:
    if not isinstance(edits, list | tuple):
        raise ValueError(f"edits: expected a list, got {check.describe_kind(edits):.80}")
    if len(edits) > MAX_EDITS:
        raise ValueError(f"edits: expected at most {MAX_EDITS}, got {len(edits)}")
    cells = sum(len(_listed_cells(each)) for each in edits)
    if cells > MAX_HIDDEN_CELLS:
        raise ValueError(f"edits: expected at most {MAX_HIDDEN_CELLS:,} cells, got {cells:,}")
    found: dict[str, list[PageEdit]] = {}
    for number, given in enumerate(edits):
        edit = _parse_edit(f"edit {number}", given)
        found.setdefault(edit.module_path, []).append(edit)
    return found


def _listed_cells(edit: Any) -> Sequence[Any]:
    cells = edit.get("cells", ()) if isinstance(edit, Mapping) else ()
    return cells if isinstance(cells, list | tuple) else ()


def _parse_edit(where: str, edit: Any) -> PageEdit:
    """One edit, checked."""
    if not isinstance(edit, Mapping):
        raise ValueError(f"{where}: expected an object, got {check.describe_kind(edit):.80}")
    do = edit.get("do")
    if not isinstance(do, str) or do not in _EDIT_KINDS:
        raise ValueError(f"{where}: expected do of {', '.join(_EDIT_KINDS)}, got {do!r:.80}")
    needed, may, make = _EDIT_KINDS[do]
    wanted = {"at", "do", *needed}
    for name in (*sorted(wanted - edit.keys()), *sorted(edit.keys() - wanted - may)):
        what = "has no" if name in wanted else "has an unknown"
        raise ValueError(f"{where}: {do} {what} {name!r:.80}")
    at = check_text(where, "at", edit["at"])
    change, said = make(where, edit)
    return PageEdit(at, change, said)


def _parse_ablate(where: str, edit: Mapping[str, Any]) -> tuple[Change, str]:
    heads = _check_integers(where, "heads", edit["heads"])
    return made.ablate(*heads), f"ablate({', '.join(map(str, heads))})"


def _parse_hide(where: str, edit: Mapping[str, Any]) -> tuple[Change, str]:
    if not isinstance(edit["cells"], list | tuple):
        raise ValueError(
            f"{where}: expected cells as a list, got {check.describe_kind(edit['cells']):.80}"
        )
    cells = []
    for cell in edit["cells"]:
        if not isinstance(cell, list | tuple) or len(cell) != 2:
            raise ValueError(f"{where}: expected cells as [query, key], got {cell!r:.80}")
        query, key = cell
        cells.append((_parse_query(where, query), _check_integer(where, "keys", key)))
    heads, said = _parse_heads(where, edit)
    return made.hide(cells, heads), f"hide({cells!r}{said})"


def _parse_score(where: str, edit: Mapping[str, Any]) -> tuple[Change, str]:
    value, said = _parse_choice(where, "score", edit["score"], SCORES)
    return made.score(value), f"score({said})"


def _parse_select(where: str, edit: Mapping[str, Any]) -> tuple[Change, str]:
    value, said = _parse_choice(where, "select", edit["select"], SELECTS)
    return made.select(value), f"select({said})"


def _parse_heat(where: str, edit: Mapping[str, Any]) -> tuple[Change, str]:
    degrees = _parse_number(where, "temperature", edit["temperature"])
    return made.heat(degrees), f"heat({degrees!r})"


def _parse_force(where: str, edit: Mapping[str, Any]) -> tuple[Change, str]:
    query, key = _parse_query(where, edit["query"]), _check_integer(where, "keys", edit["key"])
    weight = _parse_number(where, "weight", edit["weight"])
    heads, said = _parse_heads(where, edit)
    return made.force(query, key, weight, heads), f"force({query!r}, {key}, {weight!r}{said})"


def _parse_heads(where: str, edit: Mapping[str, Any]) -> tuple[list[int] | None, str]:
    """Whose heads are meant, and how Python says so; none at all are all of them."""
    if edit.get("heads") is None:
        return None, ""
    heads = _check_integers(where, "heads", edit["heads"])
    return heads, f", heads={heads!r}"


def _parse_query(where: str, value: Any) -> int | None:
    return None if value is None else _check_integer(where, "queries", value)


def _check_integers(where: str, name: str, values: Any) -> list[int]:
    if not isinstance(values, list | tuple) or len(values) > MAX_AXIS_LENGTH:
        raise ValueError(
            f"{where}: expected {name} as a list, got {check.describe_kind(values):.80}"
        )
    return [_check_integer(where, name, each) for each in values]


def _check_integer(where: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_AXIS_LENGTH:
        raise ValueError(
            f"{where}: expected {name} as whole numbers from 0 to {MAX_AXIS_LENGTH - 1}, got "
            f"{value!r:.80}"
        )
    return value


def _parse_number(where: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}: expected {name} as a number, got {value!r:.80}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{where}: expected {name} as a number, got one too large") from None


def _parse_choice(
    where: str, name: str, value: Any, choices: Mapping[str, tuple[Any, str]]
) -> tuple[Any, str]:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{where}: expected {name} of {', '.join(choices)}, got {value!r:.80}")
    return choices[value]


# By what is done: what has to be told of it, what may be, and what makes the change.
_EditParser = Callable[[str, Mapping[str, Any]], tuple[Change, str]]
_EDIT_KINDS: dict[str, tuple[tuple[str, ...], set[str], _EditParser]] = {
    "ablate": (("heads",), set(), _parse_ablate),
    "hide": (("cells",), {"heads"}, _parse_hide),
    "score": (("score",), set(), _parse_score),
    "select": (("select",), set(), _parse_select),
    "heat": (("temperature",), set(), _parse_heat),
    "force": (("query", "key", "weight"), {"heads"}, _parse_force),
}
