"""What a training tells while it runs: nothing, plain lines, or a bar that is drawn in place.

A report draws on the console or the stream that it is handed; this library never prints by itself.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from regard.check import Number

# A bar that is drawn more often than this costs more than it tells.
SECONDS_A_FRAME = 0.25
# A pipe that nobody reads, a terminal that is gone, a closed file: no reason to end a training.
UNWRITTEN = (OSError, ValueError)


@dataclass(frozen=True)
class News:
    """How the last steps went; `left` are the seconds to the last one if nothing ends it early."""

    step: int
    steps: int
    loss: float
    rate: float
    tokens_a_second: float
    left: float

    def __str__(self) -> str:
        return (
            f"step {self.step:,}/{self.steps:,}  loss {self.loss:.4f}  rate {self.rate:.2e}  "
            f"{self.tokens_a_second:,.0f} tokens/s  {clock(self.left)} left"
        )


@runtime_checkable
class Report(Protocol):
    """What is called during a training; only the first process of many reports."""

    def note(self, text: str) -> None:
        """Something worth knowing: what the data is, what was left out, that it was set back."""

    def begin(self, step: int, steps: int) -> None:
        """Training goes on from `step`."""

    def tick(self, step: int) -> None:
        """One more step was taken; nothing has been read from the device."""

    def trained(self, news: News) -> None:
        """So many steps later, here is how they went."""

    def judged(self, step: int, metrics: dict[str, float], best: bool) -> None:
        """The judge has spoken, and whether it was the best so far."""

    def end(self, step: int, stopped: str) -> None:
        """No more comes, whether it finished, was stopped, or failed."""


class Silent:
    """Tells nothing."""

    def note(self, text: str) -> None:
        pass

    def begin(self, step: int, steps: int) -> None:
        pass

    def tick(self, step: int) -> None:
        pass

    def trained(self, news: News) -> None:
        pass

    def judged(self, step: int, metrics: dict[str, float], best: bool) -> None:
        pass

    def end(self, step: int, stopped: str) -> None:
        pass


silent = Silent()


@runtime_checkable
class Text(Protocol):
    """A stream of text, such as `sys.stderr`."""

    def write(self, text: str, /) -> Any:
        """Take some text."""

    def flush(self) -> None:
        """Show it now."""


@dataclass(frozen=True)
class Lines(Silent):
    """A plain line for everything worth telling: for logs and pipes.

    What the stream does not take is not told; the training goes on.
    """

    stream: Text

    def note(self, text: str) -> None:
        self._line(text)

    def begin(self, step: int, steps: int) -> None:
        self._line(f"from step {step:,} to {steps:,}" if step else f"{steps:,} steps")

    def trained(self, news: News) -> None:
        self._line(str(news))

    def judged(self, step: int, metrics: dict[str, float], best: bool) -> None:
        self._line(f"step {step:,}  judged: {in_words(metrics)}{'  (best)' if best else ''}")

    def end(self, step: int, stopped: str) -> None:
        self._line(f"{stopped} at step {step:,}")

    def _line(self, text: str) -> None:
        with suppress(*UNWRITTEN):
            self.stream.write(text + "\n")
            self.stream.flush()


class _Forgiving:
    """A stream that drops what cannot be written."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(*UNWRITTEN):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(*UNWRITTEN):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass
class Live(Silent):
    """A bar on a terminal, drawn in place by rich; judgements scroll by above it.

    What the console cannot write from now on is dropped; rich would end the process instead.
    """

    console: Any
    _bar: Any = field(default=None, init=False)
    _task: Any = field(default=None, init=False)
    _drawn: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.console.file = _Forgiving(self.console.file)

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False)

    def begin(self, step: int, steps: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        words = TextColumn("{task.fields[words]}")
        # drawn by hand, at steps: a thread that draws would take its share of every step
        self._bar = Progress(
            BarColumn(24), MofNCompleteColumn(), words, console=self.console, auto_refresh=False
        )
        self._task = self._bar.add_task("", total=steps, completed=step, words="")
        self._bar.start()

    def tick(self, step: int) -> None:
        now = time.monotonic()
        if now - self._drawn >= SECONDS_A_FRAME:
            self._drawn = now
            self._bar.update(self._task, completed=step, refresh=True)

    def trained(self, news: News) -> None:
        words = (
            f"loss {news.loss:.4f} · rate {news.rate:.2e} · "
            f"{news.tokens_a_second:,.0f} tokens/s · {clock(news.left)} left"
        )
        self._bar.update(self._task, completed=news.step, words=words)

    def judged(self, step: int, metrics: dict[str, float], best: bool) -> None:
        star = "★" if best else " "
        self.note(f"{star} step {step:,}  {in_words(metrics)}")

    def end(self, step: int, stopped: str) -> None:
        self._bar.update(self._task, completed=step, words=stopped, refresh=True)
        self._bar.stop()


def drawn_on(console: Any) -> Report:
    """The report that suits a rich console: a bar on a terminal, plain lines anywhere else."""
    return Live(console) if console.is_terminal else Lines(console.file)


def in_words(metrics: dict[str, float]) -> str:
    """Metrics on one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def clock(seconds: Number) -> str:
    """A length of time as people read it.

    >>> [clock(s) for s in (7.4, 125, 7384)]
    ['7 s', '2:05', '2:03:04']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
