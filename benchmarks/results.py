"""What grids have measured, as a page: `python -m benchmarks.results [FOLDER …]`.

Copies the table.json of each folder, as `regard train RECIPE grid=NAME` leaves it, to docs/results/
and writes docs/results.md anew from all the tables there.
"""

import json
import sys
from pathlib import Path

from regard.train import results

DOCS = Path(__file__).parent.parent / "docs"


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
    found = [json.loads(p.read_text(encoding="utf-8")) for p in (docs / "results").glob("*.json")]
    return results.page(list(filter(results.is_table, found)))


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        print(kept(folder).relative_to(DOCS.parent))
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
