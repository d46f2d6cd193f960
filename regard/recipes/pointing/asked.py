"""What a model is asked: points that a task draws, that a file holds, or that a person gives."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import cache, plane, vinyals
from regard.data.instances import Instances, Order, reading
from regard.models.pointer_network import Follows

# What an answer is, by which points may follow which.
FORMS: dict[Follows, str] = {
    "each": "each point once",
    "some": "three points or more, none twice",
    "triangles": "three points a triangle",
}
# Squares of larger numbers, and of smaller distances, are lost.
LARGE, SMALL = 1e150, 1e-150


@dataclass(frozen=True, eq=False)
class Asked:
    """Instances in the numbers of who asks, and their answers where those are known."""

    points: list[np.ndarray]  # (n, D) each
    truths: list[list[int]] | None


def drawn(task: Any, points: int, instances: int, seed: int) -> Asked:
    """So many instances of so many points, that no training draws."""
    sized = replace(task, least=points, most=points)
    # batches are drawn by three numbers; with a fourth, nothing is ever drawn twice
    batch = sized.draw(np.random.default_rng([seed, 0, 0, 1]), instances)
    known = batch.answers.shape[1] > 0
    truths = [[i for i in row if i >= 0] for row in batch.answers.tolist()]
    return Asked(list(batch.points.numpy()), truths if known else None)


def held(where: str, file: Path, follows: Follows) -> Asked:
    """The instances of a file in the format of Vinyals et al. 2015, with their answers.

    A file that is not where it was typed is looked for in REGARD_DATA.
    """
    points, truths = zip(*vinyals.read(cache.local_file(file)), strict=True)
    for line, (each, truth) in enumerate(zip(points, truths, strict=True), 1):
        if not _formed(follows, len(each), truth):
            raise ValueError(
                f"{where}: {file}, line {line}: expected an answer of {FORMS[follows]}, got "
                f"{' '.join(map(str, truth)) or 'none'} for {len(each)} points"
            )
    return Asked(list(points), list(truths))


def _formed(follows: Follows, points: int, answer: list[int]) -> bool:
    """Whether an answer to so many points is of the form that it should have."""
    if follows == "triangles":
        return len(answer) > 0 and len(answer) % 3 == 0
    least = points if follows == "each" else 3
    return least <= len(answer) == len(set(answer))


def given(where: str, input: str | np.ndarray, inputs: int) -> np.ndarray:
    """The points (n, inputs) of a file, or as they were typed, told apart where they are.

    Points that come as numbers already are only checked.
    """
    points = (
        input if isinstance(input, np.ndarray) else plane.read(input, columns=inputs, where=where)
    )
    if points.ndim != 2 or points.shape[1] != inputs or not len(points):
        raise ValueError(f"{where}: expected points of shape (n, {inputs}), got {points.shape}")
    largest = float(np.abs(points).max())
    if largest > LARGE:
        raise ValueError(f"{where}: expected numbers of at most {LARGE:g}, got {largest:g}")
    span = float(np.ptp(points, 0).max())
    if 0 < span < SMALL:
        raise ValueError(f"{where}: expected points at least {SMALL:g} apart, got {span:g}")
    return points


def begun(where: str, prefix: str, points: int) -> list[int]:
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


def example(inputs: int, count: int) -> str:
    """So many points, or numbers, as one would type them."""
    drawn = np.random.default_rng(count).random((count, inputs))
    return " ".join(",".join(f"{x:.2f}" for x in point) for point in drawn)


def laid(points: list[np.ndarray], order: Order) -> tuple[Instances, list[np.ndarray]]:
    """Instances as a model reads them, and which of the points given stands at each place."""
    orders = [reading(each, order) for each in points]
    N, D = max(map(len, points)), points[0].shape[1]
    laid = np.zeros((len(points), N, D), np.float32)
    for row, each, places in zip(laid, points, orders, strict=True):
        row[: len(each)] = each[places]
    lengths = torch.tensor([len(each) for each in points])
    none = torch.zeros(len(points), 0, dtype=torch.int64)
    return Instances(torch.from_numpy(laid), lengths, none), orders


def told(answers: np.ndarray, orders: list[np.ndarray]) -> list[list[int]]:
    """Answers (B, T) in the numbers of who asked."""
    rows = zip(answers, orders, strict=True)
    return [places[row[: _ended(row)]].tolist() for row, places in rows]


def _ended(row: np.ndarray) -> int:
    """How many points an answer has before its end."""
    return int((row >= 0).cumprod().sum())


def unit(points: np.ndarray) -> np.ndarray:
    """Points moved and scaled into the unit square, all directions alike."""
    low = points.min(0)
    span = float((points - low).max())
    return (points - low) / (span if span > 0 else 1.0)
