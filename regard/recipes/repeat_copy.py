"""Repeat copy: vectors, and how often they are to be said again. Graves et al. 2014, 4.2.

regard train repeat_copy                                  lengths 1 to 10, 1 to 10 times
regard evaluate RUN length=20 repeats=10 --json           twice as long as in training
regard predict RUN "01101001 11110000 x 3"

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace

from regard.data.copying import RepeatCopy
from regard.data.episodes import example
from regard.models.ntm import NTMConfig
from regard.recipes.machines import measuring
from regard.recipes.machines.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.machines.grids import beside, nets
from regard.recipes.machines.recipe import Recipe, typed_as
from regard.recipes.machines.remarks import notes as notes
from regard.train.grids import Grid, Row
from regard.train.settings import Training

# it counts copies; what it counts must not fade where they are longer than in training
MACHINE = NTMConfig(sharpness=0.0, constant=1e-6, forget=8.0)
# of all weights that do the task, those are kept that also do it for twice the length
LEARNING = replace(TRAINING, steps=14_000, watch="both", setback=5.0)
SIZES = ((10, 10), (20, 10), (10, 20))


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "ntm"
    data: RepeatCopy = field(default_factory=RepeatCopy)
    model: ModelConfig = MACHINE
    training: Training = LEARNING
    batches: Batches = field(default_factory=lambda: Batches(8, curriculum=4_000))

    def __post_init__(self) -> None:
        refuse("repeat_copy", self)


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
        measuring.refuse("repeat_copy", self, "length", "repeats", "sequences", "slots")


def _further(task: RepeatCopy) -> RepeatCopy:
    """Twice as long."""
    length = 2 * task.longest
    return replace(task, shortest=length, longest=length)


def _asked(task: RepeatCopy, e: Evaluation) -> RepeatCopy:
    return replace(task, shortest=e.length, longest=e.length, fewest=e.repeats, most=e.repeats)


RECIPE = Recipe(
    "repeat_copy",
    "says vectors of bits as often as it is told",
    RepeatCopy,
    {f"{a} x {b}": Evaluation(a, b, seed=measuring.SEED, slots=a) for a, b in SIZES},
    lambda task: f"{example(task.bits)} x 3",
    lambda task: typed_as(task.bits, (1, 20), count=(1, 20)),
    24,
    asked=_asked,
    further=_further,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example(RepeatCopy())
COLUMNS = {
    "bits at 10 × 10": "bits_per_sequence",
    "perfect": "perfect",
    "perfect at 20 × 10": "20 x 10.perfect",
    "perfect at 10 × 20": "10 x 20.perfect",
    "solved after": "solved_after",
}
# what LSTMs were told when they were measured: more steps than the machine, all weights judged by
# the task alone
LONGER = (
    *("training.steps=20000", "training.optimizer.betas=0.9,0.95", "batches.curriculum=5000"),
    *("training.watch=bits", "training.setback=0"),
)
GRIDS = {
    "paper": beside(Config(), width=512),
    "seeds": Grid("Five machines", Config(), (Row("NTM"),), seeds=tuple(range(5))),
    "lstm": Grid("LSTMs alone, with more episodes", Config(), nets(width=512, also=LONGER)),
}
