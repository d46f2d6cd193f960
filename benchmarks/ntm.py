"""How fast a Neural Turing Machine learns, beside the same machine as an eager loop over steps.

`python -m benchmarks ntm`. Batch 32, copies of length 20 (42 steps), memory 128 × 20, an LSTM of
100 units; forward and backward, as in training. The eager loop is `benchmarks/ntm_eager.py`.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import ntm_eager
from benchmarks.measure import Row, in_words, race
from regard.data.ntm.copy import Copy
from regard.models.ntm import NTM, NTMConfig
from regard.recipes import copy
from regard.recipes.ntm.loss import loss
from regard.runtime import compile
from regard.train.cuda_graphs import GraphedCallable

ROWS, LENGTH = 32, 20
SHAPE = f"batch {ROWS}, copy of length {LENGTH}, memory 128 × 20"


def rows() -> list[Row]:
    """The claims that this machine can be asked about."""
    torch.manual_seed(0)
    if torch.cuda.is_available():
        return [_on_card(), _called(), _solved()]
    return [_on_cpu(), _compiled()]


def _on_card() -> Row:
    """As the recipe trains: captured once as a CUDA graph, and replayed."""
    batch, model = _drawn("cuda")
    replayed = GraphedCallable(lambda given: (_learnt(model, loss)(given),))
    for _ in range(3):
        replayed(batch)
    # a model of its own, whose gradients no graph holds
    theirs = _learnt(_drawn("cuda")[1], _eager)
    raced = race(lambda: replayed(batch), lambda: theirs(batch), rounds=7)
    claim = f"forward and backward of the whole sequence, as a CUDA graph; {SHAPE}"
    return _row(claim, "≥ 10 × eager", "≥ 100 ×", raced, 10)


def _called() -> Row:
    """Without a CUDA graph: one kernel forward, one backward, and the operations around them."""
    return _row(f"the same, without a CUDA graph; {SHAPE}", "", "", _raced("cuda", rounds=7), 0)


def _on_cpu() -> Row:
    claim = f"forward and backward; {SHAPE}, {torch.get_num_threads()} cores"
    return _row(claim, "≥ 2 × eager", "≥ 6 ×", _raced("cpu", rounds=15), 2)


def _compiled() -> Row:
    """As a training with `training.torch_compile` calls it, once compiled."""
    with compile.enable_compilation():
        raced = _raced("cpu", rounds=15)
    claim = f"the same, compiled; {SHAPE}, {torch.get_num_threads()} cores"
    return _row(claim, "≥ 2 × eager", "≥ 6 ×", raced, 2)


def _raced(device: str, *, rounds: int) -> Any:
    """A machine as it is called, against itself as an eager loop."""
    batch, model = _drawn(device)
    ours, theirs = _learnt(model, loss), _learnt(model, _eager)
    return race(lambda: ours(batch), lambda: theirs(batch), rounds=rounds)


def _solved() -> Row:
    """A training from scratch, with compilation, until held-out copies cost < 0.1 bits."""
    with tempfile.TemporaryDirectory() as folder:
        config = copy.Config()
        few = replace(config, training=replace(config.training, steps=10_000))
        found = copy.run(few, out=Path(folder) / "run").metrics
    seconds, after = found.get("solved_seconds"), found.get("solved_after")
    measured = "not solved" if seconds is None else f"{seconds:.1f} s, {after:,.0f} sequences"
    claim = "copy solved from scratch, seed 0, with compilation, validation and checkpoints"
    return Row(claim, "≤ 60 s", "≤ 15 s", measured, seconds is not None and seconds <= 60)


def _drawn(device: str) -> tuple[Any, NTM]:
    task = Copy(shortest=LENGTH, longest=LENGTH)
    return task.draw(np.random.default_rng(0), ROWS).to(device), NTM(NTMConfig()).to(device)


def _learnt(model: NTM, loss: Callable[..., Any]) -> Callable[[Any], Any]:
    """What learns from a batch, apart from the change of the weights."""

    def learn(batch: Any) -> Any:
        model.zero_grad()
        found = loss(model, batch)
        found.backward()
        return found.detach()

    return learn


def _eager(model: NTM, batch: Any) -> Any:
    return loss(lambda inputs: (ntm_eager.said(model, inputs),), batch)  # type: ignore[arg-type]


def _row(claim: str, must: str, aim: str, raced: Any, least: float) -> Row:
    each = f"{ROWS / raced.ours:,.0f} sequences a second against {ROWS / raced.theirs:,.0f}"
    measured = f"{raced.times_faster:.1f} × ({in_words(raced.ours)}; {each})"
    return Row(claim, must, aim, measured, raced.times_faster >= least)
