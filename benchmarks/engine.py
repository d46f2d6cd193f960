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
from regard.train import Lines, Training, checkpoints, fit

VOCABULARY, WIDTH, B, T = 2000, 256, 16, 32
# every block has one report in it
BLOCK, BLOCKS, WARM = Training().report_every, 24, 2
# where the default settings write a checkpoint
SAVED = Training().save_every

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
    """Batches that stop the clock of the engine after every block, and let a bare loop run one.

    The engine's blocks are timed from one batch asked for to another, so that all it does in
    between counts: rates, clipping, the journal, and the one report of each block.
    """

    def __init__(self, bare: Callable[[list[Batch]], None]):
        self._bare = bare
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        drawn = torch.Generator().manual_seed(number)
        for _ in range(WARM + BLOCKS):
            block = [
                Batch(torch.randint(VOCABULARY, (B, T), generator=drawn)) for _ in range(BLOCK)
            ]
            before = time.perf_counter()
            self._bare(block)
            self.theirs.append(time.perf_counter() - before)
            before = time.perf_counter()
            yield from block
            self.ours.append(time.perf_counter() - before)

    def pairs(self) -> list[tuple[float, float]]:
        """Seconds a step of the engine and of the bare loop just before it, when both are warm."""
        pairs = zip(self.ours, self.theirs, strict=False)
        return [(ours / BLOCK, theirs / BLOCK) for ours, theirs in pairs][WARM:]


def bare(model: nn.Module, loss: Loss, training: Training) -> Callable[[list[Batch]], None]:
    """The loop that one would write by hand, with the same optimizer and the same clipping."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def run(block: list[Batch]) -> None:
        for batch in block:
            optimizer.zero_grad()
            loss(model, batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), training.clip)
            optimizer.step()

    return run


def raced(model: Callable[[], nn.Module], loss: Loss, *, run: Path) -> list[tuple[float, float]]:
    """Seconds a step of `fit` with the default settings and of a bare loop, in turns."""
    # one step more than the blocks have, so that the clock of the last block is stopped
    training = Training(steps=BLOCK * (WARM + BLOCKS) + 1, device="cpu")
    turns = Turns(bare(model(), loss, training))
    fit(model(), loss, turns, training, run=run, report=Lines(io.StringIO()))
    return turns.pairs()


def rows() -> list[Row]:
    """The claim about the engine, and what it is made of."""
    with tempfile.TemporaryDirectory() as run:
        pairs = raced(_model, loss, run=Path(run))
        saving = _saving(Path(run) / "checkpoints")
    with tempfile.TemporaryDirectory() as run:
        least = raced(lambda: nn.Linear(T, 1), almost_nothing, run=Path(run))
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    # of neighbours: whatever else the machine does slows both
    steps = statistics.median(a / b for a, b in pairs) - 1
    saves = saving / SAVED / theirs
    own = statistics.median(a - b for a, b in least)
    return [
        Row(
            f"`fit` over a bare loop, GRU language model of {in_words(theirs)} a step, "
            "default settings, journal and progress on",
            "≤ 3 %",
            "1 %",
            f"{steps + saves:.2%} (steps {steps:.2%}: {in_words(ours)} against {in_words(theirs)}; "
            f"a checkpoint of {in_words(saving)} every {SAVED} steps: {saves:.2%})",
            steps + saves <= 0.03,
        ),
        Row(
            "What `fit` itself takes for a step, on a model of almost nothing",
            "",
            "",
            f"{in_words(own)} (a bare step of that model: "
            f"{in_words(statistics.median(b for _, b in least))})",
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
