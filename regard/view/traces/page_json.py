"""A trace as the text that a page without a server reads: its manifest, and every array packed.

What reads it is `page/src/lib/embedded.ts`. Weights are exact in float32, unless they are many.
"""

import base64
import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from regard.view.traces import wire
from regard.view.traces.axes import Grid
from regard.view.traces.manifest import trace_manifest
from regard.view.traces.trace import Map, Trace

# Bytes of weights: those that a page holds at most, and those beyond which it holds them in half.
MAX_WEIGHT_BYTES, MAX_FLOAT32_BYTES = 64 * 2**20, 32 * 2**20
_FLOAT16_NOTE = "the weights are many, so this page has them in float16"


def to_page_json(
    trace: Trace, place: Mapping[str, str], provenance: Mapping[str, Any] | None = None
) -> str:
    """The trace as JSON in ASCII, which can neither end the element it stands in nor begin another.

    Args:
        place: where one looks first, as the page's address has it: view, map, layer, head, step.
        provenance: how the trace came about: `asked`, `python` and `seconds`.

    Raises:
        ValueError: it has more weights than a page holds, or there is nothing to show.
    """
    trace.map(place.get("map"))
    cells = sum(map.layers * map.heads * math.prod(map.sizes or ()) for map in trace.maps)
    half = 4 * cells > MAX_FLOAT32_BYTES
    size = (2 if half else 4) * cells
    if size > MAX_WEIGHT_BYTES:
        raise ValueError(
            f"page: {cells} weights take {size / 2**20:.0f} MB, but a page holds "
            f"{MAX_WEIGHT_BYTES >> 20}. "
            "Name one map, merge words, or save a trace file and open it by regard serve --trace."
        )
    trace = _with_float16_note(trace) if half else trace
    dtype = torch.float16 if half else torch.float32
    trace = replace(trace, maps=[_with_computed_weights(map, dtype) for map in trace.maps])
    known = {"asked": None, "python": "", "seconds": None} | dict(provenance or {})
    given = {
        "manifest": trace_manifest("", trace, known, size=size),
        "place": dict(place),
        "arrays": _encode_arrays(trace, "f2" if half else "f4"),
    }
    text = json.dumps(given, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _encode_arrays(trace: Trace, kind: str) -> dict[str, dict[str, str]]:
    arrays = {
        f"maps.{map.id}": _encode_array(
            kind, map.all_weights().numpy().astype(f"<{kind}").tobytes()
        )
        for map in trace.maps
    }
    for series in trace.series:
        arrays[f"series.{series.id}"] = _encode_array("f4", wire.float32_bytes(series.values))
    for axis in trace.axes:
        if isinstance(axis, Grid) and axis.image is not None:
            arrays[f"images.{axis.id}"] = _encode_array("u1", wire.image_bytes(axis.image))
    return arrays


def _encode_array(kind: str, data: bytes) -> dict[str, str]:
    # without a date, the same trace is the same text
    return {"dtype": kind, "data": base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()}


def _with_computed_weights(map: Map, dtype: torch.dtype) -> Map:
    """The map with its weights there, each no further from what it was than its bits say."""
    whole = map.all_weights().cpu().to(dtype)
    return replace(map, cells=whole)


def _with_float16_note(trace: Trace) -> Trace:
    return replace(trace, header=replace(trace.header, notes=[*trace.header.notes, _FLOAT16_NOTE]))
