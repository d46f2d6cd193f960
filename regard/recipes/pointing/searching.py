"""How an answer is found: greedily, with beams, or as the best of tours from many cities."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import decode
from regard.data.instances import Instances, Order
from regard.functional.pointing import END
from regard.recipes.pointing.learning import lengths

# Numbers of all keys, or of all scores of a step, that are held at a time.
AT_ONCE = {"cpu": 2**24, "cuda": 2**28}
# Steps of all tours through an instance, beyond which they begin at some cities only.
MANY = 20_000
# The eight ways to turn and mirror a square: whether x and y change places, and which are mirrored.
SYMMETRIES = [(swap, x, y) for swap in (False, True) for x in (False, True) for y in (False, True)]


@torch.no_grad()
def pointed(
    model: Any, batch: Instances, *, beam: int = 1, starts: list[list[int]] | None = None
) -> np.ndarray:
    """What a model answers to each instance (B, T), with −1 behind the last point.

    Args:
        starts: of each instance the points that its answer begins with, by where they are read.
    """
    N, device = batch.points.shape[1], next(model.parameters()).device
    # a triangulation of N points has fewer than 2N triangles
    longest = 6 * N + 1
    found, done = [], 0
    for part in parts(batch, 512 * (N + 1) * beam, device):
        source, steps = (part.points, part.lengths), model
        if starts is not None:
            led = [[i + 1 for i in each] for each in starts[done : done + len(part)]]
            steps, done = decode.Beginning(model, led), done + len(part)
        if beam == 1:
            said = decode.greedy(steps, source, begin=END, end=END, longest=longest)
        else:
            said = decode.beam(steps, source, begin=END, end=END, longest=longest, width=beam)
        found.append((said.tokens[:, 0] - 1).cpu().numpy())
    return joined(found)


@torch.no_grad()
def toured(
    model: Any,
    points: Tensor,
    *,
    augment: int = 1,
    starts: int | None = None,
    order: Order = "left",
) -> Tensor:
    """The shortest tour (B, N) that is found through points (B, N, 2) of the unit square.

    Args:
        augment: in how many of the eight ways a square can be turned and mirrored each is read.
        starts: from how many cities a tour begins; None is from every one, of many from some.
        order: in which order the points are read.
    """
    N, device = points.shape[1], next(model.parameters()).device
    S = min(N, starts or max(1, MANY // N))
    begin = torch.arange(S, device=device) * N // S
    whole = Instances(points, torch.full((len(points),), N), torch.zeros(len(points), 0).long())
    found = [
        _shortest(model, part.points, augment, begin, order)
        for part in parts(whole, 16 * N * S, device)
    ]
    return torch.cat(found)


def found_in(model: Any, points: Tensor, tour: Tensor, *, order: Order = "left") -> Tensor:
    """Points (N, 2) turned and mirrored as they were read when `toured` found a tour (N,)."""
    start = points.new_tensor([tour[0]]).long()
    for symmetry in SYMMETRIES:
        if torch.equal(_tours(model, points[None], symmetry, start, order)[0, 0], tour):
            return turned(points, *symmetry)
    return points


def _shortest(model: Any, points: Tensor, augment: int, begin: Tensor, order: Order) -> Tensor:
    """The same for few instances."""
    found = [_tours(model, points, symmetry, begin, order) for symmetry in SYMMETRIES[:augment]]
    tours = torch.cat(found, 1)
    which = lengths(points, tours).argmin(1)
    return tours[torch.arange(len(points), device=points.device), which]


@torch.no_grad()
def _tours(
    model: Any, points: Tensor, symmetry: tuple[bool, bool, bool], begin: Tensor, order: Order
) -> Tensor:
    """The tours (B, S, N) that begin at these cities (S,) when points are read in one way."""
    (B, N), seen = points.shape[:2], turned(points, *symmetry)
    full = torch.full((B,), N, device=points.device)
    # read in the order of the training, and told by their own numbers
    given = torch.arange(N, device=points.device).expand(B, N)
    left = seen[..., 0].sort(dim=1, stable=True).indices
    places = left if order == "left" else given
    read = model.read(seen.gather(1, places[..., None].expand_as(seen)), full)
    starts = places.argsort(1).gather(1, begin.expand(B, -1))
    tours = model.walked(read, starts=starts)
    return places.gather(1, tours.flatten(1)).view_as(tours)


def turned(points: Tensor, swapped: bool, x: bool, y: bool) -> Tensor:
    """Points (B, N, 2) of the unit square, turned and mirrored."""
    seen = points.flip(-1) if swapped else points
    return torch.stack(
        [1 - seen[..., 0] if x else seen[..., 0], 1 - seen[..., 1] if y else seen[..., 1]], -1
    )


def parts(batch: Instances, size: int, device: torch.device) -> Iterator[Instances]:
    """Some instances at a time, so that so many numbers of each are not too many together."""
    rows = max(1, min(4096, AT_ONCE.get(device.type, 2**24) // size))
    for i in range(0, len(batch), rows):
        yield batch.each(itemgetter(slice(i, i + rows))).to(device)


def joined(found: list[np.ndarray]) -> np.ndarray:
    """Answers (B, T) below one another, with −1 behind the shorter ones."""
    T = max((each.shape[1] for each in found), default=0)
    filled = [np.pad(each, ((0, 0), (0, T - each.shape[1])), constant_values=-1) for each in found]
    return np.concatenate(filled) if filled else np.zeros((0, 0), np.int64)
