"""Copy: a machine hears some vectors of bits and then says them again. Graves et al. 2014, 4.1.

regard train copy                                 a Neural Turing Machine, lengths 1 to 20
regard train copy model.controller=feed_forward   without a recurrent controller
regard train copy model=lstm                      the LSTM that it is measured by
regard evaluate copy length=120 slots=256 --json  six times as long as in training
regard look copy "01101001 11110000" -o tape.png  its memory, step by step

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.copying import Copy
from regard.data.episodes import example
from regard.models.ntm import NTMConfig
from regard.recipes.machines import measuring
from regard.recipes.machines.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.machines.grids import beside
from regard.recipes.machines.recipe import Recipe, typed_as
from regard.recipes.machines.remarks import notes as notes
from regard.train.grids import Grid, Row
from regard.train.settings import Training

# the paper has 100 units; fewer learn to copy as well
MACHINE = NTMConfig(width=48)
# a machine that copies may lose it again between two judgements
LEARNING = replace(TRAINING, setback=4.0)
# lengths that are measured, and the slots that each is given
LENGTHS = {20: 128, 50: 128, 120: 256, 1000: 2048}


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: Copy = field(default_factory=Copy)
    model: ModelConfig = MACHINE
    training: Training = LEARNING
    batches: Batches = field(default_factory=lambda: Batches(8))

    def __post_init__(self) -> None:
        refuse("copy", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on episodes of one length that no training draws."""

    length: int = 20
    sequences: int = 100
    seed: int = 0
    # places of the memory; else as many as in training
    slots: int | None = None

    def __post_init__(self) -> None:
        measuring.refuse("copy", self, "length", "sequences", "slots")


def _asked(task: Copy, evaluation: Evaluation) -> Copy:
    return replace(task, shortest=evaluation.length, longest=evaluation.length)


def _numbers() -> dict[str, Evaluation]:
    # a thousand vectors take a while, so there are fewer of them
    several = {length: 200 if length < 1000 else 20 for length in LENGTHS}
    return {
        str(length): Evaluation(length, several[length], measuring.SEED, slots)
        for length, slots in LENGTHS.items()
    }


RECIPE = Recipe(
    "copy",
    "hears vectors of bits and says them again",
    Copy,
    _numbers(),
    lambda task: example(task.bits),
    lambda task: typed_as(task.bits, (1, 100)),
    100,
    asked=_asked,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example(Copy())
COLUMNS = {
    "bits at 20": "bits_per_sequence",
    "perfect at 50": "50.perfect",
    "perfect at 120": "120.perfect",
    "perfect at 1000": "1000.perfect",
    "solved after": "solved_after",
    "seconds": "solved_seconds",
}
GRIDS = {
    "paper": beside(Config(), width=256),
    "seeds": Grid("Twenty machines", Config(), (Row("NTM"),), seeds=tuple(range(20))),
}
