"""What a model is asked: points that a task draws, that a file holds, or that a person gives."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import download
from regard.data.geometry import point_input, vinyals
from regard.data.geometry.instances import Instances, ReadingOrder, reading_order
from regard.models.pointer_network import PointingRuleName

# What an answer is, by which points may follow which.
ANSWER_FORMS: dict[PointingRuleName, str] = {
    "permutation": "each point once",
    "subset": "three points or more, none twice",
    "triangles": "three points a triangle",
}
# Squares of larger numbers, and of smaller distances, are lost.
MAX_COORDINATE, MIN_SPAN = 1e150, 1e-150


@dataclass(frozen=True, eq=False)
class Problems:
    """Instances in the numbers of who asks, and their answers where those are known."""

    points: list[np.ndarray]  # (n, D) each
    truths: list[list[int]] | None


def draw_problems(task: Any, points: int, instances: int, seed: int) -> Problems:
    """So many instances of so many points, that no training draws."""
    sized = replace(task, min_points=points, max_points=points)
    # batches are drawn by three numbers; with a fourth, nothing is ever drawn twice
    batch = sized.draw(np.random.default_rng([seed, 0, 0, 1]), instances)
    known = batch.answers.shape[1] > 0
    truths = [[i for i in row if i >= 0] for row in batch.answers.tolist()]
    return Problems(list(batch.points.numpy()), truths if known else None)


def load_problems(where: str, file: Path, pointing_rule: PointingRuleName) -> Problems:
    """The instances of a file in the format of Vinyals et al. 2015, with their answers.

    A file that is not where it was typed is looked for in REGARD_DATA.
    """
    points, truths = zip(*vinyals.read_instances(download.local_file(file)), strict=True)
    for line, (each, truth) in enumerate(zip(points, truths, strict=True), 1):
        if not _is_well_formed(pointing_rule, len(each), truth):
            raise ValueError(
                f"{where}: {file}, line {line}: expected an answer of "
                f"{ANSWER_FORMS[pointing_rule]}, got "
                f"{' '.join(map(str, truth)) or 'none'} for {len(each)} points"
            )
    return Problems(list(points), list(truths))


def _is_well_formed(pointing_rule: PointingRuleName, points: int, answer: list[int]) -> bool:
    """Whether an answer to so many points is of the form that it should have."""
    if pointing_rule == "triangles":
        return len(answer) > 0 and len(answer) % 3 == 0
    least = points if pointing_rule == "permutation" else 3
    return least <= len(answer) == len(set(answer))


def parse_points(where: str, input: str | np.ndarray, dimensions: int) -> np.ndarray:
    """The points (n, inputs) of a file, or as they were typed, told apart where they are.

    Points that come as numbers already are only checked.
    """
    points = (
        input
        if isinstance(input, np.ndarray)
        else point_input.read_points(input, columns=dimensions, where=where)
    )
    if points.ndim != 2 or points.shape[1] != dimensions or not len(points):
        raise ValueError(f"{where}: expected points of shape (n, {dimensions}), got {points.shape}")
    largest = float(np.abs(points).max())
    if largest > MAX_COORDINATE:
        raise ValueError(
            f"{where}: expected numbers of at most {MAX_COORDINATE:g}, got {largest:g}"
        )
    span = float(np.ptp(points, 0).max())
    if 0 < span < MIN_SPAN:
        raise ValueError(f"{where}: expected points at least {MIN_SPAN:g} apart, got {span:g}")
    return points


def parse_prefix(where: str, prefix: str, points: int) -> list[int]:
    """The points that an answer has to begin with, of `3 0`."""
    found = []
    for word in prefix.replace(",", " ").split():
        if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) >= points:
            raise ValueError(
                f"{where}: expected a prefix of points from 0 to {points - 1}, got {word!r:.80}"
            )
        if int(word) in found:
            raise ValueError(f"{where}: expected no point twice in a prefix, got {word} again")
        found.append(int(word))
    return found


def example_points(dimensions: int, count: int) -> str:
    """So many points, or numbers, as one would type them."""
    drawn = np.random.default_rng(count).random((count, dimensions))
    return " ".join(",".join(f"{x:.2f}" for x in point) for point in drawn)


def collate_points(
    points: list[np.ndarray], order: ReadingOrder
) -> tuple[Instances, list[np.ndarray]]:
    """Instances as a model reads them, and which of the points given stands at each place."""
    orders = [reading_order(each, order) for each in points]
    N, D = max(map(len, points)), points[0].shape[1]
    laid = np.zeros((len(points), N, D), np.float32)
    for row, each, places in zip(laid, points, orders, strict=True):
        row[: len(each)] = each[places]
    lengths = torch.tensor([len(each) for each in points])
    none = torch.zeros(len(points), 0, dtype=torch.int64)
    return Instances(torch.from_numpy(laid), lengths, none), orders


def to_input_indices(answers: np.ndarray, orders: list[np.ndarray]) -> list[list[int]]:
    """Answers (B, T) in the numbers of who asked."""
    rows = zip(answers, orders, strict=True)
    return [places[row[: _answer_length(row)]].tolist() for row, places in rows]


def _answer_length(row: np.ndarray) -> int:
    """How many points an answer has before its end."""
    return int((row >= 0).cumprod().sum())


def to_unit_square(points: np.ndarray) -> np.ndarray:
    """Points moved and scaled into the unit square, all directions alike."""
    low = points.min(0)
    span = float((points - low).max())
    return (points - low) / (span if span > 0 else 1.0)
