"""Answers about runs: ask a model, watch it, stop it; and the lessons."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from regard.view.changes import changes
from regard.view.inputs import Tell
from regard.view.serving import replies
from regard.view.serving.bodies import json_body
from regard.view.serving.desk import Desk
from regard.view.serving.offers import Offer
from regard.view.serving.refusing import RefusedError, asked
from regard.view.serving.runs import FullError, Run

if TYPE_CHECKING:
    import starlette.requests
    import starlette.responses

# How often a line that is silent says that it is still there.
_BEAT = 15.0
_ASKED = {"model": str, "input": str, "options": dict, "edits": list}


async def begin(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A run that waits for its turn."""
    given = await json_body(request, desk.limits.text, seconds=desk.limits.upload)
    offer = _checked(desk, given)
    try:
        run = desk.line.add(lambda tell: _ran(desk, offer, given, tell))
    except FullError as error:
        raise RefusedError(503, str(error)) from None
    return replies.told({"id": run.id}, 202)


async def state(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """How a run stands."""
    return replies.told(_run(desk, request).described())


async def cancel(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """End a run at its next step."""
    desk.line.cancel(_run(desk, request))
    return replies.nothing()


async def events(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """What a run tells, as it tells it; who comes late hears first what was told last."""
    from starlette.responses import StreamingResponse

    headers = {"cache-control": "no-store"}
    lines = _lines(_run(desk, request))
    return StreamingResponse(lines, 200, headers, "text/event-stream")


async def lessons(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The lessons that there are."""
    return replies.told([lesson.told() for lesson in desk.lessons.values()])


async def learn(
    desk: Desk, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """What a lesson gives for some numbers."""
    lesson = desk.lessons.get(request.path_params["lesson"])
    if lesson is None:
        raise RefusedError(404, f"no such lesson; there is {', '.join(desk.lessons)}")
    numbers = await json_body(request, desk.limits.text, seconds=desk.limits.upload)
    try:
        future = desk.line.call(lambda: lesson.run(numbers))
        async with asyncio.timeout(desk.limits.seconds):
            with asked(400):
                return replies.told(await asyncio.wrap_future(future))
    except (FullError, TimeoutError) as error:
        raise RefusedError(503, str(error) or "a run takes very long; ask again") from None


def _checked(desk: Desk, given: dict[str, Any]) -> Offer:
    """The offer that is asked for, if everything else fits it."""
    for name, kind in _ASKED.items():
        given.setdefault(name, kind())
    strange = sorted(given.keys() - _ASKED.keys())
    if strange:
        raise RefusedError(400, f"run: expected {', '.join(_ASKED)}, got {strange[0]!r:.80}")
    for name, kind in _ASKED.items():
        if not isinstance(given[name], kind):
            raise RefusedError(400, f"run: expected {name} as a {kind.__name__}")
    if not all(isinstance(edit, dict) for edit in given["edits"]):
        raise RefusedError(400, "run: expected edits as a list of objects")
    offer = desk.offers.get(given["model"])
    if offer is None:
        raise RefusedError(404, "run: no such model; /api/models lists them")
    with asked(400):
        given["options"] = offer.input.chosen(given["options"])
        changes(given["edits"])
    words = len(given["input"].split())
    if offer.input.kind == "text" and words > offer.input.most:  # a word has a token at least
        raise RefusedError(400, f"run: expected at most {offer.input.most} tokens, got {words}")
    return offer


def _ran(desk: Desk, offer: Offer, given: dict[str, Any], tell: Tell) -> str:
    """Run a model, and keep what was seen; the worker does this."""
    model = desk.model(offer)
    tell(0, None, None)
    began = time.perf_counter()
    what = (given["input"], given["options"])
    trace = model.trace(*what, tell, given["edits"])
    seconds = time.perf_counter() - began
    python = offer.python(*what, given["edits"])
    told = {"asked": given, "python": python, "seconds": seconds}
    return desk.keep(trace, told, lambda: tell(1, 1, None))


def _run(desk: Desk, request: "starlette.requests.Request") -> Run:
    run = desk.line.find(request.path_params["run"])
    if run is None:
        raise RefusedError(404, "no run of this id is known here")
    return run


async def _lines(run: Run) -> AsyncIterator[bytes]:
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    unwatch = run.watch(lambda: loop.call_soon_threadsafe(news.set))
    told: dict[str, Any] | None = None
    try:
        while True:
            if run.now is not told:
                told = run.now
                yield b"data: " + json.dumps(told).encode() + b"\n\n"
            if told is not None and told is run.now and run.ended:
                return
            try:
                await asyncio.wait_for(news.wait(), _BEAT)
            except TimeoutError:
                yield b": still here\n\n"
            news.clear()
    finally:
        unwatch()
