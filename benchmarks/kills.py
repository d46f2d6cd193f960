"""Killing a training at random moments, and comparing it with one that was left alone."""

import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.train import checkpoints, journal


@dataclass(frozen=True)
class Victim:
    """A training with a checkpoint at every step: the commands that begin it and that go on."""

    steps: int
    begin: Callable[[Path], list[str]]
    resume: Callable[[Path], list[str]]


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

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.writing} of them while a checkpoint was written: "
            f"{self.unequal} of {self.compared} losses and metrics differ, weights "
            f"{'equal' if self.same_weights else 'differ'}"
        )


def killed(victim: Victim, kills: int, *, seed: int, folder: Path) -> Found:
    """Kill a training at random moments, let it finish, and compare it with a whole one."""
    drawn = random.Random(seed)
    run, whole = folder / "killed", folder / "whole"
    writing, command = 0, victim.begin
    for number, moment in enumerate(sorted(drawn.sample(range(victim.steps - 10), kills))):
        child = subprocess.Popen(command(run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # every other kill waits until the checkpoint is being written, and falls into that
        waits = ".writing-" if number % 2 else ""
        while child.poll() is None and not _reached(run / "checkpoints", moment, waits):
            time.sleep(0.0005)
        time.sleep(drawn.uniform(0, 0.002 if waits else 0.04))
        child.send_signal(signal.SIGKILL)
        if child.wait() != -signal.SIGKILL:
            raise RuntimeError(f"{' '.join(command(run))} ended before it could be killed")
        writing += bool(list((run / "checkpoints").glob(".writing-*")))
        command = victim.resume
    for last in (victim.resume(run), victim.begin(whole)):
        subprocess.run(last, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _compared(run, whole, victim.steps, kills=kills, writing=writing)


def _compared(run: Path, whole: Path, steps: int, *, kills: int, writing: int) -> Found:
    ours, theirs = ({_key(line): line for line in _measured(x)} for x in (run, whole))
    twice = len(_measured(run)) - len(ours)
    keys = ours.keys() | theirs.keys()
    unequal = sum(_values(ours.get(key)) != _values(theirs.get(key)) for key in keys)
    last = [
        x / "checkpoints" / checkpoints.folder_name(steps) / "model.safetensors"
        for x in (run, whole)
    ]
    same = last[0].read_bytes() == last[1].read_bytes()
    return Found(kills, writing, len(theirs), unequal + twice, same)


def _reached(folder: Path, step: int, prefix: str) -> bool:
    """Whether a checkpoint of `step` or a later one is there, or one that is being written."""
    there = (path.name.removeprefix(prefix) for path in folder.glob(f"{prefix}step-*"))
    return any(name >= checkpoints.folder_name(step) for name in there)


def _measured(run: Path) -> list[dict[str, Any]]:
    return [
        x for x in journal.read_lines(run / "journal.jsonl") if x["event"] in ("train", "validate")
    ]


def _key(line: dict[str, Any]) -> tuple[str, int]:
    return line["event"], line["step"]


def _values(line: dict[str, Any] | None) -> Any:
    named = ("loss", "norm", "rate", "tokens", "epoch", "metrics", "best")
    return line and [line.get(name) for name in named]
