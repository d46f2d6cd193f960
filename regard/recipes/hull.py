"""Convex hulls, pointed at: which points lie at the rim, in order. Vinyals et al. 2015, 4.2.

    regard train hull                                  a pointer network that reads by attention
    regard train hull model.reader=lstm model.width=256      as in the paper: an LSTM reads
    regard evaluate hull points=50 instances=1000 seed=3 --json
    regard predict hull points.csv
    regard look hull points.csv -o hull.png

What came of it is in docs/results.md.
"""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from regard.data import hulls
from regard.data.hulls import Hull
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointing.asked import Asked, unit
from regard.recipes.pointing.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.pointing.measuring import SEED, checked, percent
from regard.recipes.pointing.recipe import Recipe
from regard.train.grids import Grid, Row
from regard.train.settings import Training

MODEL = PointerNetworkConfig(
    reader="attention",
    width=96,
    heads=6,
    layers=4,
    inner=192,
    sharpened=True,
    follows="some",
)
SIZES = (5, 10, 50, 100, 200, 500)
# More take more than some seconds to be read.
MOST = 10_000


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "attention"
    data: Hull = field(default_factory=Hull)
    model: ModelConfig = MODEL
    training: Training = TRAINING
    batches: Batches = field(default_factory=lambda: Batches(512))

    def __post_init__(self) -> None:
        refuse("hull", self, follows="some")


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on instances that no training draws, or on those of a file."""

    # points of each instance
    points: int = 50
    # how many are drawn, and with which seed
    instances: int = 1000
    seed: int = 0
    # hypotheses of an answer that run side by side; 1 is greedy
    beam: int = 1
    # instances in the format of Vinyals et al. 2015, instead of drawn ones
    file: Path | None = None

    def __post_init__(self) -> None:
        checked("hull", self, most=MOST, points=3, instances=1, beam=1, seed=0)


def _judged(posed: Asked, answers: list[list[int]], how: Any) -> dict[str, Any]:
    """Polygons that are wholly right; of those that do not cross themselves, the area covered.

    The paper says that area FAILs where more than one in a hundred crosses itself.
    """
    assert posed.truths is not None
    cases = list(zip(posed.points, answers, posed.truths, strict=True))
    right = [hulls.same_polygon(answer, truth) for _, answer, truth in cases]
    simple = [hulls.is_simple(points, answer) for points, answer, _ in cases]
    covered = [
        hulls.area(points, answer) / hulls.area(points, truth)
        for (points, answer, truth), fine in zip(cases, simple, strict=True)
        if fine
    ]
    return {
        "accuracy": fmean(right),
        "area": fmean(covered) if covered else 0.0,
        "crossing": fmean(not each for each in simple),
    }


def _ready(points: np.ndarray) -> np.ndarray:
    """Points within the unit square, if they have a hull at all."""
    if len(points) > MOST:
        raise ValueError(f"hull: expected at most {MOST:,} points, got {len(points):,}")
    if not hulls.area(points, hulls.hull(points)) > 0:
        raise ValueError("hull: expected points that span an area, got one too small to be told")
    return unit(points)


def _said(points: np.ndarray, answer: list[int], prove: bool) -> tuple[str, dict[str, Any]]:
    """The polygon from its lowest index on, its area, and whether it is right."""
    truth = hulls.hull(points)
    start = answer.index(min(answer)) if answer else 0
    polygon = answer[start:] + answer[:start]
    whole, simple = hulls.area(points, truth), hulls.is_simple(points, polygon)
    area, right = hulls.area(points, polygon), hulls.same_polygon(polygon, truth)
    text = " ".join(map(str, polygon))
    if right:
        text += f"\narea {area:g}, which is the hull"
    elif simple:
        text += f"\narea {area:g}, {percent(area / whole)} of the hull's {whole:g}"
        text += f"; the hull is {' '.join(map(str, truth))}"
    else:
        wrong = "crosses itself" if len(set(polygon)) > 2 else "is no polygon"
        text += f"\nthis {wrong}; the hull is {' '.join(map(str, truth))}, area {whole:g}"
    return text, {
        "indices": polygon,
        "area": area if simple else None,
        "hull": truth,
        "hull_area": whole,
        "correct": right,
    }


RECIPE = Recipe(
    "hull",
    "points at the convex hull of some points",
    Hull,
    "hull",
    "some",
    Evaluation,
    {str(n): Evaluation(n, 1000 if n < 500 else 500, SEED) for n in (50, 5, 10, 100, 200, 500)},
    _judged,
    _said,
    _ready,
    "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8 0.4,0.6",
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example
COLUMNS = {
    **{f"{n}": f"{n}.accuracy" if n != 50 else "accuracy" for n in SIZES},
    **{f"area {n}": f"{n}.area" if n != 50 else "area" for n in (50, 500)},
}
_LSTM = ("model.reader=lstm", "model.width=256", "model.layers=1")
GRIDS = {
    "paper": Grid(
        "Who points, and how it reads",
        Config(),
        (
            Row("attention reads, pointer"),
            Row("LSTM reads from the left, pointer", _LSTM),
            Row("LSTM reads as given, pointer", (*_LSTM, "data.order=given")),
            Row("LSTM with attention", (*_LSTM, "data.order=given", "model.says=attention")),
            Row("LSTM", (*_LSTM, "data.order=given", "model.says=vocabulary")),
        ),
    )
}
