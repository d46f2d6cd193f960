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

from regard.data import triangulations
from regard.data.triangulations import Delaunay
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointing.asked import Asked, unit
from regard.recipes.pointing.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.pointing.measuring import SEED, checked
from regard.recipes.pointing.recipe import Recipe
from regard.train.grids import Grid, Row
from regard.train.settings import Training

MODEL = PointerNetworkConfig(
    reader="attention",
    width=64,
    heads=4,
    layers=4,
    inner=192,
    sharpened=True,
    follows="triangles",
)
# Far more than it has learned; all triangles that could be made of more would not fit.
MOST = 50


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
        refuse("delaunay", self, follows="triangles")


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
        checked("delaunay", self, most=MOST, points=3, instances=1, beam=1, seed=0)


def _judged(posed: Asked, answers: list[list[int]], how: Any) -> dict[str, Any]:
    """Triangulations that are wholly right, and the share of the true triangles that was found."""
    assert posed.truths is not None
    cases = list(zip(posed.points, answers, posed.truths, strict=True))
    right = [
        _right(points, triangulations.triangles(answer), triangulations.triangles(truth))
        for points, answer, truth in cases
    ]
    covered = [
        1.0 if whole else triangulations.coverage(answer, truth)
        for whole, (_, answer, truth) in zip(right, cases, strict=True)
    ]
    return {"accuracy": fmean(right), "coverage": fmean(covered)}


def _right(points: np.ndarray, found: set[frozenset[int]], truth: set[frozenset[int]]) -> bool:
    """Whether triangles are the true ones, or as good, where points lie on one circle."""
    if found == truth or len(points) > MOST:
        return found == truth
    return triangulations.is_delaunay(points, sorted(map(sorted, found)))


def _ready(points: np.ndarray) -> np.ndarray:
    """Points within the unit square, if they can be triangulated at all."""
    if len(points) > MOST:
        raise ValueError(f"delaunay: expected at most {MOST} points, got {len(points)}")
    triangulations.delaunay(points)
    return unit(points)


def _said(points: np.ndarray, answer: list[int], prove: bool) -> tuple[str, dict[str, Any]]:
    """The triangles, and whether they are right."""
    one = triangulations.delaunay(points)
    truth, found = triangulations.triangles(one), triangulations.triangles(answer)
    shown = [answer[i : i + 3] for i in range(0, len(answer) - 2, 3)]
    text, right = _listed(shown), _right(points, found, truth)
    if right:
        text += f"\n{len(found)} triangles, which are all" if len(found) > 1 else "\nwhich is all"
    elif triangulations.is_one_of_several(points, one):
        # which of them are wrong depends on which answer was meant
        text += f"\nthis is no Delaunay triangulation; one of several is {_listed(one)}"
        text += f", of which {len(found & truth)} of {len(truth)} were found"
    else:
        wrong, missed = found - truth, sorted(map(sorted, truth - found))
        text += f"\n{len(found & truth)} of {len(truth)} triangles are right, {len(wrong)} wrong"
        text += f"; not found: {_listed(missed)}"
    return text, {
        "indices": answer,
        "triangles": shown,
        "coverage": 1.0 if right else len(found & truth) / len(truth),
        "correct": right,
    }


def _listed(triangles: Iterable[Iterable[int]]) -> str:
    return "  ".join(" ".join(map(str, each)) for each in triangles)


RECIPE = Recipe(
    "delaunay",
    "points at the triangles of some points",
    Delaunay,
    "triangles",
    "triangles",
    Evaluation,
    {str(n): Evaluation(n, 1000, SEED) for n in (5, 10)},
    _judged,
    _said,
    _ready,
    "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8",
    development=((5, 512), (10, 512)),
    most=20,
    some=7,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example
GRIDS = {
    "paper": Grid(
        "Who points at triangles, and how it reads points",
        Config(),
        (
            Row("attention reads, pointer"),
            Row("LSTM reads, pointer", ("model.reader=lstm", "model.width=256", "model.layers=1")),
        ),
    )
}
COLUMNS = {
    "5": "accuracy",
    "coverage at 5": "coverage",
    "10": "10.accuracy",
    "coverage at 10": "10.coverage",
}
