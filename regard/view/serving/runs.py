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

from regard.view.inputs import Tell

# What a run does: it tells how far it is, and gives the id of a trace.
Work = Callable[[Tell], str]
_ENDS = ("done", "failed", "cancelled")


class FullError(Exception):
    """Too many wait already."""


class StoppedError(BaseException):
    """Raised inside a run to end it; no `except Exception` of a model holds it up."""


@dataclass(eq=False)
class Run:
    """Something that waits for its turn, goes on or has ended; `now` is what was told last."""

    id: str
    work: Work
    now: dict[str, Any] = field(default_factory=dict)
    stopping: bool = False
    _wakes: list[Callable[[], object]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether no more will be told."""
        return self.now["kind"] in _ENDS

    def described(self) -> dict[str, Any]:
        """How it stands."""
        kind = self.now["kind"]
        state = "running" if kind == "progress" else kind
        told = {name: self.now.get(name) for name in ("trace", "error")}
        return {"id": self.id, "state": state, **told}

    def watch(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` whenever something is told; what is given back ends that."""
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)

    def say(self, **told: Any) -> None:
        """Tell everybody who watches."""
        self.now = told
        for wake in list(self._wakes):
            with suppress(RuntimeError):  # whoever watched has gone, and its loop with it
                wake()


@dataclass(eq=False)
class Line:
    """Those that wait, the one that goes on, and some that have ended.

    Args:
        waiting: how many runs may wait.
        lessons: how many lessons may wait.
        seconds: how long a run may take.
        remembered: how many runs that have ended are still known.
        failed: the sentence for an error inside a run.
    """

    waiting: int = 4
    lessons: int = 128
    seconds: float = 300.0
    remembered: int = 64
    failed: Callable[[Exception], str] = str

    def __post_init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._queue: deque[Run] = deque()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running: Run | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._go, name="regard-worker", daemon=True)
        self._thread.start()

    def add(self, work: Work) -> Run:
        """A run that waits for its turn.

        Raises:
            FullError: too many wait.
        """
        with self._changed:
            if len(self._queue) >= self.waiting or self._closed:
                raise FullError(f"{len(self._queue)} runs wait already; ask again when one is done")
            run = Run(secrets.token_hex(16), work)
            self._runs[run.id] = run
            self._queue.append(run)
            self._count()
            self._changed.notify_all()
        return run

    def call(self, work: Callable[[], Any]) -> Future[Any]:
        """What a short piece of work will give; it goes before all runs that wait.

        Raises:
            FullError: too many wait.
        """
        with self._changed:
            if len(self._calls) >= self.lessons or self._closed:
                raise FullError(f"{len(self._calls)} lessons wait already; ask again")
            future: Future[Any] = Future()
            self._calls.append((future, work))
            self._changed.notify_all()
        return future

    def find(self, id: str) -> Run | None:
        """The run of this id, or None."""
        with self._changed:
            return self._runs.get(id)

    def cancel(self, run: Run) -> None:
        """End a run: now if it waits, else at its next step."""
        with self._changed:
            run.stopping = True
            if run in self._queue:
                self._queue.remove(run)
                self._end(run, kind="cancelled")
                self._count()

    def counts(self) -> tuple[int, int]:
        """How many runs go on, and how many wait."""
        with self._changed:
            return int(self._running is not None), len(self._queue)

    def close(self, *, patience: float = 5.0) -> None:
        """End all, and wait so many seconds for the one that goes on."""
        with self._changed:
            self._closed = True
            for run in [*self._queue, *([self._running] if self._running else [])]:
                self.cancel(run)
            for future, _ in self._calls:
                future.cancel()
            self._calls.clear()
            self._changed.notify_all()
        self._thread.join(patience)

    def _go(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._calls or self._queue)
                if self._closed:
                    return
                called = self._calls.popleft() if self._calls else None
                run = None if called else self._queue.popleft()
                self._running = run
                self._count()
            if called:
                _fulfil(*called)
            elif run:
                self._work(run)

    def _work(self, run: Run) -> None:
        deadline = time.monotonic() + self.seconds

        def tell(done: int, total: int | None, text: str | None) -> None:
            if run.stopping or time.monotonic() > deadline:
                raise StoppedError
            run.say(kind="progress", done=done, total=total, text=text)

        try:
            tell(0, None, None)
            told = {"kind": "done", "trace": run.work(tell)}
        except StoppedError:
            late = f"it took more than {self.seconds:g} s and was stopped"
            told = {"kind": "cancelled"} if run.stopping else {"kind": "failed", "error": late}
        except Exception as error:
            told = {"kind": "failed", "error": self.failed(error)}
        with self._changed:
            self._running = None
            self._end(run, **told)

    def _end(self, run: Run, **told: Any) -> None:
        run.work = _nothing  # what it would need is let go
        run.say(**told)
        ended = [id for id, one in self._runs.items() if one.ended]
        for id in ended[: max(0, len(ended) - self.remembered)]:
            del self._runs[id]

    def _count(self) -> None:
        """Tell all that wait how many go before them."""
        before = int(self._running is not None)
        for ahead, run in enumerate(self._queue, before):
            told = {"kind": "waiting", "ahead": ahead}
            if run.now != told:
                run.say(**told)


def _fulfil(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)


def _nothing(tell: Tell) -> str:
    raise StoppedError
