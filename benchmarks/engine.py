"""What the engine costs: `fit` over a bare loop of the same model, journal, progress and all."""

import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Row, in_words
from regard.train import Lines, Training, checkpoints, fit

VOCABULARY, WIDTH, B, T = 2000, 256, 16, 32
BLOCK, BLOCKS = 25, 42
# where the default settings write a checkpoint
SAVED = Training().save_every


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


class Turns:
    """Batches that stop the clock of the engine after every block, and let a bare loop run one.

    The engine's blocks are timed from one batch asked for to another, so that all it does in
    between counts: rates, clipping, reports, the journal, checkpoints.
    """

    def __init__(self, bare: Callable[[list[Batch]], None]):
        self._bare = bare
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        drawn = torch.Generator().manual_seed(number)
        for _ in range(BLOCKS):
            block = [
                Batch(torch.randint(VOCABULARY, (B, T), generator=drawn)) for _ in range(BLOCK)
            ]
            before = time.perf_counter()
            self._bare(block)
            self.theirs.append(time.perf_counter() - before)
            before = time.perf_counter()
            yield from block
            self.ours.append(time.perf_counter() - before)


def bare(training: Training) -> Callable[[list[Batch]], None]:
    """The loop that one would write by hand, with the same optimizer and the same clipping."""
    model = _model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def run(block: list[Batch]) -> None:
        for batch in block:
            optimizer.zero_grad()
            loss(model, batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), training.clip)
            optimizer.step()

    return run


def rows() -> list[Row]:
    """The claim about the engine."""
    training = Training(steps=BLOCK * BLOCKS + 1, device="cpu")
    turns = Turns(bare(training))
    with tempfile.TemporaryDirectory() as run:
        fit(_model(), loss, turns, training, run=Path(run), report=Lines(io.StringIO()))
        saving = _saving(Path(run) / "checkpoints")
    ours, theirs = (statistics.median(x[2:]) / BLOCK for x in (turns.ours, turns.theirs))
    steps, saves = ours / theirs - 1, saving / SAVED / theirs
    return [
        Row(
            f"`fit` over a bare loop, GRU language model of {in_words(theirs)} a step, "
            "default settings, journal and progress on",
            "≤ 3 %",
            "1 %",
            f"{steps + saves:.2%} (steps {steps:.2%}: {in_words(ours)} against {in_words(theirs)}; "
            f"a checkpoint of {in_words(saving)} every {SAVED} steps: {saves:.2%})",
            steps + saves <= 0.03,
        )
    ]


def _saving(folder: Path) -> float:
    """The seconds of one checkpoint: too few fall into the blocks for a median of those."""
    found, times = checkpoints.load(folder), []
    for _ in range(7):
        before = time.perf_counter()
        checkpoints.save(folder, found)
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def _model() -> Model:
    torch.manual_seed(0)
    return Model()
