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
PATIENCE = 2.0
# The most characters of a line that is read; what never ends must not fill the memory.
MAX_LINE_LETTERS = 2**24


@contextmanager
def patience(doing: str) -> Iterator[None]:
    """Say now and then that it goes on; what others print meanwhile is kept out of our answer."""
    done, start = threading.Event(), time.monotonic()

    def tell() -> None:
        while not done.wait(PATIENCE):
            note(f"{doing} … {time.monotonic() - start:.0f} s")

    threading.Thread(target=tell, daemon=True).start()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        done.set()


def answer(**fields: Any) -> None:
    """One JSON object; what is not finite, for which JSON has no word, is null."""
    text = json.dumps(fields, default=str)
    print(json.dumps(json.loads(text, parse_constant=lambda _: None)), flush=True)


def table(rows: Iterable[Iterable[Any]]) -> None:
    """Rows with their columns in line."""
    cells = [[f"{c:.4g}" if isinstance(c, float) else visible(str(c)) for c in r] for r in rows]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    say("\n".join("  " + "  ".join(map(str.ljust, row, wide)).rstrip() for row in cells))


def visible(text: str) -> str:
    """Text on one line; what could move a cursor or turn a line round is escaped."""
    stay = "\u00a0\u202f\u3000\u200c\u200d"  # blanks of French and Chinese, joiners of Persian
    escaped = {c: ascii(c)[1:-1] for c in set(text) - set(stay) if not c.isprintable()}
    return "".join(escaped.get(c, c) for c in text)


def say(text: str) -> None:
    """Text on standard output, line by line as it is."""
    print("\n".join(map(visible, text.split("\n"))), flush=True)


def note(text: str) -> None:
    """One line on standard error, whatever the text; none where that is closed."""
    # print would take standard output instead, where programs read
    if sys.stderr is not None:
        print(visible(" ".join(text.split())), file=sys.stderr, flush=True)


def lines() -> Iterator[str]:
    """The lines of standard input, one by one as they come.

    Raises:
        ValueError: it is closed, no UTF-8, or a line of it is too long to be read.
    """
    if sys.stdin is None:
        raise ValueError("expected lines on standard input, got none: it is closed")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="strict")  # without a locale, Python lets all bytes through
    if sys.stdin.isatty():
        note("type a sentence and Enter; Ctrl-D ends")
    try:
        while line := sys.stdin.readline(MAX_LINE_LETTERS + 1):
            if len(line) > MAX_LINE_LETTERS:
                raise ValueError(
                    f"expected lines of at most {MAX_LINE_LETTERS:,} characters on standard "
                    "input, got a longer one"
                )
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected UTF-8 on standard input: {error}") from None


def on_enter(do: Callable[[], object]) -> bool:
    """Call `do` whenever Enter is pressed; False, and never, where nobody can type."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    # without this, reading stops a process that runs in the background
    if hasattr(signal, "SIGTTIN"):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)

    def read() -> None:
        while True:
            try:
                typed = os.read(sys.stdin.fileno(), 4096)
            except OSError:  # it runs in the background now
                typed = b""
            if b"\n" in typed:
                do()
            elif not typed:
                time.sleep(1)

    threading.Thread(target=read, name="regard-enter", daemon=True).start()
    return True
