"""Delaunay triangulations, pointed at corner by corner. Vinyals et al. 2015, 4.3.

    regard train delaunay
    regard evaluate delaunay points=10 --json
    regard predict delaunay points.csv
    regard look delaunay points.csv -o triangles.png

What came of it is in docs/results.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from regard.data.geometry import triangulations
from regard.data.geometry.triangulations import Delaunay
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointer.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.pointer.metrics import CARD_SEED, check_evaluation
from regard.recipes.pointer.problems import Problems, to_unit_square
from regard.recipes.pointer.recipe import Recipe
from regard.train.grids import Grid, Row
from regard.train.settings import Training

MODEL = PointerNetworkConfig(
    encoder="attention",
    width=64,
    heads=4,
    layers=4,
    feed_forward_width=192,
    scalable_softmax=True,
    pointing_rule="triangles",
)
# Far more than it has learned; all triangles that could be made of more would not fit.
MAX_POINTS = 50


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "attention"
    data: Delaunay = field(default_factory=Delaunay)
    model: ModelConfig = MODEL
    training: Training = TRAINING
    batches: Batches = field(default_factory=lambda: Batches(512))

    def __post_init__(self) -> None:
        check_config("delaunay", self, pointing_rule="triangles")


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on instances that no training draws, or on those of a file."""

    # points of each instance
    points: int = 5
    # how many are drawn, and with which seed
    instances: int = 1000
    seed: int = 0
    # hypotheses of an answer that run side by side; 1 is greedy
    beam: int = 1
    # instances in the format of Vinyals et al. 2015, instead of drawn ones
    file: Path | None = None

    def __post_init__(self) -> None:
        check_evaluation(
            "delaunay", self, max_points=MAX_POINTS, points=3, instances=1, beam=1, seed=0
        )


def _answer_metrics(problems: Problems, answers: list[list[int]], settings: Any) -> dict[str, Any]:
    """Triangulations that are wholly right, and the share of the true triangles that was found."""
    assert problems.truths is not None
    cases = list(zip(problems.points, answers, problems.truths, strict=True))
    right = [
        _is_correct(points, triangulations.triangle_set(answer), triangulations.triangle_set(truth))
        for points, answer, truth in cases
    ]
    covered = [
        1.0 if whole else triangulations.triangle_coverage(answer, truth)
        for whole, (_, answer, truth) in zip(right, cases, strict=True)
    ]
    return {"accuracy": fmean(right), "coverage": fmean(covered)}


def _is_correct(points: np.ndarray, found: set[frozenset[int]], truth: set[frozenset[int]]) -> bool:
    """Whether triangles are the true ones, or as good, where points lie on one circle."""
    if found == truth or len(points) > MAX_POINTS:
        return found == truth
    return triangulations.is_delaunay(points, sorted(map(sorted, found)))


def _normalize_points(points: np.ndarray) -> np.ndarray:
    """Points within the unit square, if they can be triangulated at all."""
    if len(points) > MAX_POINTS:
        raise ValueError(f"delaunay: expected at most {MAX_POINTS} points, got {len(points)}")
    triangulations.delaunay(points)
    return to_unit_square(points)


def _describe_answer(
    points: np.ndarray, answer: list[int], prove: bool
) -> tuple[str, dict[str, Any]]:
    """The triangles, and whether they are right."""
    one = triangulations.delaunay(points)
    truth, found = triangulations.triangle_set(one), triangulations.triangle_set(answer)
    shown = [answer[i : i + 3] for i in range(0, len(answer) - 2, 3)]
    text, right = _format_triangles(shown), _is_correct(points, found, truth)
    if right:
        text += f"\n{len(found)} triangles, which are all" if len(found) > 1 else "\nwhich is all"
    elif triangulations.is_ambiguous(points, one):
        # which of them are wrong depends on which answer was meant
        text += f"\nthis is no Delaunay triangulation; one of several is {_format_triangles(one)}"
        text += f", of which {len(found & truth)} of {len(truth)} were found"
    else:
        wrong, missed = found - truth, sorted(map(sorted, truth - found))
        text += f"\n{len(found & truth)} of {len(truth)} triangles are right, {len(wrong)} wrong"
        text += f"; not found: {_format_triangles(missed)}"
    return text, {
        "indices": answer,
        "triangles": shown,
        "coverage": 1.0 if right else len(found & truth) / len(truth),
        "correct": right,
    }


def _format_triangles(triangles: Iterable[Iterable[int]]) -> str:
    return "  ".join(" ".join(map(str, each)) for each in triangles)


RECIPE = Recipe(
    "delaunay",
    "points at the triangles of some points",
    Delaunay,
    "triangles",
    "triangles",
    Evaluation,
    {str(n): Evaluation(n, 1000, CARD_SEED) for n in (5, 10)},
    _answer_metrics,
    _describe_answer,
    _normalize_points,
    "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8",
    validation_sizes=((5, 512), (10, 512)),
    max_page_points=20,
    page_example_points=7,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example
_LSTM_SIZE = ("model.width=256", "model.layers=1")
GRIDS = {
    "paper": Grid(
        "Delaunay triangulations by encoder",
        Config(),
        (
            Row("attention encoder, pointer"),
            Row("LSTM encoder, pointer", ("model.encoder=lstm", *_LSTM_SIZE)),
        ),
    )
}
COLUMNS = {
    "accuracy at 5": "accuracy",
    "coverage at 5": "coverage",
    "accuracy at 10": "10.accuracy",
    "coverage at 10": "10.coverage",
}
