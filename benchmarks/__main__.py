"""Run this machine's benchmarks, or some of them, and write docs/benchmarks.md anew.

`python -m benchmarks [NAME …]`

`python -m benchmarks fuzz [--seconds S] [--calls N]` holds random calls to an independent program
instead (`benchmarks/fuzz/`); with `--save` its counts go to the same page.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measure import MACHINE_KINDS, Row, machine_kind, save

DOCS = Path(__file__).parent.parent / "docs"
ON_CPU = (
    *(
        "dispatch",
        "looking",
        "window",
        "additive",
        "scores",
        "engine",
        "first",
        "resume",
        "commands",
    ),
    *("translate", "packed_weights", "ntm", "pointer", "serving", "page"),
)
ON_CPU_ALONE = ("foreign", "fuzz")  # asked for by name
ON_GPU = ("window", "additive", "scores", "translate", "translate_training", "ntm", "pointer")

HEAD = """# Benchmarks

Written by `make bench` (`python -m benchmarks`); no number here is typed by hand. Both sides of a
ratio run in turns in one process on random inputs, after a warm-up; times are medians. Memory is
the growth of a fresh process at its peak; on a GPU, it is the peak that PyTorch allocated.
"""


def main(names: list[str]) -> int:
    """Measure, save and print; 1 if a claim is not met."""
    kind, met = machine_kind(), True
    for name in names or (ON_GPU if kind == "gpu" else ON_CPU):
        print(f"{name} …", flush=True)
        rows: list[Row] = []
        for row in import_module(f"benchmarks.{name}").rows():
            rows.append(row)
            print(f"  {'met   ' if row.met else 'MISSED'} {row.claim}: {row.measured}", flush=True)
        save(rows, DOCS / "benchmarks" / f"{kind}-{name}.json")
        met = met and all(row.met for row in rows)
    (DOCS / "benchmarks.md").write_text(page())
    return 0 if met else 1


def page(docs: Path = DOCS) -> str:
    """The page, from the saved results of each benchmark on every kind of machine."""
    parts = [HEAD]
    for kind in MACHINE_KINDS:
        order = ON_GPU if kind == "gpu" else (*ON_CPU, *ON_CPU_ALONE)
        paths = {name: docs / "benchmarks" / f"{kind}-{name}.json" for name in order}
        results = {name: json.loads(p.read_text()) for name, p in paths.items() if p.exists()}
        for machine in dict.fromkeys(result["machine"] for result in results.values()):
            parts.append(f"## {machine}\n")
            parts += [_table(n, each) for n, each in results.items() if each["machine"] == machine]
    return "\n".join(parts)


def _table(name: str, result: dict[str, Any]) -> str:
    """The table of one benchmark, under its command, machine and versions."""
    rows = [
        f"| {row['claim']} | {row['must']} | {row['aim']} | {row['measured']} | {_word(row)} |"
        for row in result["rows"]
    ]
    return (
        f"`python -m benchmarks {name}` · {result['threads']} threads · Python {result['python']}"
        f" · torch {result['torch']} · commit {result['commit']}\n\n"
        "| claim | must | aim | measured | |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _word(row: dict[str, Any]) -> str:
    """`met` or `missed`; an empty text for a figure without a claim."""
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
