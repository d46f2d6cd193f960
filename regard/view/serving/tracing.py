"""Answers about traces: what there is, its arrays, and what can be taken away."""

import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from regard.view import files
from regard.view.axes import Grid
from regard.view.plots import Scale
from regard.view.serving import exporting, images, replies, wire
from regard.view.serving.bodies import body, spooled
from regard.view.serving.desk import Desk
from regard.view.serving.exporting import Shown, exported
from regard.view.serving.keeping import Kept, with_image
from regard.view.serving.refusing import RefusedError, asked
from regard.view.trace import Map, Trace

if TYPE_CHECKING:
    import starlette.requests
    import starlette.responses

_OPENED = 'from regard import view\n\ntrace = view.load("trace.safetensors")'


async def traces(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """All traces, the newest last."""
    there = [(id, kept.trace.header) for id, kept in desk.traces.all()]
    named = ("title", "model", "family")
    return replies.told([{"id": i, **{n: getattr(h, n) for n in named}} for i, h in there])


async def upload(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """Keep a trace that was sent as a file."""
    bounds = desk.limits
    async with desk.uploading():
        with TemporaryDirectory(prefix="regard-") as folder:
            path = Path(folder) / "trace.safetensors"
            with path.open("wb") as file:
                await spooled(request, file, bounds.trace, seconds=bounds.upload)
            with asked(400):
                id = await desk.open(partial(_keep_from_file, desk, path))
    return replies.told({"id": id}, 201)


async def manifest(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """All of a trace that is no array."""
    return replies.told_as(_kept(desk, request).manifest)


async def thumbs(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """Every head of a map, small."""
    kept = _kept(desk, request)
    return replies.array(kept.thumbs[_map(kept.trace, request).id])


async def cells(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """One tile of a head."""
    map = _map(_kept(desk, request).trace, request)
    where = {name: _whole(request, name, 0) for name in ("level", "row", "column")}
    with asked(404):
        return replies.array(await desk.read(partial(wire.tile, map, *_head(request), **where)))


async def row(desk: Desk, request: "starlette.requests.Request") -> "starlette.responses.Response":
    """The weights of one query, exactly."""
    map = _map(_kept(desk, request).trace, request)
    with asked(404):
        return replies.array(wire.row(map, *_head(request), _index(request, "query")))


async def series(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The numbers of a series."""
    kept, id = _kept(desk, request), request.path_params["series"]
    for one in kept.trace.series:
        if one.id == id:
            return replies.array(wire.in_floats(one.values))
    raise RefusedError(404, "this trace has no such series")


async def image(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The picture under a grid."""
    with asked(404):
        axis = _kept(desk, request).trace.axis(request.path_params["axis"])
    if not isinstance(axis, Grid) or axis.image is None:
        raise RefusedError(404, "there is no picture under this axis")
    return replies.array(wire.image(axis.image))


async def lay_under(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A new trace, with the picture that was sent under one of its grids."""
    kept, bounds, axis = _kept(desk, request), desk.limits, request.path_params["axis"]
    async with desk.uploading():
        data = await body(request, bounds.image, seconds=bounds.upload)

        def laid() -> str:
            picture = images.picture(data, pixels=bounds.pixels)
            return desk.keep(with_image(kept.trace, axis, picture), kept.told)

        with asked(400):
            return replies.told({"id": await desk.open(laid)}, 201)


async def export(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A trace to take away."""
    kept, kind = _kept(desk, request), request.path_params["kind"]
    if kind not in exporting.KINDS:
        raise RefusedError(404, f"expected one of {', '.join(exporting.KINDS)} to export")
    shown = _shown(request)
    try:
        with asked(400):
            exporting.refuse_large(kept.trace, kind, shown)
            work = partial(exported, kept.trace, kind, shown, kept.told)
            made = await desk.drawer.draw(work, request.is_disconnected)
    except ModuleNotFoundError as error:
        raise RefusedError(501, str(error)) from None
    return replies.download(*made)


def _keep_from_file(desk: Desk, path: Path) -> str:
    """Keep the trace of an uploaded file, and give its id."""
    desk.make_room(path.stat().st_size)
    return desk.keep(_opened(path), {"python": _OPENED})


def _opened(path: Path) -> Trace:
    """A trace from a file that was sent; the file's own name is nobody's business."""
    try:
        return files.load(path)
    except ValueError as error:
        why = str(error).partition(" is not a trace: ")[2] or "it cannot be read"
        raise ValueError(f"expected the file of a trace: {why}") from None


def _kept(desk: Desk, request: "starlette.requests.Request") -> Kept:
    return desk.found(request.path_params["trace"])


def _map(trace: Trace, request: "starlette.requests.Request") -> Map:
    with asked(404):
        return trace.map(request.path_params["map"])


def _head(request: "starlette.requests.Request") -> tuple[int, int]:
    return _index(request, "layer"), _index(request, "head")


def _index(request: "starlette.requests.Request", name: str) -> int:
    """A number in the path; what is no number of some digits is nowhere."""
    text = request.path_params[name]
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII):
        raise RefusedError(404, f"{name}: expected a whole number, got {text!r:.40}")
    return int(text)


def _shown(request: "starlette.requests.Request") -> Shown:
    """What the page shows, as it says behind the address."""
    choices = {"view": exporting.VIEWS, "scale": get_args(Scale), "words": ("false", "true")}
    given: dict[str, Any] = {
        name: _one_of(request, name, values) for name, values in choices.items()
    }
    given["words"] = given["words"] == "true"
    given["map"] = request.query_params.get("map") or None
    for name in ("step", "query"):
        text = request.query_params.get(name) or None
        given[name] = None if text is None else _whole(request, name, 0)
    wholes = {"layer": 0, "head": 0, "width": Shown.width}
    given |= {name: _whole(request, name, usual) for name, usual in wholes.items()}
    if not 20 <= given["width"] <= 1000:
        raise RefusedError(400, f"width: expected 20 to 1000 mm, got {given['width']}")
    return Shown(**given)


def _whole(request: "starlette.requests.Request", name: str, usual: int) -> int:
    text = request.query_params.get(name, "") or str(usual)
    if not re.fullmatch(r"[0-9]{1,7}", text, re.ASCII):
        raise RefusedError(400, f"{name}: expected a whole number, got {text!r:.40}")
    return int(text)


def _one_of(request: "starlette.requests.Request", name: str, values: tuple[str, ...]) -> str:
    text = request.query_params.get(name, "") or values[0]
    if text not in values:
        raise RefusedError(400, f"{name}: expected one of {', '.join(values)}, got {text!r:.40}")
    return text
