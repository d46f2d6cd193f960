"""Sorting, pointed at: numbers in any order, and then one after the other from the lowest on.

    regard train sort
    regard evaluate sort points=100 --json
    regard predict sort "0.7 0.1 0.4"
    regard look sort numbers.csv -o order.png

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from regard.data.numbers import Numbers
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointing.asked import Asked
from regard.recipes.pointing.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.pointing.measuring import SEED, checked
from regard.recipes.pointing.recipe import Recipe
from regard.train.grids import Grid, Row
from regard.train.settings import Training

MODEL = PointerNetworkConfig(
    inputs=1,
    reader="attention",
    width=64,
    heads=4,
    layers=2,
    inner=128,
    sharpened=True,
    follows="each",
)
LEARNING = replace(TRAINING, steps=6000)
MOST = 2000


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "attention"
    data: Numbers = field(default_factory=Numbers)
    model: ModelConfig = MODEL
    training: Training = LEARNING
    batches: Batches = field(default_factory=lambda: Batches(256))

    def __post_init__(self) -> None:
        refuse("sort", self)


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on numbers that no training draws."""

    # numbers of each instance
    points: int = 50
    # how many are drawn, and with which seed
    instances: int = 1000
    seed: int = 0
    # hypotheses of an answer that run side by side; 1 is greedy
    beam: int = 1
    # no file format holds numbers to be sorted
    file: None = None

    def __post_init__(self) -> None:
        checked("sort", self, most=MOST, points=1, instances=1, beam=1, seed=0)


def _judged(posed: Asked, answers: list[list[int]], how: Any) -> dict[str, Any]:
    """Rows of numbers that are sorted without one mistake."""
    cases = zip(posed.points, answers, strict=True)
    return {"accuracy": fmean(_sorted(numbers[:, 0], answer) for numbers, answer in cases)}


def _sorted(numbers: np.ndarray, answer: list[int]) -> bool:
    """Whether all are pointed at, and none before a lower one; equals may come in any order."""
    all_of_them = sorted(answer) == list(range(len(numbers)))
    return all_of_them and bool((np.diff(numbers[answer]) >= 0).all())


def _ready(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1, in the same order."""
    if not 1 <= len(numbers) <= MOST:
        raise ValueError(f"sort: expected 1 to {MOST} numbers, got {len(numbers)}")
    low, high = numbers.min(), numbers.max()
    return (numbers - low) / (high - low if high > low else 1.0)


def _said(numbers: np.ndarray, answer: list[int], prove: bool) -> tuple[str, dict[str, Any]]:
    """The places from the lowest number on, the numbers there, and whether all are in order."""
    values, right = numbers[:, 0], _sorted(numbers[:, 0], answer)
    text = " ".join(map(str, answer)) + "\n" + " ".join(f"{values[i]:g}" for i in answer)
    if not right:
        text += "\nthese are not in order; right is "
        text += " ".join(map(str, np.argsort(values, kind="stable").tolist()))
    return text, {"indices": answer, "values": values[answer].tolist(), "correct": right}


RECIPE = Recipe(
    "sort",
    "points at numbers from the lowest on",
    Numbers,
    "order",
    "each",
    Evaluation,
    {str(n): Evaluation(n, 1000, SEED) for n in (50, 5, 20, 100, 200)},
    _judged,
    _said,
    _ready,
    "0.7 0.1 0.4 0.9 0.2",
    most=100,
    some=10,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example
GRIDS = {
    "paper": Grid(
        "Who sorts, and how it reads numbers",
        Config(),
        (
            Row("attention reads, pointer"),
            Row("LSTM reads, pointer", ("model.reader=lstm", "model.width=256", "model.layers=1")),
        ),
    )
}
COLUMNS = {
    "5": "5.accuracy",
    "20": "20.accuracy",
    "50": "accuracy",
    "100": "100.accuracy",
    "200": "200.accuracy",
}
