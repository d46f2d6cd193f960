"""The numbers of a grid as a table: JSON that names no place of this machine, and Markdown."""

import json
import math
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from regard import files
from regard.check import Number
from regard.train.grids import Cell, Plan, Row
from regard.train.progress import clock

SCHEMA = 1
HEAD = """# Results

Written by `python -m benchmarks.results` from what `regard train RECIPE grid=NAME` measured; no
number here is typed by hand. A number is the mean over the seeds, and after ± stands half the way
from the lowest to the highest. Time is that of one training, judging and checkpoints with it; where
trainings of a table ran side by side on one machine, it is longer than alone. The command of a row
trains that row; where it names no grid, `training.seed=…` chooses the seed.
"""


def gathered(plan: Plan, module: Any) -> dict[str, Any]:
    """The table of all trainings that have ended, as JSON can hold it.

    Args:
        module: the recipe. It may offer `LIKE`, configs by name; `COLUMNS`, which numbers are
            shown; `compared(ours, theirs)`, a word on the runs in some folders against those in
            others; and `notes(table)`, sentences on what the numbers come to.
    """
    there = vars(module)
    rows = [_row(plan, row, there) for row in plan.grid.rows]
    cards = [_card(cell) for cell in plan.cells if cell.finished]
    versions: dict[str, set[str]] = {}
    for card in cards:
        for name, version in card.get("versions", {}).items():
            versions.setdefault(name, set()).add(version)
    every = {name: name for row in rows for numbers in row["numbers"] for name in numbers}
    table = {
        "schema": SCHEMA,
        "recipe": plan.recipe,
        "grid": plan.name,
        "about": plan.grid.about,
        "command": _command(plan.recipe, f"grid={plan.name}", *plan.settings),
        "hardware": _listed(card.get("hardware", "") for card in cards),
        "versions": {name: _listed(found) for name, found in versions.items()},
        "seeds": list(plan.grid.seeds),
        "against": plan.grid.against,
        "columns": there.get("COLUMNS", every),
        "rows": rows,
    }
    return noted(table, module)


def noted(table: dict[str, Any], module: Any) -> dict[str, Any]:
    """The table with what the recipe says of it now, computed from its numbers."""
    said = vars(module).get("notes")
    return {**table, "notes": list(said(table)) if said else []}


def written(folder: Path, table: dict[str, Any]) -> None:
    """Put a table into a folder, as table.json and table.md."""
    text = json.dumps(table, indent=1, ensure_ascii=False, allow_nan=False)
    files.write(folder / "table.json", text + "\n")
    files.write(folder / "table.md", section(table))


def is_table(found: Any) -> bool:
    """Whether this is a table, of those that are understood here."""
    needed = {"schema", "recipe", "grid", "rows", "columns"}
    return isinstance(found, dict) and needed <= found.keys() and found["schema"] == SCHEMA


def lines(table: dict[str, Any]) -> list[list[str]]:
    """The head and the rows of a table, as text."""
    known = {name for row in table["rows"] for numbers in row["numbers"] for name in numbers}
    columns = {title: name for title, name in table["columns"].items() if name in known}
    compared = [f"against {table['against']}"] if any(r["compared"] for r in table["rows"]) else []
    found = [["", *columns, *compared, "time"]]
    for row in table["rows"]:
        cells = [row["label"], *(_mean(row, name) for name in columns.values())]
        cells += [row["compared"] or "–"] if compared else []
        found.append([*cells, clock(fmean(row["seconds"])) if row["seconds"] else "–"])
    return found


