"""The numbers of a grid as a table: JSON that names no place of this machine, and Markdown."""

import json
import math
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.check import Number
from regard.runtime import atomic_files
from regard.train.grids import Cell, Plan, Row
from regard.train.progress import format_duration

SCHEMA = 1
PAGE_HEADER = """# Results

Written by `python -m benchmarks.results` from the tables of `regard train RECIPE grid=NAME`; no
number here is typed by hand. A number is the mean over the seeds; ± is half of the range. Time is
that of one training, with validation and checkpoints. Where trainings of a table shared a machine,
it is longer than alone. The command of a row trains that row; if it names no grid,
`training.seed=…` chooses the seed.
"""


def collect_table(plan: Plan, module: Any) -> dict[str, Any]:
    """The table of all trainings that have ended, as JSON can hold it.

    Args:
        module: the recipe. It may offer `PRESETS`, configs by name; `COLUMNS`, which numbers are
            shown; `compare_runs(ours, theirs)`, a word on the runs in some folders against those in
            others; and `notes(table)`, sentences on what the numbers come to.
    """
    there = vars(module)
    rows = [_collect_row(plan, row, there) for row in plan.grid.rows]
    cards = [_read_card(cell) for cell in plan.cells if cell.is_finished]
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
        "command": _train_command(plan.recipe, f"grid={plan.name}", *plan.settings),
        "hardware": _join_unique(card.get("hardware", "") for card in cards),
        "versions": {name: _join_unique(found) for name, found in versions.items()},
        "seeds": list(plan.grid.seeds),
        "against": plan.grid.against,
        "columns": there.get("COLUMNS", every),
        "rows": rows,
    }
    return with_notes(table, module)


def with_notes(table: dict[str, Any], module: Any) -> dict[str, Any]:
    """The table with what the recipe says of it now, computed from its numbers."""
    said = vars(module).get("notes")
    return {**table, "notes": list(said(table)) if said else []}


