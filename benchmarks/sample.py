"""BLEU of the default translator with attention and without.

    python -m benchmarks.sample

Trains every line of the table anew and writes docs/results/translate.json and translate.md.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from regard import load
from regard.config import override
from regard.data.text.corpus import Corpus, split_fingerprint
from regard.recipes import translate
from regard.recipes.translate.search import LENGTH_PENALTY

RESULTS = Path(__file__).parent.parent / "docs" / "results"
BEAM = 5
# Without attention a step is quicker; more of them fill the same time.
LINES = {
    "additive attention, the default": [],
    "additive attention, seed 1": ["training.seed=1"],
    "additive attention, seed 2": ["training.seed=2"],
    "no attention, encoder state to decoder, as many steps": ["model.attention=none"],
    "no attention, at least as much time": ["model.attention=none", "training.steps=1800"],
    "no attention, one context at every step, as many steps": ["model.attention=context"],
    "one context, at least as much time": ["model.attention=context", "training.steps=1800"],
}
HEAD = """# The default translator

Written by `python -m benchmarks.sample`; no number here is typed by hand. Short English-French
pairs of Tatoeba: {train:,} for training, {development:,} for development and {test:,} for the test.
No sentence of either language is in two parts. BLEU and chrF are in points, by sacreBLEU, on the
test pairs; loss is in nats a token. Decoding is greedy; the column "beam {beam}" has beam width
{beam} and a length penalty of {penalty:g}, chosen on the development pairs. Seconds are those of
the training, with validation and checkpoints.
"""


def measured(settings: list[str]) -> dict[str, Any]:
    """One line of the table."""
    config = override(translate.Config(), settings)
    with tempfile.TemporaryDirectory() as folder:
        result = translate.run(config, out=Path(folder))
        searched = translate.evaluate(load(folder), translate.Evaluation(beam=BEAM))
    told = {name: result.metrics[name] for name in ("bleu", "chrf", "loss")}
    command = " ".join(["regard train translate", *settings])
    return {"command": command, **told, "beam": searched["bleu"], "seconds": result.seconds}


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows = [
        f"| {name} | {row['bleu']:.1f} | {row['beam']:.1f} | {row['chrf']:.1f} | "
        f"{row['loss']:.3f} | {row['seconds']:.0f} | `{row['command']}` |"
        for name, row in found["lines"].items()
    ]
    told = f"{found['machine']} · {found['threads']} threads · torch {found['torch']}"
    head = (
        f"| | BLEU | beam {BEAM} | chrF | loss | seconds | command |\n|---|---|---|---|---|---|---|"
    )
    about = HEAD.format(**found["pairs"], beam=BEAM, penalty=LENGTH_PENALTY)
    return "\n".join([about, f"{told} · commit {found['commit']}", "", head, *rows, ""])


def main() -> None:
    """Train all, print as it goes, write both files."""
    lines = {}
    for name, settings in LINES.items():
        lines[name] = measured(settings)
        print(f"{name}: {lines[name]}", flush=True)
    parts = split_fingerprint(Corpus().load_split())
    counts = {name: parts[name] for name in ("train", "development", "test")}
    found = {**machine(), "pairs": counts, "lines": lines}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "translate.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "translate.md").write_text(page(found))


if __name__ == "__main__":
    main()
