"""Priority sort: twenty vectors, of which the sixteen of highest priority are said in order.

Graves et al. 2014, 4.5.

    regard train sort_bits
    regard predict RUN "01101001:0.5 11110000:-0.2 00111100:0.9"

The places of its memory have names from the start, which it learns, and heads may go three slots at
a step: it sorted worse with one. All numbers are in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.ntm.episodes import example_vectors
from regard.data.ntm.sort import Sort
from regard.models.ntm import NTMConfig
from regard.recipes.ntm import metrics
from regard.recipes.ntm.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.ntm.grids import lstm_comparison_grid
from regard.recipes.ntm.recipe import Recipe, bits_input_form
from regard.train.settings import Optimizer, Training

MODEL = NTMConfig(width=256, slots=64, shifts=7, memory_init="learned")
SORT_BITS_TRAINING = replace(TRAINING, steps=30_000, optimizer=Optimizer("adam", rate=3e-3))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: Sort = field(default_factory=Sort)
    model: ModelConfig = MODEL
    training: Training = SORT_BITS_TRAINING
    batches: Batches = field(default_factory=lambda: Batches(96))

    def __post_init__(self) -> None:
        check_config("sort_bits", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes that no training draws."""

    sequences: int = 500
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        metrics.check_evaluation("sort_bits", self, "sequences", "slots")


def _example(task: Sort) -> str:
    first, second = example_vectors(task.bits).split()
    return f"{first}:0.5 {second}:-0.2 {'1' * task.bits}:0.9"


RECIPE = Recipe(
    "sort_bits",
    "says vectors of bits in the order of their priorities",
    Sort,
    {"500": Evaluation(seed=metrics.CARD_SEED)},
    _example,
    lambda task: bits_input_form(task.bits, (1, 20), weights=(-1, 1)),
    20,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example(Sort())
COLUMNS = {"bits": "bits_per_sequence", "exact": "perfect"}
GRIDS = {"paper": lstm_comparison_grid(Config(), width=128)}
