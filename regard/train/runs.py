"""The folder of a run, settings first, what it ran on at the end; and what a run gives."""

import json
import math
import platform
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy
import torch

from regard import config as configs
from regard.runtime import atomic_files
from regard.train import checkpoints, run_lock

SCHEMA = 1
RUNS_FOLDER = Path("runs")
# It stands behind the time in the name of a folder, which may have 255 bytes.
MAX_NAME_BYTES = 100


@dataclass(frozen=True)
class Result:
    """What a run gives; `examples` are (source, prediction, reference)."""

    folder: Path
    metrics: dict[str, float]
    stopped: str
    seconds: float
    examples: list[tuple[str, str, str]]


def create_run_folder(
    recipe: str,
    config: Any,
    *,
    data: dict[str, Any],
    name: str,
    out: Path | None = None,
    resume: Path | None = None,
    step: int | None = None,
) -> Path:
    """The folder to train in, with the settings written: a new one, or that of the run to resume.

    Args:
        data: facts about the data, which must not change while a run goes on.
        name: tells runs of one recipe apart; it stands behind the time.
        out: the folder to take instead of `runs/<recipe>/<time>-<name>`, or `…-2`
            and so on where that is taken.
        resume: the folder of a run that goes on; only how it trains may have changed.
        step: the checkpoint that it goes on from, if not the latest.
    """
    told: dict[str, Any] = {"schema": SCHEMA, "recipe": recipe, "settings": configs.to_json(config)}
    if resume is not None:
        run_lock.check_not_busy(resume)
        before = atomic_files.read_json_object(resume / "config.json")
        _check_changes(before.get("settings"), told["settings"], resume, step)
        _check_same_data(resume / "data.json", data)
        atomic_files.write_file(resume / "config.json", _format_json({**before, **told}))
        return resume
    check_name("run", name)
    folder = out or _new_folder(RUNS_FOLDER / recipe / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}")
    _check_no_run(folder)
    with run_lock.hold_lock(folder):
        # asked again: of two that begin at once, the second finds what the first has written
        _check_no_run(folder)
        atomic_files.write_file(folder / "data.json", _format_json(data))
        atomic_files.write_file(
            folder / "config.json", _format_json({**told, "command": _command_line()})
        )
    return folder


def check_name(where: str, name: str) -> None:
    """Refuse the name of a run that cannot stand in the name of a folder."""
    size = len(name.encode(errors="replace"))
    if "/" in name or "\\" in name or not name.isprintable() or size > MAX_NAME_BYTES:
        raise ValueError(
            f"{where}: expected name of at most {MAX_NAME_BYTES} bytes that can be printed, "
            f"without / and \\, got {name!r:.40}"
        )


def _new_folder(first: Path) -> Path:
    """A folder made at `first`, or at the first of `…-2`, `…-3` that nobody has."""
    first.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


def _check_no_run(folder: Path) -> None:
    """Refuse a folder that has a run in it, whether that goes on now or not."""
    if (folder / "config.json").exists():
        run_lock.check_not_busy(folder)
        raise ValueError(f"run: {folder} has a run in it; take --resume {folder}, or another --out")


def _check_changes(before: Any, after: dict[str, Any], run: Path, step: int | None) -> None:
    """Refuse other settings for a run that goes on, apart from those of the training."""
    if not isinstance(before, dict) or not isinstance(before.get("training"), dict):
        raise ValueError(f"run: {run / 'config.json'} is damaged: it has no settings of a training")
    for name in sorted(before.keys() | after.keys()):
        if name != "training" and before.get(name) != after.get(name):
            raise ValueError(
                f"run: only training.… may change when {run} goes on, got another {name}"
            )
    was, now = before["training"], after["training"]
    kind = was["optimizer"].get("kind") if isinstance(was.get("optimizer"), dict) else None
    if was.get("seed") != now["seed"] or kind != now["optimizer"]["kind"]:
        raise ValueError(f"run: the seed and the kind of optimizer may not change in {run}")
    done = (checkpoints.latest_step(run / "checkpoints") or 0) if step is None else step
    if now["steps"] < done:
        raise ValueError(f"run: {run} is at step {done} already, got training.steps={now['steps']}")


def _check_same_data(path: Path, data: dict[str, Any]) -> None:
    if atomic_files.read_json_object(path) != data:
        raise ValueError(
            f"run: the data is not what it was when {path.parent} began; put it back, or begin "
            "another run"
        )


def provenance(run: Path, *, seconds: float, device: str) -> dict[str, Any]:
    """What a number may depend on beside the settings: for the card of a model."""
    began = atomic_files.read_json_object(run / "config.json")
    return {
        "command": str(began.get("command", "")),
        "hardware": hardware(device),
        "versions": versions(),
        "seconds": round(seconds, 1),
    }


def finite_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics that are finite, which JSON can hold."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def hardware(device: str = "cpu") -> str:
    """What a model on `device` runs on, in words."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{processor()}, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """The versions that a number may depend on."""
    python = platform.python_version()
    return {"python": python, "torch": torch.__version__, "numpy": numpy.__version__}


def _command_line() -> str:
    """What was typed, without the folder that the program lies in."""
    program = Path(sys.argv[0]).name
    # `python -m regard` is the same program
    return shlex.join(["regard" if program == "__main__.py" else program, *sys.argv[1:]])


def _format_json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def processor() -> str:
    """The processor, in its maker's words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())
