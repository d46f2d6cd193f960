"""What the default translator reaches with attention and without.

    python -m benchmarks.translate

Trains every line of the table anew and writes docs/results/translate.json and translate.md.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from regard import load
from regard.config import override
from regard.recipes import translate

RESULTS = Path(__file__).parent.parent / "docs" / "results"
# Without attention a step is quicker; more of them fill the same time.
LINES = {
    "additive attention, the default": [""],
    "additive attention, seed 1": ["training.seed=1"],
    "additive attention, seed 2": ["training.seed=2"],
    "no attention, the state handed over, as many steps": ["model.attention=none"],
    "no attention, at least as much time": ["model.attention=none", "training.steps=1800"],
    "no attention, one context at every step, as many steps": ["model.attention=context"],
    "one context, at least as much time": ["model.attention=context", "training.steps=1800"],
}
HEAD = """# The default translator

Written by `python -m benchmarks.translate`; no number here is typed by hand. 10,000 short
English-French pairs of Tatoeba, 8,500 to learn from, 500 to choose by and 1,000 to judge by, with
no sentence of either language on two sides. BLEU and chrF in points, by sacreBLEU, on the 1,000;
loss in nats a token. Decoding is greedy, and in "beam 5" by five beams with a length penalty of 1,
which was chosen on the 500. Seconds are those of the training, judging and checkpoints with it.
"""


def measured(settings: list[str]) -> dict[str, Any]:
    """One line of the table."""
    config = override(translate.Config(), [setting for setting in settings if setting])
    with tempfile.TemporaryDirectory() as folder:
        result = translate.run(config, out=Path(folder))
        searched = translate.evaluate(load(folder), translate.Evaluation(beam=5))
    told = {name: result.metrics[name] for name in ("bleu", "chrf", "loss")}
    command = " ".join(["regard train translate", *filter(None, settings)])
    return {"command": command, **told, "beam 5": searched["bleu"], "seconds": result.seconds}


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows = [
        f"| {name} | {row['bleu']:.1f} | {row['beam 5']:.1f} | {row['chrf']:.1f} | "
        f"{row['loss']:.3f} | {row['seconds']:.0f} | `{row['command']}` |"
        for name, row in found["lines"].items()
    ]
    told = f"{found['machine']} · {found['threads']} threads · torch {found['torch']}"
    head = "| | BLEU | beam 5 | chrF | loss | seconds | command |\n|---|---|---|---|---|---|---|"
    return "\n".join([HEAD, f"{told} · commit {found['commit']}", "", head, *rows, ""])


def main() -> None:
    """Train all, print as it goes, write both files."""
    lines = {}
    for name, settings in LINES.items():
        lines[name] = measured(settings)
        print(f"{name}: {lines[name]}", flush=True)
    found = {**machine(), "lines": lines}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "translate.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "translate.md").write_text(page(found))


if __name__ == "__main__":
    main()
