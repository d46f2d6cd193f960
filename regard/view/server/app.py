"""The table of all addresses, and the application that answers them behind its guard."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from regard.view.server import responses, run_routes, trace_routes
from regard.view.server.access import LINK_SECONDS, Access
from regard.view.server.address import ServerAddress
from regard.view.server.app_state import AppState
from regard.view.server.bodies import read_json_body
from regard.view.server.errors import RefusedError
from regard.view.server.guard import ENTRY_PATH, INTERNAL_ERROR, Guard

if TYPE_CHECKING:
    import starlette.requests
    import starlette.responses

_HEAD_PATH = "{map}/{layer}/{head}"
_IMAGE_PATH = "images/{axis}"
# Below /api/: the method, the address, who answers. docs/page.md says what.
API_ROUTES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("POST", "runs", run_routes.start_run),
    ("GET", "runs/{run}", run_routes.get_run_state),
    ("DELETE", "runs/{run}", run_routes.cancel_run),
    ("GET", "runs/{run}/events", run_routes.stream_run_events),
    ("GET", "lessons", run_routes.list_lessons),
    ("POST", "lessons/{lesson}", run_routes.answer_lesson),
    ("GET", "traces", trace_routes.list_traces),
    ("POST", "traces", trace_routes.upload_trace),
    ("GET", "traces/{trace}", trace_routes.get_manifest),
    ("GET", "traces/{trace}/thumbs/{map}", trace_routes.get_thumbnails),
    ("GET", f"traces/{{trace}}/cells/{_HEAD_PATH}", trace_routes.get_tile),
    ("GET", f"traces/{{trace}}/rows/{_HEAD_PATH}/{{query}}", trace_routes.get_row),
    ("GET", "traces/{trace}/series/{series}", trace_routes.get_series),
    ("GET", f"traces/{{trace}}/{_IMAGE_PATH}", trace_routes.get_image),
    ("POST", f"traces/{{trace}}/{_IMAGE_PATH}", trace_routes.set_image),
    ("GET", "traces/{trace}/export/{kind}", trace_routes.download_export),
)


# A token is 43 letters; whoever has none yet may send no more than this, nor take longer.
_ENTRY_BYTES = 1024
_ENTRY_SECONDS = 5.0


def build_app(state: AppState, address: ServerAddress, access: Access) -> Guard:
    """The whole server as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    table = (("GET", "about", about), ("GET", "models", list_models), *API_ROUTES)
    routes = [Route(at, partial(page_file, state), methods=["GET"]) for at in state.page_files]
    routes += [Route(ENTRY_PATH, partial(start_session, access), methods=["POST"])]
    routes += [Route(f"/api/{at}", partial(run, state), methods=[by]) for by, at, run in table]
    app = Starlette(
        routes=routes,
        exception_handlers={
            RefusedError: _refused_response,
            HTTPException: _http_error_response,
            Exception: _server_error_response,
        },
    )
    # a redirect would be made of the address that was sent
    app.router.redirect_slashes = False
    return Guard(app, address, access, report=state.report, max_requests=state.limits.max_requests)


async def start_session(
    access: Access, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The secret of a session, for the token of a link."""
    given = await read_json_body(request, _ENTRY_BYTES, seconds=_ENTRY_SECONDS)
    token = given.get("token")
    secret = access.exchange(token) if isinstance(token, str) else None
    if secret is None:
        raise RefusedError(
            401,
            "this link was used already, or it is older than "
            f"{LINK_SECONDS / 60:.0f} minutes; open a new link of regard serve",
        )
    return responses.json_response({"session": secret})


async def page_file(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A file of the page, or word that it has not changed."""
    from starlette.responses import Response

    there = state.page_files[request.url.path]
    headers = {"etag": there.etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == there.etag:
        return Response(status_code=304, headers=headers)
    return Response(there.data, 200, headers, there.media_type)


async def about(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """What runs here, and how much of it."""
    import torch

    run_routes, waiting = state.jobs.counts()
    told = {
        "version": sys.modules["regard"].__version__,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "limits": state.limits.to_json(),
        "memory": {
            "models": state.loaded_models.bytes,
            "traces": state.traces.bytes,
            "budget": state.budget,
        },
        "queue": {"running": run_routes, "waiting": waiting},
        "unreadable": state.unreadable_runs,
    }
    return responses.json_response(told)


async def list_models(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The models that can be asked."""
    return responses.json_response([offer.to_json() for offer in state.available_models.values()])


async def _refused_response(
    request: "starlette.requests.Request", error: Any
) -> "starlette.responses.Response":
    return responses.error_response(error.status, error.sentence)


async def _server_error_response(
    request: "starlette.requests.Request", error: Any
) -> "starlette.responses.Response":
    return responses.error_response(500, INTERNAL_ERROR)


async def _http_error_response(
    request: "starlette.requests.Request", error: Any
) -> "starlette.responses.Response":
    """What the table does not have, in our form."""
    words = {404: "there is nothing here", 405: "this cannot be done here"}
    sentence = words.get(error.status_code, "this cannot be answered")
    answer = responses.error_response(error.status_code, sentence)
    answer.headers.update(error.headers or {})
    return answer
