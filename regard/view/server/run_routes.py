"""Answers about runs: ask a model, watch it, stop it; and the lessons."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from regard.view.inputs import ProgressCallback
from regard.view.server import responses
from regard.view.server.app_state import AppState
from regard.view.server.available_models import AvailableModel
from regard.view.server.bodies import read_json_body
from regard.view.server.errors import RefusedError, refuse_value_errors
from regard.view.server.job_queue import Job, QueueFullError
from regard.view.server.page_edits import parse_edits

if TYPE_CHECKING:
    import starlette.requests
    import starlette.responses

# How often a line that is silent says that it is still there.
_HEARTBEAT_SECONDS = 15.0
_RUN_FIELDS = {"model": str, "input": str, "options": dict, "edits": list}


async def start_run(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """A run that waits for its turn."""
    given = await read_json_body(request, state.limits.text, seconds=state.limits.upload_seconds)
    offer = _check_run_request(state, given)
    try:
        run = state.jobs.add(lambda tell: _run_model(state, offer, given, tell))
    except QueueFullError as error:
        raise RefusedError(503, str(error)) from None
    return responses.json_response({"id": run.id}, 202)


async def get_run_state(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """How a run stands."""
    return responses.json_response(_get_job(state, request).to_json())


async def cancel_run(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """End a run at its next step."""
    state.jobs.cancel(_get_job(state, request))
    return responses.empty_response()


async def stream_run_events(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """What a run tells, as it tells it; who comes late hears first what was told last."""
    from starlette.responses import StreamingResponse

    headers = {"cache-control": "no-store"}
    lines = _event_lines(_get_job(state, request))
    return StreamingResponse(lines, 200, headers, "text/event-stream")


async def list_lessons(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """The lessons that there are."""
    return responses.json_response([lesson.to_json() for lesson in state.lessons.values()])


async def answer_lesson(
    state: AppState, request: "starlette.requests.Request"
) -> "starlette.responses.Response":
    """What a lesson gives for some numbers."""
    lesson = state.lessons.get(request.path_params["lesson"])
    if lesson is None:
        raise RefusedError(404, f"no such lesson; there is {', '.join(state.lessons)}")
    numbers = await read_json_body(request, state.limits.text, seconds=state.limits.upload_seconds)
    try:
        future = state.jobs.submit_call(lambda: lesson.answer(numbers))
        async with asyncio.timeout(state.limits.run_seconds):
            with refuse_value_errors(400):
                return responses.json_response(await asyncio.wrap_future(future))
    except (QueueFullError, TimeoutError) as error:
        raise RefusedError(503, str(error) or "a run takes very long; ask again") from None


def _check_run_request(state: AppState, request: dict[str, Any]) -> AvailableModel:
    """The offer that is asked for, if everything else fits it."""
    for name, kind in _RUN_FIELDS.items():
        request.setdefault(name, kind())
    strange = sorted(request.keys() - _RUN_FIELDS.keys())
    if strange:
        raise RefusedError(400, f"run: expected {', '.join(_RUN_FIELDS)}, got {strange[0]!r:.80}")
    for name, kind in _RUN_FIELDS.items():
        if not isinstance(request[name], kind):
            raise RefusedError(400, f"run: expected {name} as a {kind.__name__}")
    if not all(isinstance(edit, dict) for edit in request["edits"]):
        raise RefusedError(400, "run: expected edits as a list of objects")
    offer = state.available_models.get(request["model"])
    if offer is None:
        raise RefusedError(404, "run: no such model; /api/models lists them")
    with refuse_value_errors(400):
        request["options"] = offer.input.check_options(request["options"])
        parse_edits(request["edits"])
    words = len(request["input"].split())
    if offer.input.kind == "text" and words > offer.input.most:  # a word has a token at least
        raise RefusedError(400, f"run: expected at most {offer.input.most} tokens, got {words}")
    return offer


def _run_model(
    state: AppState,
    available: AvailableModel,
    request: dict[str, Any],
    on_progress: ProgressCallback,
) -> str:
    """Run a model, and keep what was seen; the worker does this."""
    model = state.load_model(available)
    on_progress(0, None, None)
    began = time.perf_counter()
    what = (request["input"], request["options"])
    trace = model.trace(*what, on_progress, request["edits"])
    seconds = time.perf_counter() - began
    python = available.python(*what, request["edits"])
    told = {"asked": request, "python": python, "seconds": seconds}
    return state.store_trace(trace, told, lambda: on_progress(1, 1, None))


def _get_job(state: AppState, request: "starlette.requests.Request") -> Job:
    run = state.jobs.find_job(request.path_params["run"])
    if run is None:
        raise RefusedError(404, "no run of this id is known here")
    return run


async def _event_lines(job: Job) -> AsyncIterator[bytes]:
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    unwatch = job.subscribe(lambda: loop.call_soon_threadsafe(news.set))
    told: dict[str, Any] | None = None
    try:
        while True:
            if job.last_event is not told:
                told = job.last_event
                yield b"data: " + json.dumps(told).encode() + b"\n\n"
            if told is not None and told is job.last_event and job.is_finished:
                return
            try:
                await asyncio.wait_for(news.wait(), _HEARTBEAT_SECONDS)
            except TimeoutError:
                yield b": still here\n\n"
            news.clear()
    finally:
        unwatch()
