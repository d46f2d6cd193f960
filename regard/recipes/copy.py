"""Copy: a machine hears some vectors of bits and then says them again. Graves et al. 2014, 4.1.

regard train copy                                 a Neural Turing Machine, lengths 1 to 20
regard train copy model.controller=feed_forward   without a recurrent controller
regard train copy model=lstm                      the LSTM that it is measured by
regard evaluate copy length=120 slots=256 --json  six times as long as in training
regard look copy "01101001 11110000" -o tape.png  its memory, step by step

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.ntm.copy import Copy
from regard.data.ntm.episodes import example_vectors
from regard.models.ntm import NTMConfig
from regard.recipes.ntm import metrics
from regard.recipes.ntm.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.ntm.grids import lstm_comparison_grid
from regard.recipes.ntm.recipe import Recipe, bits_input_form
from regard.recipes.ntm.table_notes import notes as notes
from regard.train.grids import Grid, Row
from regard.train.settings import Training

# the paper has 100 units; fewer learn to copy as well
MODEL = NTMConfig(width=48)
# a machine that copies may lose it again between two judgements
COPY_TRAINING = replace(TRAINING, rollback_ratio=4.0)
# lengths that are measured, and the slots that each is given
SLOTS_BY_LENGTH = {20: 128, 50: 128, 120: 256, 1000: 2048}


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: Copy = field(default_factory=Copy)
    model: ModelConfig = MODEL
    training: Training = COPY_TRAINING
    batches: Batches = field(default_factory=lambda: Batches(8))

    def __post_init__(self) -> None:
        check_config("copy", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes of one length that no training draws."""

    length: int = 20
    sequences: int = 100
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        metrics.check_evaluation("copy", self, "length", "sequences", "slots")


def _evaluation_task(task: Copy, evaluation: Evaluation) -> Copy:
    return replace(task, shortest=evaluation.length, longest=evaluation.length)


def _card_evaluations() -> dict[str, Evaluation]:
    # a thousand vectors take a while, so there are fewer of them
    several = {length: 200 if length < 1000 else 20 for length in SLOTS_BY_LENGTH}
    return {
        str(length): Evaluation(length, several[length], metrics.CARD_SEED, slots)
        for length, slots in SLOTS_BY_LENGTH.items()
    }


RECIPE = Recipe(
    "copy",
    "hears vectors of bits and says them again",
    Copy,
    _card_evaluations(),
    lambda task: example_vectors(task.bits),
    lambda task: bits_input_form(task.bits, (1, 100)),
    100,
    evaluation_task=_evaluation_task,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example(Copy())
COLUMNS = {
    "bits at 20": "bits_per_sequence",
    "exact at 50": "50.perfect",
    "exact at 120": "120.perfect",
    "exact at 1000": "1000.perfect",
    "episodes to solve": "solved_after",
    "seconds to solve": "solved_seconds",
}
GRIDS = {
    "paper": lstm_comparison_grid(Config(), width=256),
    "seeds": Grid("The NTM with twenty seeds", Config(), (Row("NTM"),), seeds=tuple(range(20))),
}
