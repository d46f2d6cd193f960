"""Whether a killed training comes out the same: `python -m benchmarks.resume [--commanded]`."""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.kills import Victim, killed
from benchmarks.measure import Row
from regard.train import Optimizer, Schedule, Training, fit

STEPS = 100
FIT = (sys.executable, "-m", "benchmarks.resume", "--train")
REGARD = (sys.executable, "-m", "regard", "train")
EVERY = ("training.report_every=3", "training.save_every=1", "training.validate_every=20")


@dataclass(frozen=True)
class Batch:
    """Random words."""

    words: Tensor
    tokens: int

    def to(self, device: Any) -> "Batch":
        return Batch(self.words.to(device), self.tokens)


class Words:
    """Epochs of eleven batches, so that kills fall anywhere in them."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for i in range(start, 11):
            drawn = torch.Generator().manual_seed(1000 * number + i)
            words = torch.randint(50, (4, 5 + i), generator=drawn)
            yield Batch(words, words.numel() - 4)


class Model(nn.Module):
    """A language model with tied weights, dropout, and a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.reads = nn.GRU(16, 16, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.2)
        self.guess = nn.Linear(16, 50)
        self.guess.weight = self.words.weight

    def forward(self, words: Tensor) -> Tensor:
        x, _ = self.reads(self.drop(self.words(words)))
        logits: Tensor = self.guess(self.norm(x.transpose(1, 2)).transpose(1, 2))
        return logits


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy, a little shaken by every generator there is."""
    logits = model(batch.words[:, :-1]).transpose(1, 2)
    shaken = 1 + 0.01 * (random.random() + float(np.random.rand()))
    return shaken * nn.functional.cross_entropy(logits, batch.words[:, 1:])


def judge(model: nn.Module) -> dict[str, float]:
    """The loss of one batch, and random numbers that nobody may miss."""
    with torch.no_grad():
        found = (
            float(loss(model, next(Words().epoch(10**6)))) + random.random() + float(torch.rand(1))
        )
    return {"loss": found}


def train(run: Path) -> None:
    """Train a little model, from wherever `run` is, with a checkpoint at every step."""
    torch.manual_seed(0)
    training = Training(
        steps=STEPS,
        optimizer=Optimizer("adamw", rate=0.01),
        schedule=Schedule("cosine", warmup=10),
        accumulate=2,
        ema_decay=0.9,
        device="cpu",
        validate_every=7,
        save_every=1,
        report_every=5,
    )
    fit(Model(), loss, Words(), training, run=run, validate=judge, resume=True)


FITTED = Victim(
    STEPS,
    begin=lambda run: [*FIT, str(run)],
    resume=lambda run: [*FIT, str(run)],
)


def commanded(*words: str, steps: int) -> Victim:
    """`regard train translate`, with these overrides."""
    told = (f"training.steps={steps}", *EVERY, *words)
    return Victim(
        steps,
        begin=lambda run: [*REGARD, "translate", *told, "--out", str(run)],
        resume=lambda run: [*REGARD, "--resume", str(run)],
    )


DEFAULT = commanded("data.development=100", "data.test=100", steps=STEPS)


def rows() -> list[Row]:
    """The claims about resuming."""
    claims = {
        "a small model that draws from every generator, a checkpoint at every step": FITTED,
        "`regard train translate` with its default model, a checkpoint at every step": DEFAULT,
    }
    found = []
    for claim, victim in claims.items():
        with tempfile.TemporaryDirectory() as folder:
            now = killed(victim, 10, seed=int(time.time()), folder=Path(folder))
        claim = f"Resume after SIGKILL at ten random moments, on a CPU: {claim}"
        found.append(Row(claim, "bit-equal losses", "10 of 10", str(now), now.equal))
    return found


def main() -> int:
    """Kill and compare; with --train, be the one that is killed."""
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("--kills", type=int, default=10)
    told.add_argument("--seed", type=int, default=int(time.time()))
    told.add_argument("--commanded", action="store_true", help="kill `regard train translate`")
    told.add_argument("--train", type=Path)
    given = told.parse_args()
    if given.train:
        train(given.train)
        return 0
    victim = DEFAULT if given.commanded else FITTED
    with tempfile.TemporaryDirectory() as folder:
        found = killed(victim, given.kills, seed=given.seed, folder=Path(folder))
    print(f"seed {given.seed}: {found}")
    return 0 if found.equal else 1


if __name__ == "__main__":
    sys.exit(main())
