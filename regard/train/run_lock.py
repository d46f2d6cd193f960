"""One training a folder: an OS lock that the kernel frees when its process dies, however it dies.

Windows has no such lock, and some network file systems know none: nothing is locked there.
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK_FILE_NAME = "lock"
# Whoever only asks holds the lock for a moment.
LOCK_TRIES = 5
SECONDS_BETWEEN_TRIES = 0.02


class BusyError(ValueError):
    """Another process trains in the folder; the message names it."""


@contextmanager
def hold_lock(run: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; BusyError if another training holds it."""
    if not run.is_dir():
        run.mkdir(parents=True)
    path = run / LOCK_FILE_NAME
    opened = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "expected a plain file", str(path))
        for attempt in range(LOCK_TRIES):
            if _try_lock(opened):
                break
            if attempt == LOCK_TRIES - 1:
                raise _busy_error(run, opened)
            time.sleep(SECONDS_BETWEEN_TRIES)
        os.ftruncate(opened, 0)
        os.pwrite(opened, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(opened, 0)
    finally:
        os.close(opened)  # which frees the lock


def check_not_busy(run: Path) -> None:
    """Raise BusyError if a process trains in this folder."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(FileNotFoundError):
        opened = os.open(run / LOCK_FILE_NAME, flags)
        try:
            if not _try_lock(opened):
                raise _busy_error(run, opened)
        finally:
            os.close(opened)


def _try_lock(descriptor: int) -> bool:
    """True if this open file now holds the lock, or where there are no locks."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _busy_error(run: Path, descriptor: int) -> BusyError:
    said = os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()
    process = f"process {said}" if said.isdecimal() else "another process"
    return BusyError(
        f"run: {run} is being trained by {process}; wait until it ends, or stop it, then --resume"
    )
