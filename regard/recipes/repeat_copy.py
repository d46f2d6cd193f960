"""Repeat copy: vectors, and how often they are to be said again. Graves et al. 2014, 4.2.

regard train repeat_copy                                  lengths 1 to 10, 1 to 10 times
regard evaluate RUN length=20 repeats=10 --json           twice as long as in training
regard predict RUN "01101001 11110000 x 3"

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.ntm.copy import RepeatCopy
from regard.data.ntm.episodes import example_vectors
from regard.models.ntm import NTMConfig
from regard.recipes.ntm import metrics
from regard.recipes.ntm.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.ntm.grids import lstm_comparison_grid, lstm_rows
from regard.recipes.ntm.recipe import Recipe, bits_input_form
from regard.recipes.ntm.table_notes import notes as notes
from regard.train.grids import Grid, Row
from regard.train.settings import Training

# it counts copies; what it counts must not fade where they are longer than in training
MODEL = NTMConfig(sharpness_bias=0.0, memory_constant=1e-6, forget_bias=8.0)
# of all weights that do the task, those are kept that also do it for twice the length
REPEAT_COPY_TRAINING = replace(TRAINING, steps=14_000, monitor="both", rollback_ratio=5.0)
LENGTHS_AND_REPEATS = ((10, 10), (20, 10), (10, 20))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: RepeatCopy = field(default_factory=RepeatCopy)
    model: ModelConfig = MODEL
    training: Training = REPEAT_COPY_TRAINING
    batches: Batches = field(default_factory=lambda: Batches(8, curriculum=4_000))

    def __post_init__(self) -> None:
        check_config("repeat_copy", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes of one length, and of one number of repeats."""

    length: int = 10
    repeats: int = 10
    sequences: int = 100
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        metrics.check_evaluation("repeat_copy", self, "length", "repeats", "sequences", "slots")


def _harder_task(task: RepeatCopy) -> RepeatCopy:
    """Twice as long."""
    length = 2 * task.longest
    return replace(task, shortest=length, longest=length)


def _evaluation_task(task: RepeatCopy, e: Evaluation) -> RepeatCopy:
    return replace(
        task, shortest=e.length, longest=e.length, min_repeats=e.repeats, max_repeats=e.repeats
    )


RECIPE = Recipe(
    "repeat_copy",
    "says vectors of bits as often as it is told",
    RepeatCopy,
    {
        f"{a} x {b}": Evaluation(a, b, seed=metrics.CARD_SEED, slots=a)
        for a, b in LENGTHS_AND_REPEATS
    },
    lambda task: f"{example_vectors(task.bits)} x 3",
    lambda task: bits_input_form(task.bits, (1, 20), count=(1, 20)),
    24,
    evaluation_task=_evaluation_task,
    harder_task=_harder_task,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example(RepeatCopy())
COLUMNS = {
    "bits at 10 × 10": "bits_per_sequence",
    "exact at 10 × 10": "perfect",
    "exact at 20 × 10": "20 x 10.perfect",
    "exact at 10 × 20": "10 x 20.perfect",
    "episodes to solve": "solved_after",
}
# the settings with which the LSTMs were measured: more steps than the NTM, and weights chosen on
# the training task alone
LSTM_SETTINGS = (
    *("training.steps=20000", "training.optimizer.betas=0.9,0.95", "batches.curriculum=5000"),
    *("training.monitor=bits", "training.rollback_ratio=0"),
)
GRIDS = {
    "paper": lstm_comparison_grid(Config(), width=512),
    "seeds": Grid("The NTM with five seeds", Config(), (Row("NTM"),), seeds=tuple(range(5))),
    "lstm": Grid(
        "LSTMs alone, with more episodes", Config(), lstm_rows(width=512, settings=LSTM_SETTINGS)
    ),
}