def section(table: dict[str, Any]) -> str:
    """A table as Markdown: what its numbers may depend on and come to, the command of each row."""
    seconds = sum(sum(row["seconds"]) for row in table["rows"])
    torch = table["versions"].get("torch", "unknown")
    told = [table["hardware"], f"torch {torch}", f"seeds {', '.join(map(str, table['seeds']))}"]
    head, *rows = lines(table)
    marked = [_marked([*head, "command"]), _marked(["---"] * (len(head) + 1))]
    for cells, row in zip(rows, table["rows"], strict=True):
        marked.append(_marked([*cells, f"`{row['command']}`"]))
    failed = [
        f"- {row['label']}, seed {seed}: {why}"
        for row in table["rows"]
        for seed, why in row["failed"].items()
    ]
    parts = [
        f"## {table['recipe']}: {table['grid']}",
        f"{table['about']}.",
        f"{' · '.join(filter(None, [*told, f'{clock(seconds)} in all']))}\n\n`{table['command']}`",
        "\n".join(marked),
        f"![{table['about']}]({table['picture']})" if "picture" in table else "",
        "\n".join(f"- {note}" for note in table.get("notes", [])),
        "\n".join(["Failed:", "", *failed]) if failed else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def page(tables: list[dict[str, Any]]) -> str:
    """All tables on one page, by recipe and grid."""
    ordered = sorted(tables, key=lambda table: (table["recipe"], table["grid"]))
    return "\n".join([HEAD, *map(section, ordered)])


def portable(text: str) -> str:
    """Text in which of every path from the root or from home only the last part is left.

    >>> portable("no file /home/me/pairs.tsv; see data/pairs.tsv, 3 tokens/s")
    'no file pairs.tsv; see data/pairs.tsv, 3 tokens/s'
    """
    return re.sub(r"(?<![\w./~-])~?/(?:[^\s/'\":;,]+/)+", "", text)


def _row(plan: Plan, row: Row, there: dict[str, Any]) -> dict[str, Any]:
    """One row of the table: what it is, and what each of its seeds came to."""
    cells = [cell for cell in plan.cells if cell.row == row]
    done = [cell for cell in cells if cell.finished]
    cards = [_card(cell) for cell in done]
    lost = [(cell.seed, cell.failed) for cell in cells if not cell.finished]
    return {
        "label": row.label,
        "settings": [portable(setting) for setting in plan.settings_of(row)],
        "command": _row_command(plan, row, there),
        "seeds": [cell.seed for cell in done],
        "numbers": [_numbers(card.get("numbers", {})) for card in cards],
        "seconds": [card.get("seconds", 0.0) for card in cards],
        "failed": {str(seed): portable(why or "not finished") for seed, why in lost},
        "compared": _compared(plan, done, there),
    }


def _numbers(told: dict[str, Any]) -> dict[str, Number]:
    """The numbers of a card, those one level down under dotted names."""
    flat: dict[str, Any] = {}
    for name, held in told.items():
        inside = held.items() if isinstance(held, dict) else ()
        flat |= {f"{name}.{inner}": number for inner, number in inside} if inside else {name: held}
    return {
        name: held
        for name, held in flat.items()
        # the seeds stand beside the numbers already
        if type(held) in (int, float) and math.isfinite(held) and name.split(".")[-1] != "seed"
    }


def _row_command(plan: Plan, row: Row, there: dict[str, Any]) -> str:
    """The command that trains one row by itself."""
    base, settings = plan.grid.base, plan.settings_of(row)
    if base == there["Config"]():
        return _command(plan.recipe, *settings)
    for name, config in there.get("LIKE", {}).items():
        if config == base:
            return _command(plan.recipe, f"like={name}", *settings)
    return _command(plan.recipe, f"grid={plan.name}", *plan.settings, "--only", row.slug)


def _compared(plan: Plan, ours: list[Cell], there: dict[str, Any]) -> str | None:
    """What the recipe says of a row beside the one that all are compared with, if it can."""
    theirs = {c.seed: c for c in plan.cells if c.row.label == plan.grid.against and c.finished}
    pairs = [(cell, theirs[cell.seed]) for cell in ours if cell.seed in theirs]
    if "compared" not in there or not pairs or pairs[0][0] == pairs[0][1]:
        return None
    return str(there["compared"]([a.folder for a, _ in pairs], [b.folder for _, b in pairs]))


def _card(cell: Cell) -> dict[str, Any]:
    return files.json_object(cell.folder / "card.json")


def _mean(row: dict[str, Any], name: str) -> str:
    """A number of a row, over its seeds."""
    found = [numbers[name] for numbers in row["numbers"] if name in numbers]
    if not found:
        return "failed" if row["failed"] else "–"
    mean, half = fmean(found), (max(found) - min(found)) / 2
    # as many places for both, and few enough to be read: 1,234 and 37.03 and 1.050 and 1.2e-05
    form = ",.0f" if abs(mean) >= 1000 else ".2f" if abs(mean) >= 10 else ".3f"
    form = form if abs(mean) >= 1e-3 or not mean else ".2g"
    return f"{mean:{form}}" + (f" ± {half:{form}}" if len(found) > 1 else "")


def _marked(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _listed(found: Iterable[str]) -> str:
    return " and ".join(sorted(set(filter(None, found))))


def _command(recipe: str, *words: str) -> str:
    return shlex.join(["regard", "train", recipe, *map(portable, words)])
