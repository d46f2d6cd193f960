"""A loop that trains any model: checkpoints that resume bit for bit, a journal, progress."""

from regard.train.checkpoints import Checkpoint, DamagedError
from regard.train.engine import DivergedError
from regard.train.loop import Fitted, Judge, Loss, fit
from regard.train.progress import Lines, Live, News, Report, drawn_on, silent
from regard.train.run_lock import BusyError
from regard.train.settings import Optimizer, Schedule, Training
from regard.train.stream import Batch, Batches

__all__ = [
    "Batch",
    "Batches",
    "BusyError",
    "Checkpoint",
    "DamagedError",
    "DivergedError",
    "Fitted",
    "Judge",
    "Lines",
    "Live",
    "Loss",
    "News",
    "Optimizer",
    "Report",
    "Schedule",
    "Training",
    "drawn_on",
    "fit",
    "silent",
]
