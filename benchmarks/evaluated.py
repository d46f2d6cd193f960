"""Results of evaluations, as a page: `python -m benchmarks.evaluated [FILE …]`.

Keeps the lines of each file, as `regard evaluate … --json > FILE` wrote them, in
docs/results/evaluated.json, in place of those of the same command on the same hardware, and writes
docs/results/evaluated.md anew from all that are kept. No path of this machine is kept.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from regard.recipes.pointer.metrics import format_percent
from regard.train.results import without_folders

RESULTS = Path(__file__).parent.parent / "docs" / "results"
HEAD = """# Evaluated

Written by `python -m benchmarks.evaluated` from the output of `regard evaluate … --json`; no number
here is typed by hand. A model name that is not in the zoo is the run of that name in the
[tables](../results.md). Files are those of the folder REGARD_DATA; their tours are LKH's.

| command | result | hardware | seconds |
|---|---|---|---|
"""
# The mean length of the shortest tours of so many cities in the unit square: Kool et al. 2019.
SHORTEST = {"100": 7.76}
KNOWN = ("model", "command", "instances", "seed", "seconds", "hardware")


def kept(lines: list[dict[str, Any]], results: Path = RESULTS) -> list[dict[str, Any]]:
    """All evaluations that are kept from now on, by command and hardware."""
    path = results / "evaluated.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    new = [
        {
            **line,
            "command": without_folders(line["command"]),
            "model": without_folders(line["model"]),
        }
        for line in lines
    ]
    together = {(line["command"], line["hardware"]): line for line in (*before, *new)}
    found = sorted(together.values(), key=_place)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


def page(lines: list[dict[str, Any]]) -> str:
    """A table of what they said."""
    rows = [
        f"| `{x['command']}` | {_said(x)} | {x['hardware']} | {x['seconds']:,.0f} |" for x in lines
    ]
    return HEAD + "\n".join(rows) + "\n"


def _place(line: dict[str, Any]) -> tuple[Any, ...]:
    """By model, then by how many points, then by the rest of what was typed."""
    return line["model"], int(_points(line) or 0), line["command"], line["hardware"]


def _points(line: dict[str, Any]) -> str | None:
    found = re.search(r"points=(\d+)", line["command"])
    return found[1] if found else None


def _said(line: dict[str, Any]) -> str:
    """Each number by its name; how far from the shortest tours there are, where it is known."""
    numbers = {k: v for k, v in line.items() if k not in KNOWN and isinstance(v, int | float)}
    told = [
        f"gap {format_percent(value)}" if name == "gap" else f"{name} {value:.5g}"
        for name, value in numbers.items()
    ]
    best = SHORTEST.get(_points(line) or "") if "length" in numbers else None
    if best is not None and "gap" not in numbers:
        told.append(f"{format_percent(numbers['length'] / best - 1)} above {best}")
    return ", ".join(told)


if __name__ == "__main__":
    given = [line for path in sys.argv[1:] for line in Path(path).read_text().splitlines()]
    found = kept([json.loads(line) for line in given if line.strip()])
    (RESULTS / "evaluated.md").write_text(page(found), encoding="utf-8")
    print(f"docs/results/evaluated.md: {len(found)} evaluations")