def write_table(folder: Path, table: dict[str, Any]) -> None:
    """Put a table into a folder, as table.json and table.md."""
    text = json.dumps(table, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_files.write_file(folder / "table.json", text + "\n")
    atomic_files.write_file(folder / "table.md", table_markdown(table))


def is_table(value: Any) -> bool:
    """Whether this is a table, of those that are understood here."""
    needed = {"schema", "recipe", "grid", "rows", "columns"}
    return isinstance(value, dict) and needed <= value.keys() and value["schema"] == SCHEMA


def table_rows(table: dict[str, Any]) -> list[list[str]]:
    """The head and the rows of a table, as text."""
    known = {name for row in table["rows"] for numbers in row["numbers"] for name in numbers}
    columns = {title: name for title, name in table["columns"].items() if name in known}
    compared = [f"against {table['against']}"] if any(r["compared"] for r in table["rows"]) else []
    found = [["", *columns, *compared, "time"]]
    for row in table["rows"]:
        cells = [row["label"], *(_format_mean(row, name) for name in columns.values())]
        cells += [row["compared"] or "–"] if compared else []
        found.append([*cells, format_duration(fmean(row["seconds"])) if row["seconds"] else "–"])
    return found


def table_markdown(table: dict[str, Any]) -> str:
    """A table as Markdown: what its numbers may depend on and come to, the command of each row."""
    seconds = sum(sum(row["seconds"]) for row in table["rows"])
    torch = table["versions"].get("torch", "unknown")
    told = [table["hardware"], f"torch {torch}", f"seeds {', '.join(map(str, table['seeds']))}"]
    head, *rows = table_rows(table)
    marked = [_markdown_row([*head, "command"]), _markdown_row(["---"] * (len(head) + 1))]
    for cells, row in zip(rows, table["rows"], strict=True):
        marked.append(_markdown_row([*cells, f"`{row['command']}`"]))
    failed = [
        f"- {row['label']}, seed {seed}: {why}"
        for row in table["rows"]
        for seed, why in row["failed"].items()
    ]
    parts = [
        f"## {table['recipe']}: {table['grid']}",
        f"{table['about']}.",
        " · ".join(filter(None, [*told, f"{format_duration(seconds)} in total"]))
        + f"\n\n`{table['command']}`",
        "\n".join(marked),
        f"![{table['about']}]({table['picture']})" if "picture" in table else "",
        "\n".join(f"- {note}" for note in table.get("notes", [])),
        "\n".join(["Failed:", "", *failed]) if failed else "",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def page_markdown(tables: list[dict[str, Any]]) -> str:
    """All tables on one page, by recipe and grid."""
    ordered = sorted(tables, key=lambda table: (table["recipe"], table["grid"]))
    return "\n".join([PAGE_HEADER, *map(table_markdown, ordered)])


def without_folders(text: str) -> str:
    """Text in which of every path from the root or from home only the last part is left.

    >>> without_folders("no file /home/me/pairs.tsv; see data/pairs.tsv, 3 tokens/s")
    'no file pairs.tsv; see data/pairs.tsv, 3 tokens/s'
    """
    return re.sub(r"(?<![\w./~-])~?/(?:[^\s/'\":;,]+/)+", "", text)


def _collect_row(plan: Plan, row: Row, recipe_vars: dict[str, Any]) -> dict[str, Any]:
    """One row of the table: what it is, and what each of its seeds came to."""
    cells = [cell for cell in plan.cells if cell.row == row]
    done = [cell for cell in cells if cell.is_finished]
    cards = [_read_card(cell) for cell in done]
    lost = [(cell.seed, cell.failure) for cell in cells if not cell.is_finished]
    return {
        "label": row.label,
        "settings": [without_folders(setting) for setting in plan.settings_of(row)],
        "command": _row_command(plan, row, recipe_vars),
        "seeds": [cell.seed for cell in done],
        "numbers": [_flat_numbers(card.get("numbers", {})) for card in cards],
        "seconds": [card.get("seconds", 0.0) for card in cards],
        "failed": {str(seed): without_folders(why or "not finished") for seed, why in lost},
        "compared": _comparison(plan, done, recipe_vars),
    }


def _flat_numbers(numbers: dict[str, Any]) -> dict[str, Number]:
    """The numbers of a card, those one level down under dotted names."""
    flat: dict[str, Any] = {}
    for name, held in numbers.items():
        inside = held.items() if isinstance(held, dict) else ()
        flat |= {f"{name}.{inner}": number for inner, number in inside} if inside else {name: held}
    return {
        name: held
        for name, held in flat.items()
        # the seeds stand beside the numbers already
        if type(held) in (int, float) and math.isfinite(held) and name.split(".")[-1] != "seed"
    }


def _row_command(plan: Plan, row: Row, recipe_vars: dict[str, Any]) -> str:
    """The command that trains one row by itself."""
    base, settings = plan.grid.base, plan.settings_of(row)
    if base == recipe_vars["Config"]():
        return _train_command(plan.recipe, *settings)
    for name, config in recipe_vars.get("PRESETS", {}).items():
        if config == base:
            return _train_command(plan.recipe, f"preset={name}", *settings)
    return _train_command(plan.recipe, f"grid={plan.name}", *plan.settings, "--only", row.slug)


def _comparison(plan: Plan, ours: list[Cell], recipe_vars: dict[str, Any]) -> str | None:
    """What the recipe says of a row beside the one that all are compared with, if it can."""
    theirs = {c.seed: c for c in plan.cells if c.row.label == plan.grid.against and c.is_finished}
    pairs = [(cell, theirs[cell.seed]) for cell in ours if cell.seed in theirs]
    if "compare_runs" not in recipe_vars or not pairs or pairs[0][0] == pairs[0][1]:
        return None
    return str(
        recipe_vars["compare_runs"]([a.folder for a, _ in pairs], [b.folder for _, b in pairs])
    )


def _read_card(cell: Cell) -> dict[str, Any]:
    return atomic_files.read_json_object(cell.folder / "card.json")


def _format_mean(row: dict[str, Any], name: str) -> str:
    """A number of a row, over its seeds."""
    found = [numbers[name] for numbers in row["numbers"] if name in numbers]
    if not found:
        return "failed" if row["failed"] else "–"
    mean, half = fmean(found), (max(found) - min(found)) / 2
    # as many places for both, and few enough to be read: 1,234 and 37.03 and 1.050 and 1.2e-05
    form = ",.0f" if abs(mean) >= 1000 else ".2f" if abs(mean) >= 10 else ".3f"
    form = form if abs(mean) >= 1e-3 or not mean else ".2g"
    return f"{mean:{form}}" + (f" ± {half:{form}}" if len(found) > 1 else "")


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _join_unique(texts: Iterable[str]) -> str:
    return " and ".join(sorted(set(filter(None, texts))))


def _train_command(recipe: str, *words: str) -> str:
    return shlex.join(["regard", "train", recipe, *map(without_folders, words)])
