"""The shortest round trip, pointed at city by city. Kool et al. 2019; learned as in POMO.

    regard train tsp                                   attention, cities 20 to 100, by REINFORCE
    regard train tsp preset=lstm                       the LSTM of Vinyals et al. 2015, 5 to 20
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
from regard.data.geometry import optimal_tours, tours
from regard.data.geometry.tours import Tour
from regard.models.attention_pointer import AttentionPointerConfig
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointer.config import TRAINING, Batches, ModelConfig, check_config
from regard.recipes.pointer.loss import reinforce_loss
from regard.recipes.pointer.metrics import CARD_SEED, check_evaluation, format_percent
from regard.recipes.pointer.problems import (
    Problems,
    collate_points,
    to_input_indices,
    to_unit_square,
)
from regard.recipes.pointer.recipe import Recipe, decode_with_beams
from regard.recipes.pointer.search import decode_instances, shortest_tours, with_tour_symmetry
from regard.train.grids import Grid, Row
from regard.train.settings import Optimizer, Training

MODEL = AttentionPointerConfig(layers=4, feed_forward_width=384, scalable_softmax=True)
TSP_TRAINING = replace(
    TRAINING,
    steps=100_000,
    optimizer=Optimizer("adam", rate=4e-4),
    precision="bf16-mixed",
    monitor="length",
    monitor_mode="lowest",
    validate_every=5000,
    save_every=5000,
)
# Up to so many cities the best tour is found at once; tours from more would take too long.
MAX_EXACT_CITIES = 12
MAX_CITIES = 1000


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    # stands in the name of the run's folder
    name: str = "attention"
    data: Tour = field(default_factory=lambda: Tour(20, 100, 10))
    model: ModelConfig = MODEL
    training: Training = TSP_TRAINING
    # its rows are instances of the most cities; of fewer cities a batch has more
    batches: Batches = field(default_factory=lambda: Batches(64))
    # how many times as much as another the shortest tour from all cities counts; 1 is POMO
    best_tour_weight: float = 40.0

    def __post_init__(self) -> None:
        check_config("tsp", self)
        if not 1 <= self.best_tour_weight < math.inf:
            raise ValueError(
                f"tsp: expected best_tour_weight of at least 1, got {self.best_tour_weight}"
            )
        if isinstance(self.model, PointerNetworkConfig) and self.model.output != "pointer":
            raise ValueError(f"tsp: expected a model that points, got output={self.model.output}")


_LSTM_SETTINGS = (
    *("model=pointer_network", "data.min_points=5", "data.max_points=20", "data.points_step=1"),
    *(
        "training.precision=32-true",
        "training.steps=8000",
        "batches.rows=128",
        "best_tour_weight=1",
    ),
)
PRESETS = {"lstm": override(Config(name="lstm"), _LSTM_SETTINGS)}


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
        check_evaluation(
            "tsp",
            self,
            max_points=MAX_CITIES,
            points=3,
            instances=1,
            augment=1,
            starts=1,
            beam=1,
            seed=0,
        )
        if self.beam is not None and (self.augment > 1 or self.starts is not None):
            raise ValueError("tsp: expected beam without augment and starts: it searches one way")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("tsp: expected a GPU for device=cuda, got none")
        if self.augment > 8:
            raise ValueError(f"tsp: expected augment from 1 to 8, got {self.augment}")


def _loss_function(config: Config) -> Callable[..., Any]:
    """Learn from the lengths of its own tours."""
    return partial(reinforce_loss, best_tour_weight=config.best_tour_weight)


def _decode_answers(
    model: Any, points: list[np.ndarray], task: Tour, settings: Evaluation
) -> list[list[int]]:
    """The shortest tours found, those of as many cities side by side; or those of a search."""
    if settings.device is not None:
        model.to(settings.device)
    if settings.beam is not None:
        return decode_with_beams(model, points, task, settings)
    if looking.is_edited():
        batch, orders = collate_points(points, task.order)
        starts = [[int(np.argmin(places))] for places in orders]
        return to_input_indices(decode_instances(model, batch, prefixes=starts), orders)
    found: dict[int, list[int]] = {}
    for size in sorted({len(each) for each in points}):
        which = [i for i, each in enumerate(points) if len(each) == size]
        cities = torch.from_numpy(np.stack([points[i] for i in which]).astype(np.float32))
        tours = shortest_tours(
            model, cities, augment=settings.augment, starts=settings.starts, order=task.order
        )
        found |= dict(zip(which, tours.tolist(), strict=True))
    return [found[i] for i in range(len(points))]


def _trace_inputs(
    model: Any, points: np.ndarray, task: Tour, settings: Evaluation
) -> tuple[np.ndarray, list[int]]:
    """The cities turned and mirrored as they were read when a tour was found, and that tour.

    An edit is made to one tour alone, from city 0, which is found as it is shown.
    """
    if looking.is_edited():
        return points, [0]
    [tour] = _decode_answers(model, [points], task, settings)
    cities = torch.from_numpy(points.astype(np.float32))
    return with_tour_symmetry(model, cities, torch.tensor(tour), order=task.order).numpy(), tour


def _answer_metrics(
    problems: Problems, answers: list[list[int]], settings: Evaluation
) -> dict[str, Any]:
    """The mean length, that of the best tours or of those of a file, and how far it is above."""
    cases = list(zip(problems.points, answers, strict=True))
    length = fmean(tours.tour_length(points, tour) for points, tour in cases)
    best: list[list[int]] | None = problems.truths
    if best is None and all(len(points) <= MAX_EXACT_CITIES for points in problems.points):
        best = [tours.held_karp_tour(points) for points in problems.points]
    elif best is None and settings.prove:
        best = [_best_tour(points).tour for points in problems.points]
    if best is None:
        return {"length": length, "optimal": None, "gap": None}
    pairs = zip(problems.points, best, strict=True)
    optimal = fmean(tours.tour_length(points, tour) for points, tour in pairs)
    return {"length": length, "optimal": optimal, "gap": _gap(length, optimal)}


def _gap(length: float, best: float) -> float:
    """By which share a tour is longer than the best one; where all cities are one, by none."""
    return length / best - 1 if best > 0 else 0.0


def _best_tour(points: np.ndarray) -> optimal_tours.Proof:
    """The best tour, or the best that is found in a minute."""
    if len(points) <= MAX_EXACT_CITIES:
        tour = tours.held_karp_tour(points)
        length = tours.tour_length(points, tour)
        return optimal_tours.Proof(tour, length, True, length)
    return optimal_tours.solve_tsp(points)


def _normalize_points(points: np.ndarray) -> np.ndarray:
    """Cities within the unit square."""
    if not 3 <= len(points) <= MAX_CITIES:
        raise ValueError(f"tsp: expected 3 to {MAX_CITIES} cities, got {len(points)}")
    return to_unit_square(points)


def _describe_answer(
    points: np.ndarray, answer: list[int], prove: bool
) -> tuple[str, dict[str, Any]]:
    """The tour from city 0 on, its length, and how far it is from the best."""
    tour = tours.canonical_tour(answer)
    length = tours.tour_length(points, tour)
    details: dict[str, Any] = {"indices": tour, "length": length, "optimal": None, "gap": None}
    text = f"{' '.join(map(str, tour))}\nlength {length:g}"
    if prove:
        best = _best_tour(points)
        gap = _gap(length, best.length)
        details |= {"optimal": best.length, "gap": gap, "proved": best.is_optimal}
        details |= {"best": tours.canonical_tour(best.tour), "bound": best.bound}
        word = "the shortest" if best.is_optimal else "the shortest found in a minute"
        text += f", {format_percent(gap)} above {word}, {best.length:g}"
        if not best.is_optimal:
            text += f"; none is shorter than {best.bound:g}"
    return text, details


RECIPE = Recipe(
    "tsp",
    "points at cities along a short round trip",
    Tour,
    "tour",
    "permutation",
    Evaluation,
    {
        "100": Evaluation(100, 1000, CARD_SEED),
        "20": Evaluation(20, 1000, CARD_SEED),
        "50": Evaluation(50, 1000, CARD_SEED),
        "10": Evaluation(10, 1000, CARD_SEED),
    },
    _answer_metrics,
    _describe_answer,
    _normalize_points,
    "0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8 0.4,0.6",
    decode_answers=_decode_answers,
    predict_settings=Evaluation(augment=8),
    trace_inputs=_trace_inputs,
    loss_function=_loss_function,
    validation_sizes=((20, 256), (50, 256), (100, 256)),
    max_page_points=100,
    page_example_points=20,
)
run, evaluate, predict, trace, card_metrics, input_spec, parse_input, to_model_edits = (
    RECIPE.module_hooks()
)
EXAMPLE = RECIPE.example
GRIDS = {
    "paper": Grid(
        "Tours by model and by the cities of its training",
        Config(),
        (
            Row("attention, 20 to 100 cities"),
            Row("LSTM, 5 to 20 cities", _LSTM_SETTINGS),
        ),
    )
}
COLUMNS = {
    **{f"length at {n}": f"{n}.length" for n in (10, 20, 50)},
    "length at 100": "length",
}
