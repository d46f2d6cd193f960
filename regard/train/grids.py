"""Whole tables of trainings: every row with every seed, one by one or side by side.

What has become of a training is read from its folder alone, so that a table that was interrupted
goes on when it is asked for again.
"""

import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import config as configs
from regard.runtime import atomic_files
from regard.train import interrupts, run_lock
from regard.train.interrupts import StopRequest
from regard.train.progress import TextStream
from regard.train.run_lock import BusyError

# The command line, as each of several trainings side by side calls it.
REGARD_COMMAND = (sys.executable, "-m", "regard")
SECONDS_BETWEEN_POLLS = 0.2


@dataclass(frozen=True)
class Row:
    """A line of a table: its name, and what it sets, as typed on the command line."""

    label: str
    settings: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """The label as the name of a folder."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")


@dataclass(frozen=True)
class Grid:
    """A table: what it shows, the config that all rows begin with, the rows and their seeds.

    Args:
        against: the label of the row that all others are compared with.
    """

    about: str
    base: Any
    rows: tuple[Row, ...]
    seeds: tuple[int, ...] = (0,)
    against: str | None = None

    def __post_init__(self) -> None:
        labels, slugs = [row.label for row in self.rows], [row.slug for row in self.rows]
        if not self.rows or not self.seeds:
            raise ValueError(
                f"Grid: expected rows and seeds, got {len(self.rows)} and {len(self.seeds)}"
            )
        if len(set(slugs)) < len(slugs) or "" in slugs:
            raise ValueError(
                f"Grid: expected labels that differ in letters or digits, got {', '.join(labels)}"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"Grid: expected every seed once, got {self.seeds}")
        if self.against is not None and self.against not in labels:
            raise ValueError(
                f"Grid: expected against as one of {', '.join(labels)}, got {self.against}"
            )


@dataclass(frozen=True)
class Cell:
    """One training of a table."""

    row: Row
    seed: int
    config: Any
    folder: Path

    @property
    def name(self) -> str:
        """How it is called in notes, and the name of its folder."""
        return self.folder.name

    @property
    def has_run(self) -> bool:
        """Whether there is a run in its folder."""
        return (self.folder / "config.json").exists()

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        return (self.folder / "card.json").exists()

    @property
    def failure(self) -> str | None:
        """Why it ended before its end, if that was an error."""
        path = self._failure_path
        if not path.exists():
            return None
        return str(atomic_files.read_json_object(path).get("error", "unknown"))

    @property
    def state(self) -> str:
        """What has become of it, in words."""
        if self.is_finished:
            return "finished"
        return f"failed: {self.failure}" if self.failure is not None else "not finished"

    def record_failure(self, error: str, traceback_text: str = "") -> None:
        """Record an error."""
        self.folder.mkdir(parents=True, exist_ok=True)
        told = {"error": " ".join(error.split()), "traceback": traceback_text}
        atomic_files.write_file(self._failure_path, json.dumps(told, indent=1) + "\n")

    def clear_failure(self) -> None:
        """Forget the error of the last time."""
        self._failure_path.unlink(missing_ok=True)

    @property
    def _failure_path(self) -> Path:
        return self.folder / "failed.json"


@dataclass(frozen=True)
class Plan:
    """A grid with what was typed beside it, where it goes, and all that is to be trained."""

    recipe: str
    name: str
    grid: Grid
    settings: tuple[str, ...]
    folder: Path
    cells: tuple[Cell, ...]

    def settings_of(self, row: Row) -> list[str]:
        """What was typed and what the row sets; where both name a field, the row is right."""
        return _without_overridden([*self.settings, *row.settings])


def plan_grid(
    recipe: str,
    name: str,
    grid: Grid,
    settings: Sequence[str],
    folder: Path,
    *,
    only: str | None = None,
) -> Plan:
    """The trainings of a grid, the first seed of every row before the second.

    Args:
        only: the row, or the row and seed, to which it is narrowed, as their folders are named.

    Raises:
        ValueError: a setting does not fit, or a folder holds a run with other settings.
    """
    if any(setting.partition("=")[0] == "training.seed" for setting in settings):
        seeds = ", ".join(map(str, grid.seeds))
        raise ValueError(f"grid: {name} has its own seeds ({seeds}), got training.seed")
    bare = Plan(recipe, name, grid, tuple(settings), folder, ())
    cells = [
        _make_cell(bare, row, seed)
        for seed in grid.seeds
        for row in grid.rows
        if only in (None, row.slug, f"{row.slug}-seed{seed}")
    ]
    if not cells:
        raise ValueError(
            f"grid: expected a row of {name} ({', '.join(row.slug for row in grid.rows)}), or one "
            f"with its seed, such as {grid.rows[0].slug}-seed{grid.seeds[0]}, got {only}"
        )
    return Plan(recipe, name, grid, tuple(settings), folder, tuple(cells))


def train_sequentially(
    plan: Plan,
    run: Callable[..., Any],
    *,
    report: Callable[[Cell], Any],
    log: Callable[[str], None],
) -> None:
    """Train what is not finished in this process; what fails is recorded, and the others go on.

    Args:
        run: the recipe's.
        report: what a training tells while it runs.
        log: takes one line.
    """
    for place, cell in enumerate(plan.cells, 1):
        if not cell.is_finished:
            log(f"{cell.name}: {place} of {len(plan.cells)}")
            if _train_cell(cell, run, report(cell), log) == "interrupted":
                return
        log(f"{cell.name}: {cell.state}")


def train_in_parallel(plan: Plan, jobs: int, log: Callable[[str], None]) -> None:
    """Train what is not finished, each in a process of its own, so many at a time.

    Ctrl-C and SIGTERM are passed on, and waited for: every training saves.
    """
    waiting = [cell for cell in plan.cells if not cell.is_finished]
    running = dict[subprocess.Popen[bytes], Cell]()
    with interrupts.catch_signals() as asked:
        try:
            while (waiting or running) and not asked:
                while waiting and len(running) < jobs:
                    cell = waiting.pop(0)
                    running[_start_process(plan, cell, jobs)] = cell
                    log(f"{cell.name}: begun, {len(waiting)} to come")
                _reap(running, asked, log)
            for process in running:
                process.terminate()
            while running:
                _reap(running, asked, log)
        finally:
            for process in running:
                process.kill()


class PrefixedStream:
    """A stream on which every line begins with a name."""

    def __init__(self, stream: TextStream, prefix: str):
        self._stream, self._prefix = stream, prefix

    def write(self, text: str) -> int:
        """Take one line, or several."""
        lines = text.splitlines(keepends=True)
        self._stream.write("".join(f"{self._prefix}: {line}" for line in lines))
        return len(text)

    def flush(self) -> None:
        """Show it now."""
        self._stream.flush()


def _make_cell(plan: Plan, row: Row, seed: int) -> Cell:
    settings = [*plan.settings_of(row), f"training.seed={seed}"]
    config = configs.override(plan.grid.base, settings)
    cell = Cell(row, seed, config, plan.folder / f"{row.slug}-seed{seed}")
    if cell.has_run:
        told = atomic_files.read_json_object(cell.folder / "config.json").get("settings")
        if not isinstance(told, dict):
            raise ValueError(f"grid: {cell.folder / 'config.json'} is damaged: it has no settings")
        before = configs.from_json(type(config), told)
        if before != config:
            was, now = configs.to_json(before), configs.to_json(config)
            others = ", ".join(name for name in now if was[name] != now[name])
            raise ValueError(
                f"grid: {cell.folder} has a run with another {others}; take another --out"
            )
    return cell


def _without_overridden(settings: Sequence[str]) -> list[str]:
    """Each field once, as it was set last."""
    return list({setting.partition("=")[0]: setting for setting in settings}.values())


def _train_cell(
    cell: Cell, run: Callable[..., Any], report: Any, log: Callable[[str], None]
) -> str:
    """How a training in this process stopped."""
    try:
        run_lock.check_not_busy(cell.folder)
    except BusyError as error:
        log(f"{cell.name}: {error}")
        return "busy"
    cell.clear_failure()
    where = {"resume": cell.folder} if cell.has_run else {"out": cell.folder}
    try:
        return str(run(cell.config, report=report, **where).stopped)
    except BusyError as error:
        # begun in this moment by another process; it is that one's to say how it ends
        log(f"{cell.name}: {error}")
        return "busy"
    # whatever it is, a table of many hours goes on without this row
    except Exception as error:
        cell.record_failure(f"{type(error).__name__}: {error}", traceback.format_exc())
        return "failed"


def _start_process(plan: Plan, cell: Cell, jobs: int) -> "subprocess.Popen[bytes]":
    """A process that trains one cell of the plan."""
    cell.clear_failure()
    words = ["train", plan.recipe, f"grid={plan.name}", *plan.settings]
    words += ["--out", str(plan.folder), "--only", cell.name]
    # cores are shared: with all threads each they would get in each other's way
    threads = str(max(1, torch.get_num_threads() // jobs))
    return subprocess.Popen(
        [*REGARD_COMMAND, *words],
        env={"OMP_NUM_THREADS": threads, **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _reap(
    running: "dict[subprocess.Popen[bytes], Cell]",
    stop_request: StopRequest,
    log: Callable[[str], None],
) -> None:
    """Wait a little, and take out the processes that have ended since.

    They tell themselves how it went; of one that could not, its code is recorded and told.
    """
    time.sleep(SECONDS_BETWEEN_POLLS)
    for process in [process for process in running if process.poll() is not None]:
        cell, code = running.pop(process), process.returncode
        if code and not stop_request and not cell.is_finished and cell.failure is None:
            cell.record_failure(f"its process ended with code {code}")
            log(f"{cell.name}: {cell.state}")
