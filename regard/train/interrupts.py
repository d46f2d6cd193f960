"""Ctrl-C and SIGTERM as a wish that a loop can read, instead of an exception in its middle."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.stop = False

    def __bool__(self) -> bool:
        return self.stop


@contextmanager
def catch_signals() -> Iterator[StopRequest]:
    """Inside, the first signal is a wish; a second Ctrl-C is a KeyboardInterrupt, as ever.

    Only the main thread can catch signals; in any other nothing is changed.
    """
    asked = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def request_stop(number: int, frame: FrameType | None) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.stop = True

    before = {
        number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            # None stands for a handler that was not set from Python, and cannot be from here
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
