"""A trace as one file: safetensors for the numbers, JSON in its metadata for all the rest.

A file is believed in nothing: whatever does not fit together is refused in one sentence.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors
from torch import Tensor

from regard import check
from regard.runtime.atomic_files import max_json_memory, write_file
from regard.view.traces.axes import (
    Axis,
    Grid,
    Points,
    Slots,
    Steps,
    Tokens,
)
from regard.view.traces.labels import escape_invisible
from regard.view.traces.trace import (
    INTEGER_LIMIT,
    SCHEMA,
    Header,
    Map,
    Series,
    Trace,
    fields_to_json,
)

_METADATA_KEY = "regard.trace"
_DTYPES = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "U8": torch.uint8,
}
MAX_HEADER_BYTES = 32 * 2**20
# What the manifest may take in memory once it is read, and how many tensors there may be.
MAX_MANIFEST_MEMORY_BYTES, MAX_TENSORS = 192 * 2**20, 4096

# What stands in the manifest, and of which type; tensors go by "maps.", "series." or "axes." + id.
_AXIS_SCHEMAS: dict[str, tuple[Callable[..., Axis], dict[str, Any]]] = {
    "tokens": (
        Tokens,
        {"id": str, "labels": list, "words": list | None, "special": list, "names": list | None},
    ),
    "grid": (Grid, {"id": str, "rows": int, "columns": int, "image": bool}),
    "slots": (Slots, {"id": str, "count": int}),
    "points": (Points, {"id": str}),
    "steps": (Steps, {"id": str, "labels": list}),
}
_MAP_SCHEMA = {"id": str, "query": str, "key": str, "layers": int, "heads": int, "causal": bool}
_MAP_SCHEMA |= {"names": list}
_SERIES_SCHEMA = {"id": str, "axis": str}
_TEXT_FIELDS = ("model", "family", "title", "run_id", "dtype", "device")
_HEADER_SCHEMA = dict.fromkeys(_TEXT_FIELDS, str) | {
    "seed": int | None,
    "versions": dict,
    "notes": list,
}
_MANIFEST_SCHEMA = _HEADER_SCHEMA | {"edits": list, "schema": int, "outputs": dict}
_PART_LISTS = {"axes": list, "maps": list, "series": list}


def save(trace: Trace, path: str | Path) -> Path:
    """Write a trace to a `.safetensors` file, whole or not at all; maps are computed for it."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"save: expected a path that ends in .safetensors, got {str(path)!r}")
    manifest = fields_to_json(trace.header) | {
        "outputs": trace.outputs,
        "axes": [_axis_to_json(axis) for axis in trace.axes],
        "maps": [fields_to_json(map, exclude=("cells", "sizes")) for map in trace.maps],
        "series": [fields_to_json(series, exclude=("values",)) for series in trace.series],
    }
    text = json.dumps(manifest, allow_nan=False)
    if max_json_memory(text) > MAX_MANIFEST_MEMORY_BYTES:
        raise ValueError(f"save: labels and outputs would take {_memory_text(text)}")
    data = safetensors(_named_tensors(trace), {_METADATA_KEY: text})
    if int.from_bytes(data[:8], "little") > MAX_HEADER_BYTES:
        raise ValueError(f"save: expected labels and outputs of at most {MAX_HEADER_BYTES} bytes")
    return write_file(path, data)


def load(path: str | Path) -> Trace:
    """Read a trace from a file, on the CPU.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is not a trace, or not a whole one.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"load: no file named {str(path)!r}")
    try:
        manifest, tensors = _read_file(path)
        return _build_trace(manifest, tensors)
    except ValueError as error:
        raise ValueError(f"load: {str(path)!r} is not a trace: {error}") from None


def _axis_to_json(axis: Axis) -> dict[str, Any]:
    given = fields_to_json(axis, exclude=("image", "xy"))
    if isinstance(axis, Grid):
        given["image"] = axis.image is not None
    return {"kind": axis.kind} | given


def _named_tensors(trace: Trace) -> dict[str, Tensor]:
    found = {f"series.{series.id}": series.values for series in trace.series}
    for axis in trace.axes:
        tensor = axis.xy if isinstance(axis, Points) else getattr(axis, "image", None)
        if tensor is not None:
            found[f"axes.{axis.id}"] = tensor
    for map in trace.maps:
        found[f"maps.{map.id}"] = map.all_weights()
    return _without_shared_memory(
        {name: tensor.cpu().contiguous() for name, tensor in found.items()}
    )


def _without_shared_memory(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, none in the memory of another: a file may not say twice what two share."""
    uses = Counter(tensor.untyped_storage().data_ptr() for tensor in tensors.values())
    return {
        name: tensor.clone() if uses[tensor.untyped_storage().data_ptr()] > 1 else tensor
        for name, tensor in tensors.items()
    }


def _read_file(path: Path) -> tuple[Any, dict[str, Tensor]]:
    if not path.is_file():
        raise ValueError("expected a file, got a folder or a device")
    with path.open("rb") as file:
        start = file.read(8)
    length, there = int.from_bytes(start, "little"), path.stat().st_size - 8
    if len(start) < 8 or length > there:
        raise ValueError("the file is cut off, or it is not safetensors")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"expected a header of at most {MAX_HEADER_BYTES} bytes, got {length}")
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            if len(names) > MAX_TENSORS:
                raise ValueError(f"expected at most {MAX_TENSORS} tensors, got {len(names)}")
            manifest = _parse_manifest((file.metadata() or {}).get(_METADATA_KEY))
            kinds = {name: _shape_and_dtype(file, name) for name in file.offset_keys()}
        with path.open("rb") as raw:
            raw.seek(8 + length)
            tensors = {name: _read_tensor(raw, *kind) for name, kind in kinds.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"the file is damaged ({escape_invisible(str(error)):.200})") from None
    return manifest, tensors


