"""The shortest round trip, pointed at city by city. Kool et al. 2019; learned as in POMO.

    regard train tsp                                   attention, cities 20 to 100, by REINFORCE
    regard train tsp like=lstm                         the LSTM of Vinyals et al. 2015, 5 to 20
    regard evaluate tsp points=50 instances=1000 seed=3 augment=8 --json
    regard evaluate tsp file=tsp50_test.txt.gz augment=8 --json
    regard predict tsp points.csv --prove
    regard look tsp points.csv -o tour.png

What came of it is in docs/results.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch

from regard import looking
from regard.config import override
from regard.data import proving, tours
from regard.data.tours import Tour
from regard.models.attention_pointer import AttentionPointerConfig
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointing.asked import Asked, laid, told, unit
from regard.recipes.pointing.config import TRAINING, Batches, ModelConfig, refuse
from regard.recipes.pointing.learning import reinforced
from regard.recipes.pointing.measuring import SEED, checked, percent
from regard.recipes.pointing.recipe import Recipe, as_pointed
from regard.recipes.pointing.searching import found_in, pointed, toured
from regard.train.grids import Grid, Row
from regard.train.settings import Optimizer, Training

MODEL = AttentionPointerConfig(layers=4, inner=384, sharpened=True)
LEARNING = replace(
    TRAINING,
    steps=100_000,
    optimizer=Optimizer("adam", rate=4e-4),
    precision="bf16-mixed",
    watch="length",
    best="lowest",
    judge_every=5000,
    save_every=5000,
)
# Up to so many cities the best tour is found at once; tours from more would take too long.
FEW, MOST = 12, 1000


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "attention"
    data: Tour = field(default_factory=lambda: Tour(20, 100, 10))
    model: ModelConfig = MODEL
    training: Training = LEARNING
    # its rows are instances of the most cities; of fewer cities a batch has more
    batches: Batches = field(default_factory=lambda: Batches(64))
    # how many times as much as another the shortest tour from all cities counts; 1 is POMO
    leader: float = 40.0

    def __post_init__(self) -> None:
        refuse("tsp", self)
        if not 1 <= self.leader < math.inf:
            raise ValueError(f"tsp: expected leader of at least 1, got {self.leader}")
        if isinstance(self.model, PointerNetworkConfig) and self.model.says != "pointer":
            raise ValueError(f"tsp: expected a model that points, got says={self.model.says}")


_LSTM = (
    *("model=pointer_network", "data.least=5", "data.most=20", "data.every=1"),
    *("training.precision=32-true", "training.steps=8000", "batches.rows=128", "leader=1"),
)
LIKE = {"lstm": override(Config(name="lstm"), _LSTM)}


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on instances that no training draws, or on those of a file."""

    # cities of each instance
    points: int = 50
    # how many are drawn, and with which seed
    instances: int = 1000
    seed: int = 0
    # in how many of the eight ways a square can be turned and mirrored the cities are read
    augment: int = 1
    # from how many cities a tour is begun, the shortest of which counts; else from every one, and
    # of more than 141 from some
    starts: int | None = None
    # search for one tour with so many beams, in place of tours from many cities
    beam: int | None = None
    # where tours are looked for; else where the model is, which is loaded onto the processor
    device: Literal["cpu", "cuda"] | None = None
    # whether the best tours are found, and proved to be so; of few cities they always are
    prove: bool = False
    # instances in the format of Vinyals et al. 2015, whose tours are the reference
    file: Path | None = None

    def __post_init__(self) -> None:
        checked("tsp", self, most=MOST, points=3, instances=1, augment=1, starts=1, beam=1, seed=0)
        if self.beam is not None and (self.augment > 1 or self.starts is not None):
            raise ValueError("tsp: expected beam without augment and starts: it searches one way")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("tsp: expected a card for device=cuda, got none")
        if self.augment > 8:
            raise ValueError(f"tsp: expected augment from 1 to 8, got {self.augment}")


def _learns(config: Config) -> Callable[..., Any]:
    """Learn from the lengths of its own tours."""
    return partial(reinforced, leader=config.leader)


