"""One thread that draws, each picture within a time; it stops when the client is gone."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.view.server.errors import RefusedError

T = TypeVar("T")
# How often it is asked whether somebody still waits, in seconds.
POLL_SECONDS = 0.25


class _StoppedError(BaseException):
    """Raised inside a drawing to end it; no `except Exception` of a library holds it up."""


@dataclass(eq=False)
class RenderQueue:
    """A queue of drawings, one at a time, since the settings of matplotlib are global.

    Args:
        seconds: how long a drawing may take.
        max_waiting: how many may wait for the one that goes on.
    """

    seconds: float = 60.0
    max_waiting: int = 4

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "regard-drawer")
        self._pending = 0

    async def render(self, work: Callable[[], T], is_gone: Callable[[], Awaitable[bool]]) -> T:
        """The result of a piece of work, run in the drawing thread.

        Args:
            is_gone: asked now and then whether nobody waits for it any more.

        Raises:
            RefusedError: too many wait, or it took too long.
        """
        if self._pending > self.max_waiting:
            raise RefusedError(503, f"{self._pending} files are being made already; ask again")
        stop = threading.Event()
        self._pending += 1
        try:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._thread, _run_with_limit, self.seconds, stop, work)
            while not (await asyncio.wait([future], timeout=POLL_SECONDS))[0]:
                if await is_gone():
                    stop.set()
            return future.result()
        except TimeoutError:
            raise RefusedError(
                422,
                f"it took more than {self.seconds:g} s and was stopped. Take one head, another "
                "kind of file, or a smaller trace.",
            ) from None
        finally:
            stop.set()
            self._pending -= 1

    def close(self) -> None:
        """Cancel what waits, and accept nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _run_with_limit(seconds: float, stop: threading.Event, work: Callable[[], T]) -> T:
    """The result of `work`, interrupted if it is stopped or late; checked at each call and line.

    Raises:
        TimeoutError: it was not done by then.
    """
    end = time.monotonic() + seconds

    def check_stop(frame: Any, event: str, argument: Any) -> None:
        if stop.is_set() or time.monotonic() > end:
            raise _StoppedError

    try:
        # of this thread alone; the calls of others cost nothing
        sys.settrace(check_stop)
        return work()
    except _StoppedError:
        raise TimeoutError from None
    finally:
        sys.settrace(None)
