"""How claims are measured: two functions in turns, medians; memory at the peak of a process."""

import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.train.runs import processor

# Processors differ in what is fast, so that one's results never replace another's.
MACHINE_KINDS = ("amd", "intel", "apple", "other", "gpu")


@dataclass(frozen=True)
class Row:
    """One claim with what was measured for it."""

    claim: str
    must: str
    aim: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Race:
    """Median seconds of two functions that ran in turns."""

    ours: float
    theirs: float

    @property
    def times_faster(self) -> float:
        return self.theirs / self.ours

    @property
    def times_the_time(self) -> float:
        return self.ours / self.theirs

    def __str__(self) -> str:
        return f"{in_words(self.ours)} against {in_words(self.theirs)}"


def race(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    rounds: int,
    inner: int = 1,
    warm: int = 2,
) -> Race:
    """Both functions in turns, `inner` calls at a time, after `warm` rounds that do not count."""
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(warm + rounds):
        for run, kept in zip((ours, theirs), times, strict=True):
            seconds = _timed(run, inner)
            if i >= warm:
                kept.append(seconds)
    return Race(*map(statistics.median, times))


def alone(run: Callable[[], Any], *, rounds: int, inner: int = 1, warm: int = 2) -> float:
    """The median seconds of one function by itself."""
    return statistics.median([_timed(run, inner) for _ in range(warm + rounds)][warm:])


def peak(module: str, function: str) -> float:
    """The MiB that `module.function()` returns a runner for takes at its peak, in a fresh process.

    The function prepares and returns what is to be measured; only the latter counts. The process
    gives every large tensor pages of its own, so that what is freed is seen to be gone.
    """
    code = (
        f"from benchmarks.measure import peak_here; from benchmarks.{module} import {function};"
        f"print(peak_here({function}()))"
    )
    exact = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=exact
    )
    return float(run.stdout.split()[-1])


def peak_here(run: Callable[[], Any]) -> float:
    """The MiB by which the memory of this process grows at most while `run` runs once (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    kept = run()
    del kept
    return (_status("VmHWM") - before) / 1024


def gpu_peak(run: Callable[[], Any], *inputs: torch.Tensor) -> float:
    """GiB allocated on the GPU at the peak of one run, `inputs` included."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = run()
    del kept
    grown = torch.cuda.max_memory_allocated() - before
    return (grown + sum(tensor.nbytes for tensor in inputs)) / 2**30


def gradients(output: torch.Tensor, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gradients of the leaves for an output gradient of ones."""
    return torch.autograd.grad(output, leaves, torch.ones_like(output))


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = os.environ.get("REGARD_COMMIT", "")  # a copy of the tree may have another's history
    commit = (
        commit or subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    )
    cuda = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if cuda else _cpu()
    return {
        "machine": name,
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit or "unknown",
    }


def machine_kind() -> str:
    """One of `MACHINE_KINDS`: results of each stand in files of their own."""
    if torch.cuda.is_available():
        return "gpu"
    name = processor().lower()
    return next((kind for kind in MACHINE_KINDS if kind in name), "other")


def save(rows: list[Row], path: Path) -> None:
    """Write the rows with the machine they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {**machine(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def in_words(seconds: float) -> str:
    """Seconds, milliseconds or microseconds, whichever reads best."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _timed(run: Callable[[], Any], inner: int) -> float:
    if torch.cuda.is_available():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(inner):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / inner
    before = time.perf_counter()
    for _ in range(inner):
        run()
    return (time.perf_counter() - before) / inner


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


def _cpu() -> str:
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return f"{processor()}, {'AVX-512' if wide else 'no AVX-512'}"
