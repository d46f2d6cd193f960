"""Words beside points: none covers another, and few cover a point or a line."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.check import Number

# To which side a word stands, in eighths of a turn, what is read best first.
_SIDE_ORDER = (0, 4, 1, 7, 3, 5, 2, 6)


class Label(NamedTuple):
    """A word of so many inches that belongs to the point at (x, y)."""

    x: Number
    y: Number
    width: Number
    height: Number
    radius: Number  # how far from its middle the point reaches
    required: bool = False  # whether it stands further off, or on points, rather than be left out


def place_labels(
    labels: Sequence[Label],
    *,
    points: Tensor,
    lines: Tensor,
    box: tuple[Number, Number],
) -> list[tuple[float, float] | None]:
    """The middle of each word, or None where there is no room for it; the first choose first.

    Args:
        points: discs to be left free, (x, y) and radius (N, 3).
        lines: lines that are better left free, from (x, y) to (x, y), and how much better (L, 5).
        box: how wide and high the place for all of it is.
    """
    middle, radius = points.double().split([2, 1], 1)
    discs = torch.cat([middle - radius, middle + radius], 1)  # (N, 4)
    taken, found = discs[:0], list[tuple[float, float] | None]()
    for word in labels:
        middles, off = _candidate_places(word)
        half = torch.tensor([word.width, word.height], dtype=torch.float64) / 2
        boxes = torch.cat([middles - half, middles + half], 1)  # (C, 4)
        inside = (boxes[:, :2] >= 0).all(1) & (boxes[:, 2:] <= torch.tensor(box)).all(1)
        covered = _overlaps(boxes, discs).sum(1)
        free = inside & ~_overlaps(boxes, taken).any(1) & ((covered == 0) | word.required)
        if not bool(free.any()):
            found.append(None)
            continue
        cost = _crossing_cost(boxes, lines.double()) + 2 * covered + off
        best = int(cost.masked_fill(~free, math.inf).argmin())
        taken = torch.cat([taken, boxes[best : best + 1]])
        x, y = middles[best].tolist()
        found.append((x, y))
    return found


def _candidate_places(label: Label) -> tuple[Tensor, Tensor]:
    """Where the middle of a word may be (C, 2), and what is said against each place (C,)."""
    places, off = [], []
    for ring in range(8 if label.required else 1):
        away = label.radius + 0.02 + 0.08 * ring
        for rank, side in enumerate(_SIDE_ORDER):
            x, y = math.cos(side * math.pi / 4), math.sin(side * math.pi / 4)
            # the edge that faces the point is as far away on every side
            wide, high = _sign(x) * label.width / 2, _sign(y) * label.height / 2
            places.append((label.x + x * away + wide, label.y + y * away + high))
            off.append(0.01 * rank + 0.4 * ring)
    return torch.tensor(places, dtype=torch.float64), torch.tensor(off, dtype=torch.float64)


def _sign(x: Number) -> int:
    return 0 if abs(x) < 1e-6 else int(math.copysign(1, x))


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Which boxes (C, 4) share some of which others (M, 4): (C, M)."""
    a, b = a[:, None], b[None]
    return ((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:])).all(-1)


def _crossing_cost(boxes: Tensor, lines: Tensor) -> Tensor:
    """How much of worth the lines (L, 5) that go through each box (C, 4) are together (C,)."""
    start, way = lines[:, :2], lines[:, 2:4] - lines[:, :2]
    way = torch.where(way.abs() < 1e-9, torch.full_like(way, 1e-9), way)
    sides = torch.stack([boxes[:, None, :2] - start, boxes[:, None, 2:] - start]) / way
    # a line is inside from where it has entered both ways to where it leaves the first
    enters, leaves = sides.amin(0).amax(-1), sides.amax(0).amin(-1)  # (C, L)
    return ((enters.clamp(min=0) <= leaves.clamp(max=1)).double() * lines[:, 4]).sum(1)
