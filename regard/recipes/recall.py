"""Associative recall: some items, one of which is named, and the next is asked for.

Graves et al. 2014, 4.3.

    regard train recall                        2 to 6 items of 3 vectors of 6 bits
    regard evaluate recall items=12 --json     twice as many as in training
    regard look recall "101010 111000 110011 | 000111 010101 111111 ? 101010 111000 110011"

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.recalling import Recall
from regard.models.ntm import NTMConfig
from regard.recipes.machines import measuring
from regard.recipes.machines.config import ADAM, TRAINING, Batches, ModelConfig, refuse
from regard.recipes.machines.grids import beside
from regard.recipes.machines.recipe import Recipe, typed_as
from regard.train.settings import Training

LEARNING = replace(TRAINING, steps=12_000, optimizer=replace(ADAM, rate=1e-3))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: Recall = field(default_factory=Recall)
    model: ModelConfig = field(default_factory=NTMConfig)
    training: Training = LEARNING
    batches: Batches = field(default_factory=lambda: Batches(16))

    def __post_init__(self) -> None:
        refuse("recall", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes of so many items."""

    items: int = 6
    sequences: int = 200
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        measuring.refuse("recall", self, "items", "sequences", "slots")


def _asked(task: Recall, evaluation: Evaluation) -> Recall:
    return replace(task, fewest=evaluation.items, most=evaluation.items)


def _example(task: Recall) -> str:
    """Three items, of which the first is named; the vectors of each are alike."""
    vectors = [("10" * task.bits)[: task.bits], "1" * task.bits, "0" * task.bits]
    items = [" ".join([vector] * task.length) for vector in vectors]
    return f"{' | '.join(items)} ? {items[0]}"


RECIPE = Recipe(
    "recall",
    "names the item that followed another",
    Recall,
    {str(n): Evaluation(n, seed=measuring.SEED, slots=3 * n) for n in (6, 12, 20)},
    _example,
    lambda task: typed_as(task.bits, (task.length, task.length), items=(2, 12)),
    60,
    asked=_asked,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example(Recall())
COLUMNS = {
    "bits at 6": "bits_per_sequence",
    "bits at 12": "12.bits_per_sequence",
    "bits at 20": "20.bits_per_sequence",
    "perfect at 20": "20.perfect",
    "solved after": "solved_after",
}
GRIDS = {"paper": beside(Config(), width=256)}