def _shape_and_dtype(file: Any, name: str) -> tuple[list[int], torch.dtype]:
    """The shape and the dtype of a tensor in a file that is open."""
    told = file.get_slice(name)
    dtype = _DTYPES.get(told.get_dtype())
    if dtype is None:
        raise ValueError(
            f"expected tensors of {', '.join(_DTYPES)}, got {name!r:.80} of {told.get_dtype()}"
        )
    shape = told.get_shape()
    # a size of 0 lets the others be anything in a file, but not in the strides of a tensor
    if math.prod(max(size, 1) for size in shape) >= INTEGER_LIMIT:
        raise ValueError(f"expected sizes that a tensor can have, got {name!r:.80} of larger ones")
    return shape, dtype


def _read_tensor(raw: BufferedReader, shape: list[int], dtype: torch.dtype) -> Tensor:
    """The tensor whose bytes come next; read and not mapped, so that it is in memory once."""
    tensor = torch.empty(shape, dtype=dtype)
    into: Any = tensor.view(-1).view(torch.uint8).numpy()
    if raw.readinto(into) < tensor.nbytes:
        raise ValueError("the file is cut off")
    return tensor


def _parse_manifest(text: str | None) -> Any:
    if text is None:
        raise ValueError(f"its metadata has no {_METADATA_KEY!r}")
    if max_json_memory(text) > MAX_MANIFEST_MEMORY_BYTES:
        raise ValueError(f"its manifest would take {_memory_text(text)}")
    try:
        return json.loads(text, object_pairs_hook=_unique_names, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"its manifest is not JSON ({escape_invisible(str(error)):.80})") from None


def _memory_text(text: str) -> str:
    took, most = max_json_memory(text) // 2**20, MAX_MANIFEST_MEMORY_BYTES // 2**20
    return f"about {took} MB of memory, the most is {most}"


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("its manifest says a name twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"its manifest has {name}, which is not finite")


def _build_trace(manifest: Any, tensors: dict[str, Tensor]) -> Trace:
    if isinstance(manifest, dict) and manifest.get("schema") != SCHEMA:
        schema = manifest.get("schema")
        newer = isinstance(schema, int) and schema > SCHEMA
        hint = ". A newer regard reads it." if newer else ""
        raise ValueError(f"expected schema {SCHEMA}, got {schema!r:.80}{hint}")
    _check_types("the manifest", manifest, _MANIFEST_SCHEMA | _PART_LISTS)
    parts, outputs = {name: manifest.pop(name) for name in _PART_LISTS}, manifest.pop("outputs")
    left = dict(tensors)
    axes = [_build_axis(given, left) for given in parts["axes"]]
    maps = [
        Map(
            **_check_types("a map", given, _MAP_SCHEMA),
            cells=_pop_tensor("maps", given["id"], left),
        )
        for given in map(_with_layer_names, parts["maps"])
    ]
    series = [
        Series(
            **_check_types("a series", given, _SERIES_SCHEMA),
            values=_pop_tensor("series", given["id"], left),
        )
        for given in parts["series"]
    ]
    if left:
        raise ValueError(f"tensor {min(left)!r:.80} belongs to nothing in the manifest")
    return Trace(axes, maps, series, outputs=outputs, header=Header(**manifest))


def _with_layer_names(map_json: Any) -> Any:
    """A map; in files of before, none said whose weights it has."""
    return {"names": []} | map_json if isinstance(map_json, dict) else map_json


def _build_axis(axis_json: Any, tensors: dict[str, Tensor]) -> Axis:
    kind = axis_json.get("kind") if isinstance(axis_json, dict) else None
    if not isinstance(kind, str) or kind not in _AXIS_SCHEMAS:
        raise ValueError(f"expected an axis of kind {', '.join(_AXIS_SCHEMAS)}, got {kind!r:.80}")
    make, types = _AXIS_SCHEMAS[kind]
    values = dict(_check_types(f"an axis of {kind}", axis_json, {"kind": str} | types))
    del values["kind"]
    if kind == "points":
        values["xy"] = _pop_tensor("axes", values["id"], tensors)
    if kind == "grid":
        values["image"] = _pop_tensor("axes", values["id"], tensors) if values["image"] else None
    return make(**values)


def _pop_tensor(part: str, id: str, tensors: dict[str, Tensor]) -> Tensor:
    name = f"{part}.{id}"
    if name not in tensors:
        raise ValueError(f"the manifest names tensor {name!r:.80}, which is not in the file")
    return tensors.pop(name)


def _check_types(where: str, data: Any, types: dict[str, Any]) -> dict[str, Any]:
    """The object, if it has these names and no other, each of its type."""
    if not isinstance(data, dict):
        raise ValueError(f"expected {where} as an object, got {check.describe_kind(data):.80}")
    strange = sorted(data.keys() ^ types.keys())
    if strange:
        what = "has no" if strange[0] in types else "has an unknown"
        raise ValueError(f"{where} {what} {strange[0]!r:.80}")
    for name, type in types.items():
        value = data[name]
        # to Python True is a number; to us it is not
        fits = isinstance(value, type) and (type is bool or not isinstance(value, bool))
        if not fits:
            raise ValueError(
                f"{where} has a {name!r} of the wrong type, {check.describe_kind(value):.80}"
            )
    return data
