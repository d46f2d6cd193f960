"""The table of all addresses, and the application that answers them behind its guard."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from regard.view.serving import replies, running, tracing
from regard.view.serving.access import LINK_SECONDS, Access
from regard.view.serving.bodies import json_body
from regard.view.serving.bound import Bound
from regard.view.serving.desk import Desk
from regard.view.serving.guard import BROKEN, ENTRY_PATH, Guard
from regard.view.serving.refusing import RefusedError

if TYPE_CHECKING:
    import starlette.requests
    import starlette.responses

_HEAD = "{map}/{layer}/{head}"
_IMAGE = "images/{axis}"
# Below /api/: the method, the address, who answers. docs/page.md says what.
TABLE: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("POST", "runs", running.begin),
    ("GET", "runs/{run}", running.state),
    ("DELETE", "runs/{run}", running.cancel),
    ("GET", "runs/{run}/events", running.events),
    ("GET", "lessons", running.lessons),
    ("POST", "lessons/{lesson}", running.learn),
    ("GET", "traces", tracing.traces),
    ("POST", "traces", tracing.upload),
    ("GET", "traces/{trace}", tracing.manifest),
    ("GET", "traces/{trace}/thumbs/{map}", tracing.thumbs),
    ("GET", f"traces/{{trace}}/cells/{_HEAD}", tracing.cells),
    ("GET", f"traces/{{trace}}/rows/{_HEAD}/{{query}}", tracing.row),
    ("GET", "traces/{trace}/series/{series}", tracing.series),
    ("GET", f"traces/{{trace}}/{_IMAGE}", tracing.image),
    ("POST", f"traces/{{trace}}/{_IMAGE}", tracing.lay_under),
    ("GET", "traces/{trace}/export/{kind}", tracing.export),
)


# A token is 43 letters; whoever has none yet may send no more than this, nor take longer.
_ENTRY_BYTES = 1024
_ENTRY_SECONDS = 5.0


def application(desk: Desk, bound: Bound, access: Access) -> Guard:
    """The whole server as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    table = (("GET", "about", about), ("GET", "models", models), *TABLE)
    routes = [Route(at, partial(file, desk), methods=["GET"]) for at in desk.files]
    routes += [Route(ENTRY_PATH, partial(enter, access), methods=["POST"])]
    routes += [Route(f"/api/{at}", partial(run, desk), methods=[by]) for by, at, run in table]
    app = Starlette(
        routes=routes,
        exception_handlers={RefusedError: _refused, HTTPException: _unknown, Exception: _broken},
    )
    # a redirect would be made of the address that was sent
    app.router.redirect_slashes = False
    return Guard(app, bound, access, report=desk.report, at_once=desk.limits.at_once)


async def enter(
    access: Access, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The secret of a session, for the token of a link."""
    given = await json_body(request, _ENTRY_BYTES, seconds=_ENTRY_SECONDS)
    token = given.get("token")
    secret = access.exchange(token) if isinstance(token, str) else None
    if secret is None:
        raise RefusedError(
            401,
            "this link was used already, or it is older than "
            f"{LINK_SECONDS / 60:.0f} minutes; open a new link of regard serve",
        )
    return replies.told({"session": secret})


async def file(desk: Desk, request: "starlette.requests.Request") -> "starlette.responses.Response":
    """A file of the page, or word that it has not changed."""
    from starlette.responses import Response

    there = desk.files[request.url.path]
    headers = {"etag": there.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == there.tag:
        return Response(status_code=304, headers=headers)
    return Response(there.data, 200, headers, there.media)


async def about(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """What runs here, and how much of it."""
    import torch

    running, waiting = desk.line.counts()
    told = {
        "version": sys.modules["regard"].__version__,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
        "limits": desk.limits.told(),
        "memory": {
            "models": desk.models.bytes,
            "traces": desk.traces.bytes,
            "budget": desk.budget,
        },
        "queue": {"running": running, "waiting": waiting},
        "unreadable": desk.unreadable,
    }
    return replies.told(told)


async def models(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The models that can be asked."""
    return replies.told([offer.described() for offer in desk.offers.values()])


async def _refused(
    request: "starlette.requests.Request", error: Any
) -> "starlette.responses.Response":
    return replies.refused(error.status, error.sentence)


async def _broken(
    request: "starlette.requests.Request", error: Any
) -> "starlette.responses.Response":
    return replies.refused(500, BROKEN)


async def _unknown(
    request: "starlette.requests.Request", error: Any
) -> "starlette.responses.Response":
    """What the table does not have, in our form."""
    words = {404: "there is nothing here", 405: "this cannot be done here"}
    sentence = words.get(error.status_code, "this cannot be answered")
    answer = replies.refused(error.status_code, sentence)
    answer.headers.update(error.headers or {})
    return answer
