"""Dynamic n-grams: bits by a table that is drawn anew each time. Graves et al. 2014, 4.4.

regard train ngrams
regard evaluate RUN --json       beside the best that anybody could do, a Bayesian estimator

Results stand in docs/results.md, beside those of LSTMs, of which one does better.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from regard.data.episodes import Episodes
from regard.data.ngrams import NGrams
from regard.models.ntm import NTMConfig
from regard.recipes.machines import measuring
from regard.recipes.machines.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.machines.grids import beside
from regard.recipes.machines.recipe import Recipe, typed_as
from regard.train.settings import Optimizer, Training

# contexts have no order to walk along: its heads seek from the start
MACHINE = NTMConfig(gate=0.0, sharpness=0.0, constant=1e-6)
LEARNING = replace(TRAINING, steps=20_000, optimizer=Optimizer("adam", rate=1e-3))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: NGrams = field(default_factory=NGrams)
    model: ModelConfig = MACHINE
    training: Training = LEARNING
    batches: Batches = field(default_factory=lambda: Batches(32))

    def __post_init__(self) -> None:
        refuse("ngrams", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on sequences that no training draws."""

    sequences: int = 1000
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        measuring.refuse("ngrams", self, "sequences", "slots")


def _optimum(task: NGrams, drawn: Episodes, found: dict[str, Any]) -> dict[str, Any]:
    """What the best estimator there is costs on the same sequences, and how many bits are above."""
    best = float(task.optimal_bits(drawn).mean())
    return {"optimum": best, "above": found["bits_per_sequence"] - best}


RECIPE = Recipe(
    "ngrams",
    "foretells bits by a table that it learns as it goes",
    NGrams,
    {"1000": Evaluation(seed=measuring.SEED)},
    lambda task: "0110100110010110",
    lambda task: typed_as(1, (1, 500)),
    500,
    beside=_optimum,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example(NGrams())
COLUMNS = {"bits": "bits_per_sequence", "optimum": "optimum", "above it": "above"}
GRIDS = {"paper": beside(Config(), width=128)}
