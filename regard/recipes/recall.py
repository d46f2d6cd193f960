"""Associative recall: some items, one of which is named, and the next is asked for.

Graves et al. 2014, 4.3.

    regard train recall                        2 to 6 items of 3 vectors of 6 bits
    regard evaluate recall items=12 --json     twice as many as in training
    regard look recall "101010 111000 110011 | 000111 010101 111111 ? 101010 111000 110011"

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.ntm.recall import Recall
from regard.models.ntm import NTMConfig
from regard.recipes.ntm import metrics
from regard.recipes.ntm.config import (
    ADAM,
    TRAINING,
    Batches,
    ModelConfig,
    check_config,
)
from regard.recipes.ntm.grids import lstm_comparison_grid
from regard.recipes.ntm.recipe import Recipe, bits_input_form
from regard.train.settings import Training

RECALL_TRAINING = replace(TRAINING, steps=12_000, optimizer=replace(ADAM, rate=1e-3))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: Recall = field(default_factory=Recall)
    model: ModelConfig = field(default_factory=NTMConfig)
    training: Training = RECALL_TRAINING
    batches: Batches = field(default_factory=lambda: Batches(16))

    def __post_init__(self) -> None:
        check_config("recall", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes of so many items."""

    items: int = 6
    sequences: int = 200
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        metrics.check_evaluation("recall", self, "items", "sequences", "slots")


def _evaluation_task(task: Recall, evaluation: Evaluation) -> Recall:
    return replace(task, min_items=evaluation.items, max_items=evaluation.items)


def _example(task: Recall) -> str:
    """Three items, of which the first is named; the vectors of each are alike."""
    vectors = [("10" * task.bits)[: task.bits], "1" * task.bits, "0" * task.bits]
    items = [" ".join([vector] * task.length) for vector in vectors]
    return f"{' | '.join(items)} ? {items[0]}"


RECIPE = Recipe(
    "recall",
    "names the item that followed another",
    Recall,
    {str(n): Evaluation(n, seed=metrics.CARD_SEED, slots=3 * n) for n in (6, 12, 20)},
    _example,
    lambda task: bits_input_form(task.bits, (task.length, task.length), items=(2, 12)),
    60,
    evaluation_task=_evaluation_task,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example(Recall())
COLUMNS = {
    "bits at 6": "bits_per_sequence",
    "bits at 12": "12.bits_per_sequence",
    "bits at 20": "20.bits_per_sequence",
    "exact at 20": "20.perfect",
    "episodes to solve": "solved_after",
}
GRIDS = {"paper": lstm_comparison_grid(Config(), width=256)}
