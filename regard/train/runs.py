"""The folder of a run: its settings are there first, what it ran on is told at the end."""

import json
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import torch

from regard import config as configs
from regard import files

SCHEMA = 1
RUNS = Path("runs")


def opened(recipe: str, config: Any, *, name: str, out: Path | None, resume: Path | None) -> Path:
    """The folder to train in, with the settings written: a new one, or that of the run to resume.

    Args:
        name: tells runs of one recipe apart; it stands behind the time.
        out: the folder to take instead of `runs/<recipe>/<time>-<name>`.
    """
    told = _text({"schema": SCHEMA, "recipe": recipe, "settings": configs.plain(config)})
    if resume is not None:
        files.write(resume / "config.json", told)  # it may go on with other settings
        return resume
    folder = out or RUNS / recipe / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    if (folder / "config.json").exists():
        raise ValueError(f"run: {folder} has a run in it; take --resume {folder}, or another --out")
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / "config.json", told)
    return folder


def agreed(path: Path, told: dict[str, Any], *, what: str) -> None:
    """Write facts that must not change while a run goes on, or refuse those that have."""
    if not path.exists():
        files.write(path, _text(told))
    elif json.loads(path.read_text(encoding="utf-8")) != told:
        raise ValueError(f"run: {what} is not what it was when {path.parent} began")


def circumstances(seconds: float) -> dict[str, Any]:
    """What a number may depend on beside the settings: for the card of a model."""
    return {
        "command": command(),
        "hardware": hardware(),
        "versions": versions(),
        "seconds": round(seconds, 1),
    }


def command() -> str:
    """What was typed, without the folder that the program lies in."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def hardware() -> str:
    """What this runs on, in words."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{_processor()}, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """The versions that a number may depend on."""
    python = platform.python_version()
    return {"python": python, "torch": torch.__version__, "numpy": numpy.__version__}


def _text(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())
