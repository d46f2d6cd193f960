"""A trace as the server keeps it: computed once, small enough, with its thumbnails."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard import check
from regard.view.server.limits import Limits
from regard.view.traces import wire
from regard.view.traces.axes import Grid, Points
from regard.view.traces.manifest import trace_manifest
from regard.view.traces.trace import Map, Trace

# What is told of a trace beside itself.
Provenance = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StoredTrace:
    """A trace with all its weights in memory, and what a page asks for first.

    Args:
        provenance: how it came about: `asked`, `python` and `seconds`.
        thumbs: the bytes of each map's thumbnails.
        manifest_json: the JSON of all that is no array.
    """

    trace: Trace
    provenance: Provenance
    thumbs: Mapping[str, bytes]
    manifest_json: bytes
    size_bytes: int


def build_stored_trace(
    id: str,
    trace: Trace,
    provenance: Provenance,
    *,
    limits: Limits,
    budget: int,
    on_head: Callable[[], None] = lambda: None,
) -> StoredTrace:
    """A trace as it is kept: weights in float32, or in half of it where they are many.

    Args:
        budget: how many bytes all traces may take; one that takes more is refused.
        on_head: called head by head; it may raise to stop.

    Raises:
        ValueError: it is too large, in one line.
    """
    check_trace_size(trace, limits)
    cells = sum(map.layers * map.heads * math.prod(map.sizes or ()) for map in trace.maps)
    dtype = torch.float16 if 4 * cells > budget // 4 else torch.float32
    needed = cells * dtype.itemsize + _other_tensor_bytes(trace) + _text_bytes(trace, provenance)
    _check_budget(budget, needed)
    trace = _with_float16_note(trace) if dtype == torch.float16 else trace
    trace = replace(trace, maps=[_with_computed_weights(map, dtype, on_head) for map in trace.maps])
    thumbs = {map.id: wire.thumbnail_bytes(map) for map in trace.maps}
    text = json.dumps(
        trace_manifest(id, trace, provenance, size=needed), allow_nan=False, ensure_ascii=False
    ).encode()
    size = needed + sum(map(len, thumbs.values())) + len(text)
    _check_budget(budget, size)
    return StoredTrace(trace, provenance, thumbs, text, size)


def check_trace_size(trace: Trace, limits: Limits) -> None:
    """Refuse a trace that no page could show, before anything is computed."""
    for axis in trace.axes:
        if axis.size > limits.tokens:
            raise ValueError(
                f"trace: expected axes of at most {limits.tokens}, got {axis.id!r} of {axis.size}"
            )
    heads = sum(map.layers * map.heads for map in trace.maps)
    if heads > limits.heads:
        raise ValueError(f"trace: expected at most {limits.heads} heads, got {heads}")


def _check_budget(budget: int, size: int) -> None:
    if size > budget:
        raise ValueError(
            f"trace: it takes {size / 2**20:.0f} MB, but {budget / 2**20:.0f} are kept at most; "
            "regard serve --budget sets it"
        )


def with_image(trace: Trace, axis: str, picture: Tensor) -> Trace:
    """The trace with another picture (C, Y, X) under one of its grids.

    Raises:
        ValueError: there is no such grid.
    """
    under = trace.axis(axis)
    if not isinstance(under, Grid):
        raise ValueError(f"image: expected an axis that is a grid, got {axis!r} of {under.kind}")
    axes = [replace(one, image=picture) if one is under else one for one in trace.axes]
    return replace(trace, axes=axes)


def _other_tensor_bytes(trace: Trace) -> int:
    """The bytes of a trace's other tensors."""
    tensors = [series.values for series in trace.series]
    tensors += [axis.xy for axis in trace.axes if isinstance(axis, Points)]
    images = [axis.image for axis in trace.axes if isinstance(axis, Grid)]
    return sum(tensor.nbytes for tensor in [*tensors, *images] if tensor is not None)


def _text_bytes(trace: Trace, provenance: Provenance) -> int:
    """The bytes of all that is neither tensor nor manifest: labels, names, outputs."""
    said = [vars(axis) for axis in trace.axes] + [map.names for map in trace.maps]
    return check.memory_bytes([*said, trace.outputs, vars(trace.header), dict(provenance)])


def _with_float16_note(trace: Trace) -> Trace:
    note = "the weights are many, so the page keeps them in float16"
    return replace(trace, header=replace(trace.header, notes=[*trace.header.notes, note]))


def _with_computed_weights(map: Map, dtype: torch.dtype, on_head: Callable[[], None]) -> Map:
    """The map with all its weights there, one head made at a time."""
    if isinstance(map.cells, Tensor) and map.cells.dtype == dtype and map.cells.is_cpu:
        return map
    Q, K = map.sizes or (0, 0)
    whole = torch.empty(map.layers, map.heads, Q, K, dtype=dtype)
    for layer in range(map.layers):
        for head in range(map.heads):
            on_head()
            whole[layer, head] = map.weights(layer, head).to("cpu", dtype)
    return replace(map, cells=whole)
