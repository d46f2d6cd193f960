"""Priority sort: twenty vectors, of which the sixteen of highest priority are said in order.

Graves et al. 2014, 4.5.

    regard train sort_bits
    regard predict RUN "01101001:0.5 11110000:-0.2 00111100:0.9"

The places of its memory have names from the start, which it learns, and heads may go three slots at
a step: it sorted worse with one. All numbers are in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.episodes import example
from regard.data.sorting import Sort
from regard.models.ntm import NTMConfig
from regard.recipes.machines import measuring
from regard.recipes.machines.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.machines.grids import beside
from regard.recipes.machines.recipe import Recipe, typed_as
from regard.train.settings import Optimizer, Training

MACHINE = NTMConfig(width=256, slots=64, shifts=7, memory="learned")
LEARNING = replace(TRAINING, steps=30_000, optimizer=Optimizer("adam", rate=3e-3))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: Sort = field(default_factory=Sort)
    model: ModelConfig = MACHINE
    training: Training = LEARNING
    batches: Batches = field(default_factory=lambda: Batches(96))

    def __post_init__(self) -> None:
        refuse("sort_bits", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes that no training draws."""

    sequences: int = 500
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        measuring.refuse("sort_bits", self, "sequences", "slots")


def _example(task: Sort) -> str:
    first, second = example(task.bits).split()
    return f"{first}:0.5 {second}:-0.2 {'1' * task.bits}:0.9"


RECIPE = Recipe(
    "sort_bits",
    "says vectors of bits in the order of their priorities",
    Sort,
    {"500": Evaluation(seed=measuring.SEED)},
    _example,
    lambda task: typed_as(task.bits, (1, 20), weights=(-1, 1)),
    20,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example(Sort())
COLUMNS = {"bits": "bits_per_sequence", "perfect": "perfect"}
GRIDS = {"paper": beside(Config(), width=128)}
