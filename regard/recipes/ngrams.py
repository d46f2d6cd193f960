"""Dynamic n-grams: bits by a table that is drawn anew each time. Graves et al. 2014, 4.4.

regard train ngrams
regard evaluate RUN --json       beside the best that anybody could do, a Bayesian estimator

Results stand in docs/results.md, beside those of LSTMs, of which one does better.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from regard.data.ntm.episodes import Episodes
from regard.data.ntm.ngrams import NGrams
from regard.models.ntm import NTMConfig
from regard.recipes.ntm import metrics
from regard.recipes.ntm.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.ntm.grids import lstm_comparison_grid
from regard.recipes.ntm.recipe import Recipe, bits_input_form
from regard.train.settings import Optimizer, Training

# contexts have no order to walk along: its heads seek from the start
MODEL = NTMConfig(gate_bias=0.0, sharpness_bias=0.0, memory_constant=1e-6)
NGRAMS_TRAINING = replace(TRAINING, steps=20_000, optimizer=Optimizer("adam", rate=1e-3))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: NGrams = field(default_factory=NGrams)
    model: ModelConfig = MODEL
    training: Training = NGRAMS_TRAINING
    batches: Batches = field(default_factory=lambda: Batches(32))

    def __post_init__(self) -> None:
        check_config("ngrams", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on sequences that no training draws."""

    sequences: int = 1000
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        metrics.check_evaluation("ngrams", self, "sequences", "slots")


def _optimum_metrics(task: NGrams, episodes: Episodes, scores: dict[str, Any]) -> dict[str, Any]:
    """What the best estimator there is costs on the same sequences, and how many bits are above."""
    best = float(task.optimal_bits(episodes).mean())
    return {"optimum": best, "above": scores["bits_per_sequence"] - best}


RECIPE = Recipe(
    "ngrams",
    "foretells bits by a table that it learns as it goes",
    NGrams,
    {"1000": Evaluation(seed=metrics.CARD_SEED)},
    lambda task: "0110100110010110",
    lambda task: bits_input_form(1, (1, 500)),
    500,
    extra_metrics=_optimum_metrics,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example(NGrams())
COLUMNS = {"bits": "bits_per_sequence", "optimum": "optimum", "bits above optimum": "above"}
GRIDS = {"paper": lstm_comparison_grid(Config(), width=128)}
