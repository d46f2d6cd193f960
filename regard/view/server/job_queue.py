"""One worker does everything that computes: runs in their turn, and lessons between them.

A backend and the random state belong to the whole process, so no two may go on at once.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from regard.view.inputs import ProgressCallback

# What a run does: it tells how far it is, and gives the id of a trace.
JobWork = Callable[[ProgressCallback], str]
_FINAL_EVENTS = ("done", "failed", "cancelled")


class QueueFullError(Exception):
    """Too many wait already."""


class StoppedError(BaseException):
    """Raised inside a run to end it; no `except Exception` of a model holds it up."""


@dataclass(eq=False)
class Job:
    """Something that waits for its turn, goes on or has ended; `now` is what was told last."""

    id: str
    work: JobWork
    last_event: dict[str, Any] = field(default_factory=dict)
    cancel_requested: bool = False
    _listeners: list[Callable[[], object]] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether no more will be told."""
        return self.last_event["kind"] in _FINAL_EVENTS

    def to_json(self) -> dict[str, Any]:
        """How it stands."""
        kind = self.last_event["kind"]
        state = "running" if kind == "progress" else kind
        told = {name: self.last_event.get(name) for name in ("trace", "error")}
        return {"id": self.id, "state": state, **told}

    def subscribe(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` whenever something is told; what is given back ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, **event: Any) -> None:
        """Tell everybody who watches."""
        self.last_event = event
        for wake in list(self._listeners):
            with suppress(RuntimeError):  # whoever watched has gone, and its loop with it
                wake()


@dataclass(eq=False)
class JobQueue:
    """Those that wait, the one that goes on, and some that have ended.

    Args:
        max_waiting: how many runs may wait.
        max_calls: how many lessons may wait.
        job_seconds: how long a run may take.
        max_finished: how many runs that have ended are still known.
        format_error: the sentence for an error inside a run.
    """

    max_waiting: int = 4
    max_calls: int = 128
    job_seconds: float = 300.0
    max_finished: int = 64
    format_error: Callable[[Exception], str] = str

    def __post_init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._current: Job | None = None
        self._closed = False
        self._condition = threading.Condition()
        self._thread = threading.Thread(target=self._work_loop, name="regard-worker", daemon=True)
        self._thread.start()

    def add(self, work: JobWork) -> Job:
        """A run that waits for its turn.

        Raises:
            FullError: too many wait.
        """
        with self._condition:
            if len(self._queue) >= self.max_waiting or self._closed:
                raise QueueFullError(
                    f"{len(self._queue)} runs wait already; ask again when one is done"
                )
            run = Job(secrets.token_hex(16), work)
            self._jobs[run.id] = run
            self._queue.append(run)
            self._publish_positions()
            self._condition.notify_all()
        return run

    def submit_call(self, work: Callable[[], Any]) -> Future[Any]:
        """What a short piece of work will give; it goes before all runs that wait.

        Raises:
            FullError: too many wait.
        """
        with self._condition:
            if len(self._calls) >= self.max_calls or self._closed:
                raise QueueFullError(f"{len(self._calls)} lessons wait already; ask again")
            future: Future[Any] = Future()
            self._calls.append((future, work))
            self._condition.notify_all()
        return future

    def find_job(self, id: str) -> Job | None:
        """The run of this id, or None."""
        with self._condition:
            return self._jobs.get(id)

    def cancel(self, job: Job) -> None:
        """End a run: now if it waits, else at its next step."""
        with self._condition:
            job.cancel_requested = True
            if job in self._queue:
                self._queue.remove(job)
                self._finish(job, kind="cancelled")
                self._publish_positions()

    def counts(self) -> tuple[int, int]:
        """How many runs go on, and how many wait."""
        with self._condition:
            return int(self._current is not None), len(self._queue)

    def close(self, *, timeout: float = 5.0) -> None:
        """End all, and wait so many seconds for the one that goes on."""
        with self._condition:
            self._closed = True
            for run in [*self._queue, *([self._current] if self._current else [])]:
                self.cancel(run)
            for future, _ in self._calls:
                future.cancel()
            self._calls.clear()
            self._condition.notify_all()
        self._thread.join(timeout)

    def _work_loop(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or self._calls or self._queue)
                if self._closed:
                    return
                called = self._calls.popleft() if self._calls else None
                run = None if called else self._queue.popleft()
                self._current = run
                self._publish_positions()
            if called:
                _complete_future(*called)
            elif run:
                self._run_job(run)

    def _run_job(self, job: Job) -> None:
        deadline = time.monotonic() + self.job_seconds

        def on_progress(done: int, total: int | None, text: str | None) -> None:
            if job.cancel_requested or time.monotonic() > deadline:
                raise StoppedError
            job.publish(kind="progress", done=done, total=total, text=text)

        try:
            on_progress(0, None, None)
            told = {"kind": "done", "trace": job.work(on_progress)}
        except StoppedError:
            late = f"it took more than {self.job_seconds:g} s and was stopped"
            told = (
                {"kind": "cancelled"} if job.cancel_requested else {"kind": "failed", "error": late}
            )
        except Exception as error:
            told = {"kind": "failed", "error": self.format_error(error)}
        with self._condition:
            self._current = None
            self._finish(job, **told)

    def _finish(self, job: Job, **event: Any) -> None:
        job.work = _no_work  # what it would need is let go
        job.publish(**event)
        ended = [id for id, one in self._jobs.items() if one.is_finished]
        for id in ended[: max(0, len(ended) - self.max_finished)]:
            del self._jobs[id]

    def _publish_positions(self) -> None:
        """Tell all that wait how many go before them."""
        before = int(self._current is not None)
        for ahead, run in enumerate(self._queue, before):
            told = {"kind": "waiting", "ahead": ahead}
            if run.last_event != told:
                run.publish(**told)


def _complete_future(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)


def _no_work(on_progress: ProgressCallback) -> str:
    raise StoppedError
