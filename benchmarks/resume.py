"""Whether a killed training comes out the same: `python -m benchmarks.resume [--kills 10]`."""

import argparse
import random
import signal
import subprocess
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

from benchmarks.measure import Row
from regard.train import Optimizer, Schedule, Training, checkpoints, fit, journal

STEPS = 100


@dataclass(frozen=True)
class Found:
    """What became of a training that was killed."""

    kills: int
    # how many of them left a half-written checkpoint
    writing: int
    # lines of the journal with a loss or a metric, and how many of them differ
    compared: int
    unequal: int
    same_weights: bool

    @property
    def equal(self) -> bool:
        return self.compared > 0 and not self.unequal and self.same_weights


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
        average=0.9,
        device="cpu",
        judge_every=7,
        save_every=1,
        report_every=5,
    )
    fit(Model(), loss, Words(), training, run=run, judge=judge, resume=True)


def killed(kills: int, *, seed: int, folder: Path) -> Found:
    """Kill a training at random moments, let it finish, and compare it with a whole one."""
    drawn = random.Random(seed)
    run, whole = folder / "killed", folder / "whole"
    writing = 0
    for number, moment in enumerate(sorted(drawn.sample(range(STEPS - 10), kills))):
        child = subprocess.Popen(_command(run))
        # every other kill waits until the checkpoint is being written, and falls into that
        waits = ".writing-" if number % 2 else ""
        while child.poll() is None and not _reached(run / "checkpoints", moment, waits):
            time.sleep(0.0005)
        time.sleep(drawn.uniform(0, 0.002 if waits else 0.04))
        child.send_signal(signal.SIGKILL)
        child.wait()
        writing += bool(list((run / "checkpoints").glob(".writing-*")))
    subprocess.run(_command(run, whole), check=True)
    ours, theirs = ({_key(line): line for line in _measured(x)} for x in (run, whole))
    twice = len(_measured(run)) - len(ours)
    keys = ours.keys() | theirs.keys()
    unequal = sum(_values(ours.get(key)) != _values(theirs.get(key)) for key in keys)
    last = [x / "checkpoints" / checkpoints.name(STEPS) / "model.safetensors" for x in (run, whole)]
    same = last[0].read_bytes() == last[1].read_bytes()
    return Found(kills, writing, len(theirs), unequal + twice, same)


def rows() -> list[Row]:
    """The claim about resuming."""
    with tempfile.TemporaryDirectory() as folder:
        found = killed(10, seed=int(time.time()), folder=Path(folder))
    return [
        Row(
            "Resume after SIGKILL at ten random moments, a checkpoint at every step, on a CPU",
            "bit-equal losses",
            "10 of 10",
            f"{found.kills} kills, {found.writing} of them while a checkpoint was written: "
            f"{found.unequal} of {found.compared} losses and metrics differ, weights "
            f"{'equal' if found.same_weights else 'differ'}",
            found.equal,
        )
    ]


def _command(*runs: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.resume", "--train", *map(str, runs)]


def _reached(folder: Path, step: int, prefix: str) -> bool:
    """Whether a checkpoint of `step` or a later one is there, or one that is being written."""
    there = (path.name.removeprefix(prefix) for path in folder.glob(f"{prefix}step-*"))
    return any(name >= checkpoints.name(step) for name in there)


def _measured(run: Path) -> list[dict[str, Any]]:
    return [x for x in journal.lines(run / "journal.jsonl") if x["event"] in ("train", "judge")]


def _key(line: dict[str, Any]) -> tuple[str, int]:
    return line["event"], line["step"]


def _values(line: dict[str, Any] | None) -> Any:
    named = ("loss", "norm", "rate", "tokens", "epoch", "metrics", "best")
    return line and [line.get(name) for name in named]


def main() -> int:
    """Kill and compare; with --train, be the one that is killed."""
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("--kills", type=int, default=10)
    told.add_argument("--seed", type=int, default=int(time.time()))
    told.add_argument("--train", type=Path, nargs="+")
    given = told.parse_args()
    torch.set_num_threads(1)
    for run in given.train or ():
        train(run)
    if given.train:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = killed(given.kills, seed=given.seed, folder=Path(folder))
    print(f"seed {given.seed}: {found}")
    return 0 if found.equal else 1


if __name__ == "__main__":
    sys.exit(main())