def _answered(model: Any, points: list[np.ndarray], task: Tour, how: Evaluation) -> list[list[int]]:
    """The shortest tours found, those of as many cities side by side; or those of a search."""
    if how.device is not None:
        model.to(how.device)
    if how.beam is not None:
        return as_pointed(model, points, task, how)
    if looking.altered():
        batch, orders = laid(points, task.order)
        starts = [[int(np.argmin(places))] for places in orders]
        return told(pointed(model, batch, starts=starts), orders)
    found: dict[int, list[int]] = {}
    for size in sorted({len(each) for each in points}):
        which = [i for i, each in enumerate(points) if len(each) == size]
        cities = torch.from_numpy(np.stack([points[i] for i in which]).astype(np.float32))
        tours = toured(model, cities, augment=how.augment, starts=how.starts, order=task.order)
        found |= dict(zip(which, tours.tolist(), strict=True))
    return [found[i] for i in range(len(points))]


def _led(
    model: Any, points: np.ndarray, task: Tour, how: Evaluation
) -> tuple[np.ndarray, list[int]]:
    """The cities turned and mirrored as they were read when a tour was found, and that tour.

    An edit is made to one tour alone, from city 0, which is found as it is shown.
    """
    if looking.altered():
        return points, [0]
    [tour] = _answered(model, [points], task, how)
    cities = torch.from_numpy(points.astype(np.float32))
    return found_in(model, cities, torch.tensor(tour), order=task.order).numpy(), tour


def _judged(posed: Asked, answers: list[list[int]], how: Evaluation) -> dict[str, Any]:
    """The mean length, that of the best tours or of those of a file, and how far it is above."""
    cases = list(zip(posed.points, answers, strict=True))
    length = fmean(tours.length(points, tour) for points, tour in cases)
    best: list[list[int]] | None = posed.truths
    if best is None and all(len(points) <= FEW for points in posed.points):
        best = [tours.by_programming(points) for points in posed.points]
    elif best is None and how.prove:
        best = [_best(points).tour for points in posed.points]
    if best is None:
        return {"length": length, "optimal": None, "gap": None}
    pairs = zip(posed.points, best, strict=True)
    optimal = fmean(tours.length(points, tour) for points, tour in pairs)
    return {"length": length, "optimal": optimal, "gap": _gap(length, optimal)}


def _gap(length: float, best: float) -> float:
    """By which share a tour is longer than the best one; where all cities are one, by none."""
    return length / best - 1 if best > 0 else 0.0


def _best(points: np.ndarray) -> proving.Proof:
    """The best tour, or the best that is found in a minute."""
    if len(points) <= FEW:
        tour = tours.by_programming(points)
        length = tours.length(points, tour)
        return proving.Proof(tour, length, True, length)
    return proving.proved(points)


def _ready(points: np.ndarray) -> np.ndarray:
    """Cities within the unit square."""
    if not 3 <= len(points) <= MOST:
        raise ValueError(f"tsp: expected 3 to {MOST} cities, got {len(points)}")
    return unit(points)


def _said(points: np.ndarray, answer: list[int], prove: bool) -> tuple[str, dict[str, Any]]:
    """The tour from city 0 on, its length, and how far it is from the best."""
    tour = tours.normal(answer)
    length = tours.length(points, tour)
    details: dict[str, Any] = {"indices": tour, "length": length, "optimal": None, "gap": None}
    text = f"{' '.join(map(str, tour))}\nlength {length:g}"
    if prove:
        best = _best(points)
        gap = _gap(length, best.length)
        details |= {"optimal": best.length, "gap": gap, "proved": best.proved}
        details |= {"best": tours.normal(best.tour), "bound": best.bound}
        word = "the shortest" if best.proved else "the shortest found in a minute"
        text += f", {percent(gap)} above {word}, {best.length:g}"
        if not best.proved:
            text += f"; none is shorter than {best.bound:g}"
    return text, details


RECIPE = Recipe(
    "tsp",
    "points at cities along a short round trip",
    Tour,
    "tour",
    "each",
    Evaluation,
    {
        "100": Evaluation(100, 1000, SEED),
        "20": Evaluation(20, 1000, SEED),
        "50": Evaluation(50, 1000, SEED),
        "10": Evaluation(10, 1000, SEED),
    },
    _judged,
    _said,
    _ready,
    "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8 0.4,0.6",
    answered=_answered,
    usual=Evaluation(augment=8),
    led=_led,
    learns=_learns,
    development=((20, 256), (50, 256), (100, 256)),
    most=100,
    some=20,
)
run, evaluate, predict, trace, known, asks, typed, placed = RECIPE.offered()
EXAMPLE = RECIPE.example
GRIDS = {
    "paper": Grid(
        "Who points at cities, and how it reads them",
        Config(),
        (
            Row("attention, 20 to 100 cities"),
            Row("LSTM, 5 to 20 cities", _LSTM),
        ),
    )
}
COLUMNS = {"10": "10.length", "20": "20.length", "50": "50.length", "100": "length"}
