"""A loop that trains any model: checkpoints that resume bit for bit, a journal, progress."""

from regard.train.checkpoints import Checkpoint, DamagedError
from regard.train.engine import DivergedError
from regard.train.loop import FitResult, Loss, Validator, fit
from regard.train.progress import (
    BarReport,
    LineReport,
    Report,
    TrainingProgress,
    make_report,
    silent,
)
from regard.train.run_lock import BusyError
from regard.train.settings import Optimizer, Schedule, Training
from regard.train.stream import Batch, Batches

__all__ = [
    "BarReport",
    "Batch",
    "Batches",
    "BusyError",
    "Checkpoint",
    "DamagedError",
    "DivergedError",
    "FitResult",
    "LineReport",
    "Loss",
    "Optimizer",
    "Report",
    "Schedule",
    "Training",
    "TrainingProgress",
    "Validator",
    "fit",
    "make_report",
    "silent",
]
