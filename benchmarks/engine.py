"""What the engine costs: `fit` over a bare loop of the same model, journal, progress and all."""

import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Row, in_words
from regard.train import LineReport, Training, checkpoints, fit, optimizers

VOCABULARY, WIDTH, B, T = 2000, 256, 16, 32
STEPS, WARM = 1100, 100
# where the default settings report, and where they write a checkpoint
TOLD, SAVED = Training().report_every, Training().save_every

Loss = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class Batch:
    """Random words (B, T)."""

    words: Tensor
    tokens: int = B * (T - 1)

    def to(self, device: Any) -> "Batch":
        return Batch(self.words.to(device), self.tokens)


class Model(nn.Module):
    """A small language model: words, two layers of GRU, the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.reads = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.guess = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.guess(self.reads(self.words(words))[0])
        return logits


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy of the next word."""
    logits = model(batch.words[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch.words[:, 1:].flatten())


def almost_nothing(model: nn.Module, batch: Batch) -> Tensor:
    """A loss that costs so little that what is left is the engine."""
    output: Tensor = model(batch.words[0].float())
    return output.square().mean()


class Turns:
    """Batches that stop the clock of the engine after every step, and let a bare loop take one.

    Step by step in turns, because what else the machine does changes from second to second. A step
    of the engine is timed from one batch asked for to the next, so that all it does counts.
    """

    def __init__(self, bare: Callable[[Batch], None]):
        self._bare = bare
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        drawn = torch.Generator().manual_seed(number)
        for i in range(STEPS):
            batch = Batch(torch.randint(VOCABULARY, (B, T), generator=drawn))
            if i % 2:  # who goes second finds the caches warm, so they take turns in that as well
                self._take(batch)
            before = time.perf_counter()
            yield batch
            self.ours.append(time.perf_counter() - before)
            if not i % 2:
                self._take(batch)

    def _take(self, batch: Batch) -> None:
        before = time.perf_counter()
        self._bare(batch)
        self.theirs.append(time.perf_counter() - before)


@dataclass(frozen=True)
class Cost:
    """Median seconds a step: bare, of the engine, and what a step with a report takes longer."""

    theirs: float
    ours: float
    telling: float

    @classmethod
    def of(cls, turns: Turns) -> "Cost":
        steps = list(enumerate(turns.ours, 1))[WARM:]
        plain = statistics.median(x for step, x in steps if step % TOLD and step % SAVED)
        told = statistics.median(x for step, x in steps if not step % TOLD and step % SAVED)
        return cls(statistics.median(turns.theirs[WARM:]), plain, max(0.0, told - plain))

    @property
    def more(self) -> float:
        """What the engine adds to a step, its share of a report included."""
        return self.ours - self.theirs + self.telling / TOLD


def bare(model: nn.Module, loss: Loss, training: Training) -> Callable[[Batch], None]:
    """The loop that one would write by hand, with the same optimizer and the same clipping."""
    optimizer = optimizers.build_optimizer(model, training.optimizer)

    def run(batch: Batch) -> None:
        optimizer.zero_grad()
        loss(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()

    return run


def raced(model: Callable[[], nn.Module], loss: Loss, *, run: Path) -> Cost:
    """`fit` with the default settings and a bare loop, in turns."""
    # one step more than are timed, so that the clock of the last is stopped
    training = Training(steps=STEPS + 1, device="cpu")
    turns = Turns(bare(model(), loss, training))
    fit(model(), loss, turns, training, run=run, report=LineReport(io.StringIO()))
    return Cost.of(turns)


def rows() -> list[Row]:
    """The claim about the engine, and what it is made of."""
    with tempfile.TemporaryDirectory() as run:
        cost = raced(_model, loss, run=Path(run))
        saving = _saving(Path(run) / "checkpoints")
    with tempfile.TemporaryDirectory() as run:
        least = raced(lambda: nn.Linear(T, 1), almost_nothing, run=Path(run))
    steps, saves = cost.more / cost.theirs, saving / SAVED / cost.theirs
    return [
        Row(
            f"`fit` over a bare loop, GRU language model of {in_words(cost.theirs)} a step, "
            "default settings, journal and progress on",
            "≤ 3 %",
            "1 %",
            f"{steps + saves:.2%} (steps {steps:.2%}: {in_words(cost.ours)} against "
            f"{in_words(cost.theirs)}, and {in_words(cost.telling)} more every {TOLD} steps; "
            f"a checkpoint of {in_words(saving)} every {SAVED} steps: {saves:.2%})",
            steps + saves <= 0.03,
        ),
        Row(
            "overhead of `fit` a step, on a minimal model",
            "",
            "",
            f"{in_words(least.more)} (a bare step of that model: {in_words(least.theirs)})",
            True,
        ),
    ]


def _saving(folder: Path) -> float:
    """The seconds of one checkpoint: too few fall into the blocks for a median of those."""
    found, times = checkpoints.load(folder), []
    for more in range(1, 8):
        # a step that is there is not written again
        later = replace(found, step=found.step + more)
        before = time.perf_counter()
        checkpoints.save(folder, later)
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def _model() -> Model:
    torch.manual_seed(0)
    return Model()
