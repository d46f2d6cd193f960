"""What the command line says: text for people, one JSON object for programs; nothing raw."""

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

# How many seconds anything may take without saying so.
SECONDS_BETWEEN_NOTES = 2.0
# The most characters of a line that is read; what never ends must not fill the memory.
MAX_LINE_CHARACTERS = 2**24


@contextmanager
def show_elapsed_time(activity: str) -> Iterator[None]:
    """Say now and then that it goes on; what others print meanwhile is kept out of our answer."""
    done, start = threading.Event(), time.monotonic()

    def print_elapsed_time() -> None:
        while not done.wait(SECONDS_BETWEEN_NOTES):
            print_note(f"{activity} … {time.monotonic() - start:.0f} s")

    threading.Thread(target=print_elapsed_time, daemon=True).start()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        done.set()


def print_json(**fields: Any) -> None:
    """One JSON object; what is not finite, for which JSON has no word, is null."""
    text = json.dumps(fields, default=str)
    print(json.dumps(json.loads(text, parse_constant=lambda _: None)), flush=True)


def print_table(rows: Iterable[Iterable[Any]]) -> None:
    """Rows with their columns in line."""
    cells = [
        [f"{c:.4g}" if isinstance(c, float) else escape_unprintable(str(c)) for c in r]
        for r in rows
    ]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print_text("\n".join("  " + "  ".join(map(str.ljust, row, wide)).rstrip() for row in cells))


def escape_unprintable(text: str) -> str:
    """Text on one line; what could move a cursor or turn a line round is escaped."""
    stay = "\u00a0\u202f\u3000\u200c\u200d"  # blanks of French and Chinese, joiners of Persian
    escaped = {c: ascii(c)[1:-1] for c in set(text) - set(stay) if not c.isprintable()}
    return "".join(escaped.get(c, c) for c in text)


def print_text(text: str) -> None:
    """Text on standard output, line by line as it is."""
    print("\n".join(map(escape_unprintable, text.split("\n"))), flush=True)


def print_note(text: str) -> None:
    """One line on standard error, whatever the text; none where that is closed."""
    # print would take standard output instead, where programs read
    if sys.stderr is not None:
        print(escape_unprintable(" ".join(text.split())), file=sys.stderr, flush=True)


def read_stdin_lines() -> Iterator[str]:
    """The lines of standard input, one by one as they come.

    Raises:
        ValueError: it is closed, no UTF-8, or a line of it is too long to be read.
    """
    if sys.stdin is None:
        raise ValueError("expected lines on standard input, got none: it is closed")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="strict")  # without a locale, Python lets all bytes through
    if sys.stdin.isatty():
        print_note("type a sentence and Enter; Ctrl-D ends")
    try:
        while line := sys.stdin.readline(MAX_LINE_CHARACTERS + 1):
            if len(line) > MAX_LINE_CHARACTERS:
                raise ValueError(
                    f"expected lines of at most {MAX_LINE_CHARACTERS:,} characters on standard "
                    "input, got a longer one"
                )
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected UTF-8 on standard input: {error}") from None


def on_enter(callback: Callable[[], object]) -> bool:
    """Call `callback` whenever Enter is pressed; False, and never, where nobody can type."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    # without this, reading stops a process that runs in the background
    if hasattr(signal, "SIGTTIN"):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)

    def poll_stdin() -> None:
        while True:
            try:
                typed = os.read(sys.stdin.fileno(), 4096)
            except OSError:  # it runs in the background now
                typed = b""
            if b"\n" in typed:
                callback()
            elif not typed:
                time.sleep(1)

    threading.Thread(target=poll_stdin, name="regard-enter", daemon=True).start()
    return True
