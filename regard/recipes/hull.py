"""Convex hulls, pointed at: which points lie at the rim, in order. Vinyals et al. 2015, 4.2.

    regard train hull                                       the points read by attention
    regard train hull model.encoder=lstm model.width=256    as in the paper: an LSTM reads
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

from regard.data.geometry import hulls
from regard.data.geometry.hulls import Hull
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointer.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.pointer.metrics import CARD_SEED, check_evaluation, format_percent
from regard.recipes.pointer.problems import Problems, to_unit_square
from regard.recipes.pointer.recipe import Recipe
from regard.train.grids import Grid, Row
from regard.train.settings import Training

MODEL = PointerNetworkConfig(
    encoder="attention",
    width=96,
    heads=6,
    layers=4,
    feed_forward_width=192,
    scalable_softmax=True,
    pointing_rule="subset",
)
POINT_COUNTS = (5, 10, 50, 100, 200, 500)
# More take more than some seconds to be read.
MAX_POINTS = 10_000


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
        check_config("hull", self, pointing_rule="subset")


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
        check_evaluation("hull", self, max_points=MAX_POINTS, points=3, instances=1, beam=1, seed=0)


def _answer_metrics(problems: Problems, answers: list[list[int]], settings: Any) -> dict[str, Any]:
    """Polygons that are wholly right; of those that do not cross themselves, the area covered.

    The paper says that area FAILs where more than one in a hundred crosses itself.
    """
    assert problems.truths is not None
    cases = list(zip(problems.points, answers, problems.truths, strict=True))
    right = [hulls.is_same_polygon(answer, truth) for _, answer, truth in cases]
    simple = [hulls.is_simple(points, answer) for points, answer, _ in cases]
    covered = [
        hulls.polygon_area(points, answer) / hulls.polygon_area(points, truth)
        for (points, answer, truth), fine in zip(cases, simple, strict=True)
        if fine
    ]
    return {
        "accuracy": fmean(right),
        "area": fmean(covered) if covered else 0.0,
        "crossing": fmean(not each for each in simple),
    }


def _normalize_points(points: np.ndarray) -> np.ndarray:
    """Points within the unit square, if they have a hull at all."""
    if len(points) > MAX_POINTS:
        raise ValueError(f"hull: expected at most {MAX_POINTS:,} points, got {len(points):,}")
    if not hulls.polygon_area(points, hulls.hull(points)) > 0:
        raise ValueError("hull: expected points that span an area, got one too small to be told")
    return to_unit_square(points)


def _describe_answer(
    points: np.ndarray, answer: list[int], prove: bool
) -> tuple[str, dict[str, Any]]:
    """The polygon from its lowest index on, its area, and whether it is right."""
    truth = hulls.hull(points)
    start = answer.index(min(answer)) if answer else 0
    polygon = answer[start:] + answer[:start]
    whole, simple = hulls.polygon_area(points, truth), hulls.is_simple(points, polygon)
    area, right = hulls.polygon_area(points, polygon), hulls.is_same_polygon(polygon, truth)
    text = " ".join(map(str, polygon))
    if right:
        text += f"\narea {area:g}, which is the hull"
    elif simple:
        text += f"\narea {area:g}, {format_percent(area / whole)} of the hull's {whole:g}"
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
    "subset",
    Evaluation,
    {
        str(n): Evaluation(n, 1000 if n < 500 else 500, CARD_SEED)
        for n in (50, 5, 10, 100, 200, 500)
    },
    _answer_metrics,
    _describe_answer,
    _normalize_points,
    "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8 0.4,0.6",
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example
COLUMNS = {
    **{f"accuracy at {n}": f"{n}.accuracy" if n != 50 else "accuracy" for n in POINT_COUNTS},
    **{f"area at {n}": f"{n}.area" if n != 50 else "area" for n in (50, 500)},
}
_LSTM_SETTINGS = ("model.encoder=lstm", "model.width=256", "model.layers=1")
GRIDS = {
    "paper": Grid(
        "Convex hulls by encoder and by output",
        Config(),
        (
            Row("attention encoder, pointer"),
            Row("LSTM encoder, points from left to right, pointer", _LSTM_SETTINGS),
            Row("LSTM encoder, points as given, pointer", (*_LSTM_SETTINGS, "data.order=given")),
            Row(
                "LSTM with attention",
                (*_LSTM_SETTINGS, "data.order=given", "model.output=attention"),
            ),
            Row("LSTM", (*_LSTM_SETTINGS, "data.order=given", "model.output=vocabulary")),
        ),
    )
}
