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

from regard.data.geometry.numbers import Numbers
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointer.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.pointer.metrics import CARD_SEED, check_evaluation
from regard.recipes.pointer.problems import Problems
from regard.recipes.pointer.recipe import Recipe
from regard.train.grids import Grid, Row
from regard.train.settings import Training

MODEL = PointerNetworkConfig(
    inputs=1,
    encoder="attention",
    width=64,
    heads=4,
    layers=2,
    feed_forward_width=128,
    scalable_softmax=True,
    pointing_rule="permutation",
)
SORT_TRAINING = replace(TRAINING, steps=6000)
MAX_NUMBERS = 2000


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "attention"
    data: Numbers = field(default_factory=Numbers)
    model: ModelConfig = MODEL
    training: Training = SORT_TRAINING
    batches: Batches = field(default_factory=lambda: Batches(256))

    def __post_init__(self) -> None:
        check_config("sort", self)


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
        check_evaluation(
            "sort", self, max_points=MAX_NUMBERS, points=1, instances=1, beam=1, seed=0
        )


def _answer_metrics(problems: Problems, answers: list[list[int]], settings: Any) -> dict[str, Any]:
    """Rows of numbers that are sorted without one mistake."""
    cases = zip(problems.points, answers, strict=True)
    return {"accuracy": fmean(_is_sorted(numbers[:, 0], answer) for numbers, answer in cases)}


def _is_sorted(numbers: np.ndarray, answer: list[int]) -> bool:
    """Whether all are pointed at, and none before a lower one; equals may come in any order."""
    all_of_them = sorted(answer) == list(range(len(numbers)))
    return all_of_them and bool((np.diff(numbers[answer]) >= 0).all())


def _normalize_points(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1, in the same order."""
    if not 1 <= len(numbers) <= MAX_NUMBERS:
        raise ValueError(f"sort: expected 1 to {MAX_NUMBERS} numbers, got {len(numbers)}")
    low, high = numbers.min(), numbers.max()
    return (numbers - low) / (high - low if high > low else 1.0)


def _describe_answer(
    numbers: np.ndarray, answer: list[int], prove: bool
) -> tuple[str, dict[str, Any]]:
    """The places from the lowest number on, the numbers there, and whether all are in order."""
    values, right = numbers[:, 0], _is_sorted(numbers[:, 0], answer)
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
    "permutation",
    Evaluation,
    {str(n): Evaluation(n, 1000, CARD_SEED) for n in (50, 5, 20, 100, 200)},
    _answer_metrics,
    _describe_answer,
    _normalize_points,
    "0.7 0.1 0.4 0.9 0.2",
    max_page_points=100,
    page_example_points=10,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example
GRIDS = {
    "paper": Grid(
        "Sorting by encoder",
        Config(),
        (
            Row("attention encoder, pointer"),
            Row(
                "LSTM encoder, pointer", ("model.encoder=lstm", "model.width=256", "model.layers=1")
            ),
        ),
    )
}
COLUMNS = {
    "accuracy at 5": "5.accuracy",
    "accuracy at 20": "20.accuracy",
    "accuracy at 50": "accuracy",
    "accuracy at 100": "100.accuracy",
    "accuracy at 200": "200.accuracy",
}
