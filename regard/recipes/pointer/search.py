"""How an answer is found: greedily, with beams, or as the best of tours from many cities."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import decode
from regard.data.geometry.instances import Instances, ReadingOrder
from regard.functional.pointing_rules import END
from regard.recipes.pointer.loss import tour_lengths

# Numbers of all keys, or of all scores of a step, that are held at a time.
MAX_BATCH_ELEMENTS = {"cpu": 2**24, "cuda": 2**28}
# Steps of all tours through an instance, beyond which they begin at some cities only.
MAX_STEPS_PER_INSTANCE = 20_000
# The eight ways to turn and mirror a square: whether x and y change places, and which are mirrored.
SYMMETRIES = [(swap, x, y) for swap in (False, True) for x in (False, True) for y in (False, True)]


@torch.no_grad()
def decode_instances(
    model: Any, batch: Instances, *, beam: int = 1, prefixes: list[list[int]] | None = None
) -> np.ndarray:
    """What a model answers to each instance (B, T), with −1 behind the last point.

    Args:
        prefixes: of each instance the points that its answer begins with, by where they are read.
    """
    N, device = batch.points.shape[1], next(model.parameters()).device
    # a triangulation of N points has fewer than 2N triangles
    longest = 6 * N + 1
    found, done = [], 0
    for part in split_batch(batch, 512 * (N + 1) * beam, device):
        source, steps = (part.points, part.lengths), model
        if prefixes is not None:
            led = [[i + 1 for i in each] for each in prefixes[done : done + len(part)]]
            steps, done = decode.ForcedPrefix(model, led), done + len(part)
        if beam == 1:
            said = decode.greedy(steps, source, begin=END, end=END, longest=longest)
        else:
            said = decode.beam(steps, source, begin=END, end=END, longest=longest, width=beam)
        found.append((said.tokens[:, 0] - 1).cpu().numpy())
    return concatenate_answers(found)


@torch.no_grad()
def shortest_tours(
    model: Any,
    points: Tensor,
    *,
    augment: int = 1,
    starts: int | None = None,
    order: ReadingOrder = "left",
) -> Tensor:
    """The shortest tour (B, N) that is found through points (B, N, 2) of the unit square.

    Args:
        augment: in how many of the eight ways a square can be turned and mirrored each is read.
        starts: from how many cities a tour begins; None is from every one, of many from some.
        order: in which order the points are read.
    """
    N, device = points.shape[1], next(model.parameters()).device
    S = min(N, starts or max(1, MAX_STEPS_PER_INSTANCE // N))
    begin = torch.arange(S, device=device) * N // S
    whole = Instances(points, torch.full((len(points),), N), torch.zeros(len(points), 0).long())
    found = [
        _shortest_in_batch(model, part.points, augment, begin, order)
        for part in split_batch(whole, 16 * N * S, device)
    ]
    return torch.cat(found)


def with_tour_symmetry(
    model: Any, points: Tensor, tour: Tensor, *, order: ReadingOrder = "left"
) -> Tensor:
    """Points (N, 2) turned and mirrored as when `shortest_tours` found a tour (N,)."""
    start = points.new_tensor([tour[0]]).long()
    for symmetry in SYMMETRIES:
        if torch.equal(_decode_tours(model, points[None], symmetry, start, order)[0, 0], tour):
            return with_symmetry(points, *symmetry)
    return points


def _shortest_in_batch(
    model: Any, points: Tensor, augment: int, start_cities: Tensor, order: ReadingOrder
) -> Tensor:
    """The same for few instances."""
    found = [
        _decode_tours(model, points, symmetry, start_cities, order)
        for symmetry in SYMMETRIES[:augment]
    ]
    tours = torch.cat(found, 1)
    which = tour_lengths(points, tours).argmin(1)
    return tours[torch.arange(len(points), device=points.device), which]


@torch.no_grad()
def _decode_tours(
    model: Any,
    points: Tensor,
    symmetry: tuple[bool, bool, bool],
    start_cities: Tensor,
    order: ReadingOrder,
) -> Tensor:
    """The tours (B, S, N) that begin at these cities (S,) when points are read in one way."""
    (B, N), seen = points.shape[:2], with_symmetry(points, *symmetry)
    full = torch.full((B,), N, device=points.device)
    # read in the order of the training, and told by their own numbers
    given = torch.arange(N, device=points.device).expand(B, N)
    left = seen[..., 0].sort(dim=1, stable=True).indices
    places = left if order == "left" else given
    read = model.encode(seen.gather(1, places[..., None].expand_as(seen)), full)
    starts = places.argsort(1).gather(1, start_cities.expand(B, -1))
    tours = model.decode_tours(read, starts=starts)
    return places.gather(1, tours.flatten(1)).view_as(tours)


def with_symmetry(points: Tensor, swap: bool, mirror_x: bool, mirror_y: bool) -> Tensor:
    """Points (B, N, 2) of the unit square, turned and mirrored."""
    seen = points.flip(-1) if swap else points
    return torch.stack(
        [
            1 - seen[..., 0] if mirror_x else seen[..., 0],
            1 - seen[..., 1] if mirror_y else seen[..., 1],
        ],
        -1,
    )


def split_batch(batch: Instances, row_elements: int, device: torch.device) -> Iterator[Instances]:
    """Some instances at a time, so that so many numbers of each are not too many together."""
    rows = max(1, min(4096, MAX_BATCH_ELEMENTS.get(device.type, 2**24) // row_elements))
    for i in range(0, len(batch), rows):
        yield batch.map_tensors(itemgetter(slice(i, i + rows))).to(device)


def concatenate_answers(answers: list[np.ndarray]) -> np.ndarray:
    """Answers (B, T) below one another, with −1 behind the shorter ones."""
    T = max((each.shape[1] for each in answers), default=0)
    filled = [
        np.pad(each, ((0, 0), (0, T - each.shape[1])), constant_values=-1) for each in answers
    ]
    return np.concatenate(filled) if filled else np.zeros((0, 0), np.int64)
