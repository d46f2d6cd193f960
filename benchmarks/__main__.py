"""Run this machine's benchmarks and write docs/benchmarks.md: `python -m benchmarks [NAME …]`."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Row, save

DOCS = Path(__file__).parent.parent / "docs"
ON_CPU = (
    *("door", "looking", "window", "additive", "engine", "first", "resume", "commands"),
    "translate",
)
ON_GPU = ("window", "additive", "translate", "translate_training")

HEAD = """# Benchmarks

Written by `make bench` (`python -m benchmarks`); no number here is typed by hand. Both sides of a
ratio run in turns in one process on random inputs, after a warm-up; times are medians. Memory is
the growth of a fresh process at its peak; on a card, all that PyTorch has allocated at its peak.
"""


def main(names: list[str]) -> int:
    """Measure, save and print; 1 if a claim is not met."""
    on_gpu = torch.cuda.is_available()
    rows: list[Row] = []
    for name in names or (ON_GPU if on_gpu else ON_CPU):
        print(f"{name} …", flush=True)
        for row in import_module(f"benchmarks.{name}").rows():
            rows.append(row)
            print(f"  {'met   ' if row.met else 'MISSED'} {row.claim}: {row.measured}", flush=True)
    if not names:
        save(rows, DOCS / "benchmarks" / f"{'gpu' if on_gpu else 'cpu'}.json")
        (DOCS / "benchmarks.md").write_text(page())
    return 0 if all(row.met for row in rows) else 1


def page() -> str:
    """The page, from what every machine has saved."""
    parts = [HEAD]
    for path in sorted((DOCS / "benchmarks").glob("*.json")):
        found = json.loads(path.read_text())
        parts.append(
            f"## {found['machine']}\n\n{found['threads']} threads · Python {found['python']} · "
            f"torch {found['torch']} · commit {found['commit']}\n\n"
            "| claim | must | aim | measured | |\n|---|---|---|---|---|\n"
            + "\n".join(
                f"| {row['claim']} | {row['must']} | {row['aim']} | {row['measured']} | "
                f"{_word(row)} |"
                for row in found["rows"]
            )
            + "\n"
        )
    return "\n".join(parts)


def _word(row: dict[str, Any]) -> str:
    """What became of a claim; nothing for a figure that nobody claims anything about."""
    if not row["must"]:
        return ""
    return "met" if row["met"] else "**missed**"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
