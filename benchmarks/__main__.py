"""Run this machine's benchmarks, or some of them, and write docs/benchmarks.md anew.

`python -m benchmarks [NAME …]`

`python -m benchmarks fuzz [--seconds S] [--calls N]` holds random calls to an independent program
instead (`benchmarks/fuzz/`); with `--save` what it found goes to the same page.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Row, save

DOCS = Path(__file__).parent.parent / "docs"
ON_CPU = (
    *("door", "looking", "window", "additive", "scores", "engine", "first", "resume", "commands"),
    *("translate", "ready", "ntm", "pointer", "serving", "page"),
)
KEPT = (*ON_CPU, "foreign", "fuzz")  # run by themselves
ON_GPU = ("window", "additive", "scores", "translate", "translate_training", "ntm", "pointer")

HEAD = """# Benchmarks

Written by `make bench` (`python -m benchmarks`); no number here is typed by hand. Both sides of a
ratio run in turns in one process on random inputs, after a warm-up; times are medians. Memory is
the growth of a fresh process at its peak; on a card, all that PyTorch has allocated at its peak.
"""


def main(names: list[str]) -> int:
    """Measure, save and print; 1 if a claim is not met."""
    where = "gpu" if torch.cuda.is_available() else "cpu"
    met = True
    for name in names or (ON_GPU if where == "gpu" else ON_CPU):
        print(f"{name} …", flush=True)
        rows: list[Row] = []
        for row in import_module(f"benchmarks.{name}").rows():
            rows.append(row)
            print(f"  {'met   ' if row.met else 'MISSED'} {row.claim}: {row.measured}", flush=True)
        save(rows, DOCS / "benchmarks" / f"{where}-{name}.json")
        met = met and all(row.met for row in rows)
    (DOCS / "benchmarks.md").write_text(page())
    return 0 if met else 1


def page(docs: Path = DOCS) -> str:
    """The page, from what was saved of each benchmark on every machine."""
    parts = [HEAD]
    for where, order in (("cpu", KEPT), ("gpu", ON_GPU)):
        paths = [docs / "benchmarks" / f"{where}-{name}.json" for name in order]
        found = {path.stem: json.loads(path.read_text()) for path in paths if path.exists()}
        for machine in dict.fromkeys(one["machine"] for one in found.values()):
            parts.append(f"## {machine}\n")
            parts += [
                _table(stem.removeprefix(f"{where}-"), one)
                for stem, one in found.items()
                if one["machine"] == machine
            ]
    return "\n".join(parts)


def _table(name: str, found: dict[str, Any]) -> str:
    """The rows of one benchmark, and what they were measured with."""
    rows = [
        f"| {row['claim']} | {row['must']} | {row['aim']} | {row['measured']} | {_word(row)} |"
        for row in found["rows"]
    ]
    return (
        f"`python -m benchmarks {name}` · {found['threads']} threads · Python {found['python']} · "
        f"torch {found['torch']} · commit {found['commit']}\n\n"
        "| claim | must | aim | measured | |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _word(row: dict[str, Any]) -> str:
    """What became of a claim; nothing for a figure that nobody claims anything about."""
    if not row["must"]:
        return ""
    return "met" if row["met"] else "**missed**"


if __name__ == "__main__":
    if sys.argv[1:2] == ["fuzz"]:
        from benchmarks.fuzz.campaign import main as fuzz

        code = fuzz(sys.argv[2:])
        if "--save" in sys.argv:
            (DOCS / "benchmarks.md").write_text(page())
        sys.exit(code)
    sys.exit(main(sys.argv[1:]))
