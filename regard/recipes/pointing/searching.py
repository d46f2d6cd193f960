"""How an answer is found: greedily, with beams, or as the best of tours from many cities."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import decode
from regard.data.instances import Instances
from regard.functional.pointing import END
from regard.recipes.pointing.learning import lengths

# Numbers of all keys, or of all scores of a step, that are held at a time.
AT_ONCE = {"cpu": 2**24, "cuda": 2**28}
# The eight ways to turn and mirror a square: whether x and y change places, and which are mirrored.
SYMMETRIES = [(swap, x, y) for swap in (False, True) for x in (False, True) for y in (False, True)]


@torch.no_grad()
def pointed(model: Any, batch: Instances, *, beam: int = 1) -> np.ndarray:
    """What a model answers to each instance (B, T), with −1 behind the last point."""
    N, device = batch.points.shape[1], next(model.parameters()).device
    # a triangulation of N points has fewer than 2N triangles
    longest = 6 * N + 1
    found = []
    for part in parts(batch, 512 * (N + 1) * beam, device):
        source = (part.points, part.lengths)
        if beam == 1:
            said = decode.greedy(model, source, begin=END, end=END, longest=longest)
        else:
            said = decode.beam(model, source, begin=END, end=END, longest=longest, width=beam)
        found.append((said.tokens[:, 0] - 1).cpu().numpy())
    return joined(found)


@torch.no_grad()
def toured(model: Any, points: Tensor, *, augment: int = 1, starts: int | None = None) -> Tensor:
    """The shortest tour (B, N) that is found through points (B, N, 2) of the unit square.

    Args:
        augment: in how many of the eight ways a square can be turned and mirrored each is read.
        starts: from how many cities a tour begins; None is from every one.
    """
    N, device = points.shape[1], next(model.parameters()).device
    S = min(N, starts or N)
    begin = torch.arange(S, device=device) * N // S
    whole = Instances(points, torch.full((len(points),), N), torch.zeros(len(points), 0).long())
    found = [
        _shortest(model, part.points, augment, begin) for part in parts(whole, 16 * N * S, device)
    ]
    return torch.cat(found)


def _shortest(model: Any, points: Tensor, augment: int, begin: Tensor) -> Tensor:
    """The same for few instances."""
    B, N = points.shape[:2]
    full = torch.full((B,), N, device=points.device)
    best, shortest = torch.zeros(B, N, dtype=torch.int64, device=points.device), None
    for symmetry in SYMMETRIES[:augment]:
        seen = turned(points, *symmetry)
        # read from the left, as in training, and told by their own numbers
        order = seen[..., 0].argsort(1)
        read = model.read(seen.gather(1, order[..., None].expand_as(seen)), full)
        tours = model.walked(read, starts=begin.expand(B, -1))
        tours = order.gather(1, tours.flatten(1)).view_as(tours)
        long, which = lengths(points, tours).min(1)
        one = tours[torch.arange(B, device=points.device), which]
        shorter = long < shortest if shortest is not None else torch.ones_like(long).bool()
        best = torch.where(shorter[:, None], one, best)
        shortest = long if shortest is None else torch.minimum(long, shortest)
    return best


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
