"""A recipe that trains nothing, with a grid: `python -m tests.train.tabled` is its command line."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from regard.config import to_json
from regard.train.engine import DivergedError
from regard.train.grids import Grid, Row
from regard.train.interrupts import catch_signals


@dataclass(frozen=True)
class Training:
    steps: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Config:
    width: int = 4
    corpus: Path | None = None
    training: Training = Training()


@dataclass(frozen=True)
class Evaluation:
    beam: int = 1


WIDE = Config(width=40)
PRESETS = {"small": Config(), "wide": WIDE}
ROWS = (Row("Narrow, one", ("width=1",)), Row("as it is"))
GRIDS = {
    "widths": Grid("How wide it must be", WIDE, ROWS, seeds=(0, 1), against="as it is"),
    "broken": Grid("One row fails", Config(), (Row("13", ("width=13",)), Row("as it is"))),
}
COLUMNS = {"BLEU": "bleu", "2017": "test_2017.bleu", "chrF": "chrf"}
# Widths with which a run fails, and with which it waits until it is asked to stop.
DIVERGES, WAITS = 13, 7


def run(config, *, out=None, report=None, resume=None, step=None):
    """Write what a run leaves behind; the numbers are the width and the seed."""
    folder = resume or out
    folder.mkdir(parents=True, exist_ok=True)
    told = {"schema": 1, "recipe": "toy", "settings": to_json(config)}
    (folder / "config.json").write_text(json.dumps(told))
    report.note(f"{'goes on' if resume else 'begins'} with width {config.width}")
    if config.width == DIVERGES:
        raise DivergedError(f"the loss is nan\nin {Path('/home/me/runs/13')}")
    if config.width == WAITS:
        with catch_signals() as asked:
            while not asked:
                time.sleep(0.05)
        return SimpleNamespace(stopped="interrupted")
    bleu = config.width + config.training.seed
    numbers = {"bleu": bleu, "test_2017": {"bleu": 0.5, "by": "sacrebleu"}, "seed": 3, "by": "x"}
    card = {"numbers": numbers, "seconds": 60.0, "hardware": "a card", "versions": {"torch": "2.0"}}
    (folder / "card.json").write_text(json.dumps(card))
    return SimpleNamespace(stopped="finished")


def compare_runs(ours, theirs):
    """The folders that were compared, as a word."""
    return " ".join(a.name + "<" + b.name for a, b in zip(ours, theirs, strict=True))


if __name__ == "__main__":
    from regard.cli.main import main
    from regard.cli.resolve import RECIPES

    RECIPES["toy"] = ("tests.train.tabled", "a toy")
    sys.exit(main())
