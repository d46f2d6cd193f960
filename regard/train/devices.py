"""The one place that imports Lightning Fabric: devices and processes, without its chatter."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from regard.train.settings import Training


def launch_fabric(training: Training) -> Any:
    """A Fabric with its processes started.

    With several devices each further process runs the same command once more and arrives here.
    """
    _check_device_available(training.device)
    with quiet_lightning():
        fabric = _fabric_class()(
            accelerator=training.device,
            devices=training.devices,
            strategy=training.strategy,
            precision="32-true" if training.precision == "tf32" else training.precision,
        )
        if training.precision == "16-mixed" and fabric.device.type == "cpu":
            raise ValueError("fit: 16-mixed needs a GPU, got a cpu; take bf16-mixed")
        fabric.launch()
    return fabric


@contextmanager
def matmul_precision(training: Training) -> Iterator[None]:
    """Inside, matrices of float32 are multiplied as precisely as the training says."""
    before = torch.get_float32_matmul_precision()
    try:
        if training.precision == "tf32":
            torch.set_float32_matmul_precision("high")
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Inside, Lightning keeps its tips to itself; its errors still come."""
    loggers = [logging.getLogger(name) for name in ("lightning_fabric", "lightning.fabric")]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        _fabric_class()  # to import it sets the level
        levels = [logger.level for logger in loggers]
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _check_device_available(device: str) -> None:
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device, True):
        raise ValueError(
            f"fit: expected training.device that this machine has, got {device}. "
            "Take training.device=auto."
        )


def _fabric_class() -> Any:
    try:
        from lightning_fabric import Fabric
    except ImportError:
        from lightning.fabric import Fabric  # type: ignore[import-not-found, no-redef]
    return Fabric
