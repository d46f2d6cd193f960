"""The journal, truth of a training: one JSON object a line; TensorBoard beside it if installed."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from regard.check import Number
from regard.runtime import atomic_files


class Journal:
    """Lines appended to a file, each written at once and whole."""

    def __init__(self, path: Path, *, tensorboard: Path | None = None, after: int = 0):
        """
        Args:
            tensorboard: a folder for TensorBoard, if that is installed.
            after: the step that the next lines come after; TensorBoard forgets later ones.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._tensorboard = (
            _tensorboard_writer(tensorboard, after) if tensorboard is not None else None
        )

    def write(self, event: str, step: int, **facts: Any) -> None:
        """One line: what happened at which step, and the facts. What is not finite is null."""
        line = json.dumps({"event": event, "step": step, **_finite_or_null(facts)}, allow_nan=False)
        with atomic_files.filename_in_errors(self.path):
            self._file.write(line.encode() + b"\n")
            self._file.flush()
        if self._tensorboard is not None:
            for name, value in _scalars(facts):
                self._tensorboard.add_scalar(f"{event}/{name}", value, step)

    def sync(self) -> None:
        """Wait until every line is on the disk."""
        with atomic_files.filename_in_errors(self.path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What a journal says; a last line that was cut off by a kill is not there."""
    return [read for _, read in _iter_lines(path)]


def truncate(path: Path, step: int) -> None:
    """Take the journal back to `step`, in one move: what came later will be written again."""
    if not os.path.lexists(path):
        return
    atomic_files.remove_leftovers(path)
    atomic_files.write_file(
        path, b"".join(line for line, read in _iter_lines(path) if read["step"] <= step)
    )


def _iter_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    # a link, a pipe or a device is refused: it could lead elsewhere, or have no end
    with atomic_files.open_plain_file(path) as (file, size):
        data = file.read(size)
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if line.endswith(b"\n"):
            yield line, _parse_line(line, f"{path}: expected JSON in line {number}")


def _parse_line(line: bytes, expected: str) -> dict[str, Any]:
    """A line that says what happened at which step."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{expected}, got another") from None
    if not isinstance(read, dict) or type(read.get("step")) is not int:
        raise ValueError(f"{expected} with a step, got {line[:60]!r}")
    if not isinstance(read.get("event"), str) or not isinstance(read.get("metrics", {}), dict):
        raise ValueError(f"{expected} with an event, got {line[:60]!r}")
    return read


def _finite_or_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite_or_null(v) for k, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scalars(facts: dict[str, Any]) -> list[tuple[str, Number]]:
    """The numbers among the facts, those of validation by their own names."""
    flat = {**facts, **facts.get("metrics", {})}
    numbers = ((k, v) for k, v in flat.items() if not isinstance(v, bool))
    return [(k, v) for k, v in numbers if isinstance(v, int | float)]


def _tensorboard_writer(folder: Path, after: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=after + 1)  # type: ignore[no-untyped-call]
