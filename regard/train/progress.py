"""What a training tells while it runs: nothing, plain lines, or a bar that is drawn in place.

A report draws on the console or the stream that it is handed; this library never prints by itself.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from regard.check import Number

# A bar that is drawn more often than this costs more than it tells.
MIN_SECONDS_BETWEEN_FRAMES = 0.25
# A pipe that nobody reads, a terminal that is gone, a closed file: no reason to end a training.
WRITE_ERRORS = (OSError, ValueError)


@dataclass(frozen=True)
class TrainingProgress:
    """How the last steps went; `left` are the seconds to the last one if nothing ends it early."""

    step: int
    steps: int
    loss: float
    rate: float
    tokens_per_second: float
    seconds_left: float

    def __str__(self) -> str:
        return (
            f"step {self.step:,}/{self.steps:,}  loss {self.loss:.4f}  rate {self.rate:.2e}  "
            f"{self.tokens_per_second:,.0f} tokens/s  {format_duration(self.seconds_left)} left"
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

    def log_progress(self, progress: TrainingProgress) -> None:
        """So many steps later, here is how they went."""

    def log_validation(self, step: int, metrics: dict[str, float], best: bool) -> None:
        """The metrics of a validation, and whether they are the best so far."""

    def end(self, step: int, stopped: str) -> None:
        """No more comes, whether it finished, was stopped, or failed."""


class SilentReport:
    """Tells nothing."""

    def note(self, text: str) -> None:
        pass

    def begin(self, step: int, steps: int) -> None:
        pass

    def tick(self, step: int) -> None:
        pass

    def log_progress(self, progress: TrainingProgress) -> None:
        pass

    def log_validation(self, step: int, metrics: dict[str, float], best: bool) -> None:
        pass

    def end(self, step: int, stopped: str) -> None:
        pass


silent = SilentReport()


@runtime_checkable
class TextStream(Protocol):
    """A stream of text, such as `sys.stderr`."""

    def write(self, text: str, /) -> Any:
        """Take some text."""

    def flush(self) -> None:
        """Show it now."""


@dataclass(frozen=True)
class LineReport(SilentReport):
    """A plain line for everything worth telling: for logs and pipes.

    What the stream does not take is not told; the training goes on.
    """

    stream: TextStream

    def note(self, text: str) -> None:
        self._write_line(text)

    def begin(self, step: int, steps: int) -> None:
        self._write_line(f"from step {step:,} to {steps:,}" if step else f"{steps:,} steps")

    def log_progress(self, progress: TrainingProgress) -> None:
        self._write_line(str(progress))

    def log_validation(self, step: int, metrics: dict[str, float], best: bool) -> None:
        self._write_line(
            f"step {step:,}  validation: {format_metrics(metrics)}{'  (best)' if best else ''}"
        )

    def end(self, step: int, stopped: str) -> None:
        self._write_line(f"{stopped} at step {step:,}")

    def _write_line(self, text: str) -> None:
        with suppress(*WRITE_ERRORS):
            self.stream.write(text + "\n")
            self.stream.flush()


class _ErrorTolerantStream:
    """A stream that drops what cannot be written."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(*WRITE_ERRORS):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(*WRITE_ERRORS):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass
class BarReport(SilentReport):
    """A bar on a terminal, drawn in place by rich; validations scroll by above it.

    What the console cannot write from now on is dropped; rich would end the process instead.
    """

    console: Any
    _bar: Any = field(default=None, init=False)
    _task: Any = field(default=None, init=False)
    _last_draw_time: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.console.file = _ErrorTolerantStream(self.console.file)

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
        if now - self._last_draw_time >= MIN_SECONDS_BETWEEN_FRAMES:
            self._last_draw_time = now
            self._bar.update(self._task, completed=step, refresh=True)

    def log_progress(self, progress: TrainingProgress) -> None:
        words = (
            f"loss {progress.loss:.4f} · rate {progress.rate:.2e} · "
            f"{progress.tokens_per_second:,.0f} tokens/s · "
            f"{format_duration(progress.seconds_left)} left"
        )
        self._bar.update(self._task, completed=progress.step, words=words)

    def log_validation(self, step: int, metrics: dict[str, float], best: bool) -> None:
        star = "★" if best else " "
        self.note(f"{star} step {step:,}  {format_metrics(metrics)}")

    def end(self, step: int, stopped: str) -> None:
        self._bar.update(self._task, completed=step, words=stopped, refresh=True)
        self._bar.stop()


def make_report(console: Any) -> Report:
    """The report that suits a rich console: a bar on a terminal, plain lines anywhere else."""
    return BarReport(console) if console.is_terminal else LineReport(console.file)


def format_metrics(metrics: dict[str, float]) -> str:
    """Metrics on one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def format_duration(seconds: Number) -> str:
    """A length of time as people read it.

    >>> [format_duration(s) for s in (7.4, 125, 7384)]
    ['7 s', '2:05', '2:03:04']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
