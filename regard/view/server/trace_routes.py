"""Answers about traces: what there is, its arrays, and what can be taken away."""

import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from regard.view.figures.plots import Scale
from regard.view.server import exports, images, responses
from regard.view.server.app_state import AppState
from regard.view.server.bodies import read_body, write_body
from regard.view.server.errors import RefusedError, refuse_value_errors
from regard.view.server.exports import ExportOptions, export_trace
from regard.view.server.stored_trace import StoredTrace, with_image
from regard.view.traces import files, wire
from regard.view.traces.axes import Grid
from regard.view.traces.trace import Map, Trace

if TYPE_CHECKING:
    import starlette.requests
    import starlette.responses

_LOAD_CODE = 'from regard import view\n\ntrace = view.load("trace.safetensors")'


async def list_traces(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """All traces, the newest last."""
    there = [(id, kept.trace.header) for id, kept in state.traces.items()]
    named = ("title", "model", "family")
    return responses.json_response(
        [{"id": i, **{n: getattr(h, n) for n in named}} for i, h in there]
    )


async def upload_trace(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """Keep a trace that was sent as a file."""
    bounds = state.limits
    async with state.upload_slot():
        with TemporaryDirectory(prefix="regard-") as folder:
            path = Path(folder) / "trace.safetensors"
            with path.open("wb") as file:
                await write_body(request, file, bounds.trace, seconds=bounds.upload_seconds)
            with refuse_value_errors(400):
                id = await state.run_in_open_pool(partial(_store_from_file, state, path))
    return responses.json_response({"id": id}, 201)


async def get_manifest(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """All of a trace that is no array."""
    return responses.json_text_response(_get_stored(state, request).manifest_json)


async def get_thumbnails(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """Every head of a map, small."""
    kept = _get_stored(state, request)
    return responses.array_response(kept.thumbs[_get_map(kept.trace, request).id])


async def get_tile(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """One tile of a head."""
    map = _get_map(_get_stored(state, request).trace, request)
    where = {name: _query_int(request, name, 0) for name in ("level", "row", "column")}
    with refuse_value_errors(404):
        return responses.array_response(
            await state.run_in_read_pool(
                partial(wire.tile_bytes, map, *_layer_and_head(request), **where)
            )
        )


async def get_row(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The weights of one query, exactly."""
    map = _get_map(_get_stored(state, request).trace, request)
    with refuse_value_errors(404):
        return responses.array_response(
            wire.row_bytes(map, *_layer_and_head(request), _path_int(request, "query"))
        )


async def get_series(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The numbers of a series."""
    kept, id = _get_stored(state, request), request.path_params["series"]
    for one in kept.trace.series:
        if one.id == id:
            return responses.array_response(wire.float32_bytes(one.values))
    raise RefusedError(404, "this trace has no such series")


async def get_image(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The picture under a grid."""
    with refuse_value_errors(404):
        axis = _get_stored(state, request).trace.axis(request.path_params["axis"])
    if not isinstance(axis, Grid) or axis.image is None:
        raise RefusedError(404, "there is no picture under this axis")
    return responses.array_response(wire.image_bytes(axis.image))


async def set_image(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A new trace, with the picture that was sent under one of its grids."""
    kept, bounds, axis = _get_stored(state, request), state.limits, request.path_params["axis"]
    async with state.upload_slot():
        data = await read_body(request, bounds.image, seconds=bounds.upload_seconds)

        def store_with_image() -> str:
            picture = images.decode_image(data, max_pixels=bounds.pixels)
            return state.store_trace(with_image(kept.trace, axis, picture), kept.provenance)

        with refuse_value_errors(400):
            return responses.json_response(
                {"id": await state.run_in_open_pool(store_with_image)}, 201
            )


async def download_export(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A trace to take away."""
    kept, kind = _get_stored(state, request), request.path_params["kind"]
    if kind not in exports.KINDS:
        raise RefusedError(404, f"expected one of {', '.join(exports.KINDS)} to export")
    shown = _export_options(request)
    try:
        with refuse_value_errors(400):
            exports.check_export_size(kept.trace, kind, shown)
            work = partial(export_trace, kept.trace, kind, shown, kept.provenance)
            made = await state.render_queue.render(work, request.is_disconnected)
    except ModuleNotFoundError as error:
        raise RefusedError(501, str(error)) from None
    return responses.download_response(*made)


def _store_from_file(state: AppState, path: Path) -> str:
    """Keep the trace of an uploaded file, and give its id."""
    state.make_room(path.stat().st_size)
    return state.store_trace(_load_upload(path), {"python": _LOAD_CODE})


def _load_upload(path: Path) -> Trace:
    """A trace from a file that was sent; the file's own name is nobody's business."""
    try:
        return files.load(path)
    except ValueError as error:
        why = str(error).partition(" is not a trace: ")[2] or "it cannot be read"
        raise ValueError(f"expected the file of a trace: {why}") from None


def _get_stored(state: AppState, request: "starlette.requests.Request") -> StoredTrace:
    return state.get_trace(request.path_params["trace"])


def _get_map(trace: Trace, request: "starlette.requests.Request") -> Map:
    with refuse_value_errors(404):
        return trace.map(request.path_params["map"])


def _layer_and_head(request: "starlette.requests.Request") -> tuple[int, int]:
    return _path_int(request, "layer"), _path_int(request, "head")


def _path_int(request: "starlette.requests.Request", name: str) -> int:
    """A number in the path; what is no number of some digits is nowhere."""
    text = request.path_params[name]
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII):
        raise RefusedError(404, f"{name}: expected a whole number, got {text!r:.40}")
    return int(text)


def _export_options(request: "starlette.requests.Request") -> ExportOptions:
    """What the page shows, as it says behind the address."""
    choices = {"view": exports.VIEWS, "scale": get_args(Scale), "words": ("false", "true")}
    given: dict[str, Any] = {
        name: _query_choice(request, name, values) for name, values in choices.items()
    }
    given["words"] = given["words"] == "true"
    given["map"] = request.query_params.get("map") or None
    for name in ("step", "query"):
        text = request.query_params.get(name) or None
        given[name] = None if text is None else _query_int(request, name, 0)
    wholes = {"layer": 0, "head": 0, "width": ExportOptions.width}
    given |= {name: _query_int(request, name, usual) for name, usual in wholes.items()}
    if not 20 <= given["width"] <= 1000:
        raise RefusedError(400, f"width: expected 20 to 1000 mm, got {given['width']}")
    return ExportOptions(**given)


def _query_int(request: "starlette.requests.Request", name: str, default: int) -> int:
    text = request.query_params.get(name, "") or str(default)
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII):
        raise RefusedError(400, f"{name}: expected a whole number, got {text!r:.40}")
    return int(text)


def _query_choice(request: "starlette.requests.Request", name: str, values: tuple[str, ...]) -> str:
    text = request.query_params.get(name, "") or values[0]
    if text not in values:
        raise RefusedError(400, f"{name}: expected one of {', '.join(values)}, got {text!r:.40}")
    return text
