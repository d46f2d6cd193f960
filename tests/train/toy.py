"""The smallest training that has everything: batches of unequal size, dropout, a validation."""

import os
from dataclasses import dataclass

import torch
from torch import nn

from regard.train import Optimizer, Training, journal


@dataclass(frozen=True)
class Batch:
    """Points (n, 3); a token is a point."""

    x: torch.Tensor
    tokens: int

    def to(self, device):
        return Batch(self.x.to(device), self.tokens)


class Batches:
    """Five batches an epoch, of 2 to 6 points."""

    def epoch(self, number, start=0):
        for i in range(start, 5):
            drawn = torch.Generator().manual_seed(100 * number + i)
            yield Batch(torch.randn(2 + i, 3, generator=drawn), 2 + i)


def model(dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.25), nn.Linear(4, 3)).to(dtype)


def loss(model, batch):
    x = batch.x.to(next(model.parameters()).dtype)
    return (model(x) - x).square().mean()


def validate(model):
    x = torch.ones(2, 3, dtype=next(model.parameters()).dtype)
    return {"loss": float((model(x) - x).square().mean())}


def validator(*values):
    """A validation that gives these, one after the other."""
    left = list(values)
    return lambda model: {"loss": left.pop(0)}


def training(**fields):
    settled = {
        "steps": 12,
        "validate_every": 4,
        "save_every": 5,
        "report_every": 3,
        "device": "cpu",
    }
    return Training(**{**settled, "optimizer": Optimizer(rate=0.01), **fields})


def said(run, event="train"):
    """What the journal of a run says that does not depend on the clock."""
    clock = ("seconds", "tokens_per_second")
    lines = journal.read_lines(run / "journal.jsonl")
    return [{k: v for k, v in x.items() if k not in clock} for x in lines if x["event"] == event]


class Killed(BaseException):
    """The process is gone: it does not tidy up either."""


# what changes a disk, or waits for it
DISK = ("fsync", "rename", "replace", "unlink", "mkdir", "rmdir")


def broken(monkeypatch, survived, error, calls=DISK):
    """Let the disk do so many things more; from then on it answers with an error."""
    left = iter(range(survived))

    def breaking(call):
        def run(*args, **named):
            if next(left, None) is None:
                raise error
            return call(*args, **named)

        return run

    for name in calls:
        monkeypatch.setattr(os, name, breaking(getattr(os, name)))


def weights(model):
    return [p.tolist() for p in model.parameters()]
