"""Weights as they go over the wire: square roots in bytes, pooled by their maximum; exact rows.

A weight p is `round(255 √p)`, which is off by less than 0.004 and keeps apart what is small.
"""

import itertools

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.view.traces.trace import Map

# The sides of a thumbnail and of a tile, at most.
MAX_THUMBNAIL_SIDE, MAX_TILE_SIDE = 64, 512
# Beyond so many weights a copy in float32 is too much to make on the way.
MAX_COPIED_WEIGHTS = 2**22


def to_sqrt_bytes(weights: Tensor) -> Tensor:
    """Weights of any shape, each as `round(255 √p)`."""
    return weights.float().clamp(0, 1).sqrt().mul_(255).round_().to(torch.uint8)


def thumbnail_size(Q: int, K: int) -> tuple[int, int]:
    """How many rows and columns the thumbnail of a head has."""
    return min(Q, MAX_THUMBNAIL_SIDE), min(K, MAX_THUMBNAIL_SIDE)


def thumbnail_bytes(map: Map) -> bytes:
    """Every head of a map, small (layers, heads, h, w); each the greatest of its bin."""
    whole = map.all_weights()
    h, w = thumbnail_size(*whole.shape[-2:])
    small = torch.stack([max_pool(head, h, w) for head in whole.flatten(0, 1)])
    return _raw_bytes(to_sqrt_bytes(small))


def max_pool(weights: Tensor, rows: int, columns: int) -> Tensor:
    """Weights (Q, K) as (rows, columns); every weight counts in one bin, number `i · rows // Q`.

    Bins differ by one in size where they do not come out even.
    """
    for axis, bins in enumerate((rows, columns)):
        size = weights.shape[axis]
        if size % bins == 0:
            weights = weights.unflatten(axis, (bins, -1)).amax(axis + 1)
        elif axis == 0 and weights.numel() > MAX_COPIED_WEIGHTS:
            # without a copy of all: a bin at a time
            ends = [-(-i * size // bins) for i in range(bins + 1)]
            bounds = itertools.pairwise(ends)
            weights = torch.stack([weights[start:end].amax(0) for start, end in bounds])
        else:
            starts = -(-numpy.arange(bins) * size // bins)  # the first whose number is i
            cells = numpy.maximum.reduceat(weights.float().numpy(), starts, axis=axis)
            weights = torch.from_numpy(numpy.ascontiguousarray(cells))
    return weights.float()


def level_count(Q: int, K: int) -> int:
    """How often a head is halved, and once more, until one tile holds it."""
    count = 1
    while max(Q, K) > MAX_TILE_SIDE << (count - 1):
        count += 1
    return count


def tile_bytes(map: Map, layer: int, head: int, *, level: int, row: int, column: int) -> bytes:
    """One tile of a head that is pooled by 2^level: at most 512 × 512, less at the edges.

    Raises:
        ValueError: there is no such tile.
    """
    weights = map.weights(layer, head)
    if not 0 <= level < level_count(*weights.shape):
        raise ValueError(f"level: expected 0 to {level_count(*weights.shape) - 1}, got {level}")
    side = MAX_TILE_SIDE << level
    for name, index, size in (("row", row, weights.shape[0]), ("column", column, weights.shape[1])):
        if not 0 <= index * side < size:
            raise ValueError(f"{name}: expected 0 to {(size - 1) // side}, got {index}")
    part = weights[row * side : (row + 1) * side, column * side : (column + 1) * side]
    # first over queries: what lies side by side in memory is compared many at a time
    return _raw_bytes(to_sqrt_bytes(_pool_neighbours(_pool_neighbours(part, level, 0), level, 1)))


def row_bytes(map: Map, layer: int, head: int, query: int) -> bytes:
    """The weights (K) of one query as they are, in float32.

    Raises:
        ValueError: there is no such query.
    """
    weights = map.weights(layer, head)
    if not 0 <= query < len(weights):
        raise ValueError(f"query: expected 0 to {len(weights) - 1}, got {query}")
    return float32_bytes(weights[query])


def float32_bytes(values: Tensor) -> bytes:
    """Numbers in float32, little-endian, line by line."""
    return values.float().cpu().contiguous().numpy().astype("<f4", copy=False).tobytes()


def image_bytes(picture: Tensor) -> bytes:
    """A picture (C, Y, X) in bytes, whether it was kept so or as floats from 0 to 1."""
    if picture.dtype != torch.uint8:
        picture = picture.float().mul(255).round().to(torch.uint8)
    return _raw_bytes(picture)


def _pool_neighbours(weights: Tensor, level: int, axis: int) -> Tensor:
    """Weights (Q, K) with every 2^level neighbours along an axis as one, the greatest."""
    missing = -weights.shape[axis] % (1 << level)
    if missing:
        # zeros beyond the edge: no weight is less
        weights = F.pad(weights, (0, missing) if axis else (0, 0, 0, missing))
    return weights.unflatten(axis, (-1, 1 << level)).amax(axis + 1)


def _raw_bytes(values: Tensor) -> bytes:
    return values.cpu().contiguous().numpy().tobytes()
