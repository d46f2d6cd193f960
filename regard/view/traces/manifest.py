"""What a page is told about a trace in JSON: all that is no array. Its form: docs/page.md."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.view.traces import wire
from regard.view.traces.axes import (
    Axis,
    Grid,
    Points,
    Steps,
    Tokens,
)
from regard.view.traces.trace import Map, Series, Trace, fields_to_json


def trace_manifest(
    id: str, trace: Trace, provenance: Mapping[str, Any], *, size: int
) -> dict[str, Any]:
    """The manifest of a trace.

    Args:
        provenance: how it came about: `asked`, `python` and `seconds`.
        size: how many bytes it takes in memory.
    """
    return {
        **fields_to_json(trace.header, exclude=("run_id",)),
        "id": id,
        "outputs": dict(trace.outputs),
        "bytes": size,
        "seconds": provenance.get("seconds"),
        "asked": provenance.get("asked"),
        "python": provenance.get("python", ""),
        "axes": [_axis_to_json(axis) for axis in trace.axes],
        "maps": [_map_to_json(map) for map in trace.maps],
        "series": [_series_to_json(series) for series in trace.series],
    }


def _axis_to_json(axis: Axis) -> dict[str, Any]:
    found: dict[str, Any] = {"id": axis.id, "kind": axis.kind, "size": axis.size}
    if isinstance(axis, Tokens):
        for name in ("labels", "words", "special", "names"):
            found[name] = getattr(axis, name)
    elif isinstance(axis, Grid):
        image = None if axis.image is None else list(axis.image.shape)
        found |= {"rows": axis.rows, "columns": axis.columns, "image": image}
    elif isinstance(axis, Points):
        found["xy"] = axis.xy.tolist()
    elif isinstance(axis, Steps):
        found["labels"] = axis.labels
    return found


def _map_to_json(map: Map) -> dict[str, Any]:
    sizes, stats = map.sizes or (0, 0), map.stats()
    return {
        **fields_to_json(map, exclude=("cells", "sizes")),
        "sizes": sizes,
        "thumb": wire.thumbnail_size(*sizes),
        "levels": wire.level_count(*sizes),
        # to five digits: a wall has hundreds of heads, and these are for looking
        "stats": {name: _round_stats(values) for name, values in stats._asdict().items()},
    }


def _round_stats(values: Tensor) -> list[list[float]]:
    return [[round(value, 5) for value in row] for row in values.tolist()]


def _series_to_json(series: Series) -> dict[str, Any]:
    columns = series.values.shape[1] if series.values.dim() == 2 else 1
    return {"id": series.id, "axis": series.axis, "columns": columns}
