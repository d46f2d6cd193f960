"""What grids have measured, as a page: `python -m benchmarks.results [FOLDER …]`.

Copies the table.json of each folder, as `regard train RECIPE grid=NAME` leaves it, to docs/results/
and writes docs/results.md anew from all the tables there, and the pictures of those that have one.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import lengths
from regard.cli.resolve import RECIPES
from regard.train import results
from regard.view import save_figure

DOCS = Path(__file__).parent.parent / "docs"
# The tables that are pictures too: where the picture stands in docs, and what draws it.
PICTURES = {("translate", "long"): ("images/lengths.png", lengths.drawn)}


def kept(folder: Path, docs: Path = DOCS) -> Path:
    """Where the table of a folder is kept from now on, in place of one of the same grid."""
    path = folder / "table.json"
    if not path.exists():
        raise SystemExit(f"results: expected {path}, as a grid leaves it, got no such file")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not results.is_table(found):
        raise SystemExit(f"results: expected a table of schema {results.SCHEMA} in {path}")
    place = docs / "results" / f"{found['recipe']}-{found['grid']}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return place


def page(docs: Path = DOCS) -> str:
    """The page of all tables that are kept; what is no table is left where it is."""
    return results.page_markdown([_pictured(_noted(table)) for table in tables(docs)])


def pictures(docs: Path = DOCS) -> list[Path]:
    """The files of all pictures of the tables that are kept, drawn anew."""
    named = {(table["recipe"], table["grid"]): table for table in tables(docs)}
    found = [(named[key], *PICTURES[key]) for key in PICTURES if key in named]
    return [save_figure(draw(table), docs / place) for table, place, draw in found]


def tables(docs: Path = DOCS) -> list[dict[str, Any]]:
    """All tables that are kept."""
    found = [json.loads(p.read_text(encoding="utf-8")) for p in (docs / "results").glob("*.json")]
    return list(filter(results.is_table, found))


def _noted(table: dict[str, Any]) -> dict[str, Any]:
    """The table with what its recipe says of it today."""
    if table["recipe"] not in RECIPES:
        return table
    return results.with_notes(table, import_module(RECIPES[table["recipe"]][0]))


def _pictured(table: dict[str, Any]) -> dict[str, Any]:
    place, _ = PICTURES.get((table["recipe"], table["grid"]), (None, None))
    return table if place is None else {**table, "picture": place}


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        print(kept(folder).relative_to(DOCS.parent))
    for path in pictures():
        print(path.relative_to(DOCS.parent))
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
