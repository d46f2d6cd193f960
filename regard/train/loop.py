"""One loop that trains any model, given its loss, its batches and what is measured of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from regard.runtime import compile, mkl
from regard.train import checkpoints, devices, interrupts, journal, randomness
from regard.train.engine import Engine, Loss
from regard.train.interrupts import StopRequest
from regard.train.journal import Journal
from regard.train.progress import Report, TrainingProgress, silent
from regard.train.run_lock import BusyError, hold_lock
from regard.train.settings import Training
from regard.train.stream import Batches

# Measured on other data than that of the training.
Validator = Callable[[nn.Module], dict[str, float]]
StopReason = Literal["finished", "early", "interrupted"]


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a training gives.

    Args:
        model: the one that was given, now with the weights that were best in validation; without it
            those of the last step; the averaged ones where there is an average.
        metrics: what validation found of these weights.
        seconds: how long it took, all sittings together.
    """

    model: nn.Module
    step: int
    stopped: StopReason
    metrics: dict[str, float]
    seconds: float


def fit(
    model: nn.Module,
    loss: Loss,
    batches: Batches,
    training: Training,
    *,
    run: Path,
    validate: Validator | None = None,
    report: Report = silent,
    resume: bool | str = False,
) -> FitResult:
    """Train `model` in place, and keep the journal and the checkpoints in the folder `run`.

    Ctrl-C or SIGTERM finishes the step, saves, and returns; `resume=True` then goes on to the same
    losses, on a CPU bit for bit. What is global (signals, threads, random state) is left as found.

    Args:
        resume: True goes on from the latest checkpoint, or from the start if there is none yet;
            the name of a checkpoint, such as "step-00000500", goes back to that one, and what came
            after it is deleted.

    Raises:
        BusyError: another training lives in the folder.
        DamagedError: the checkpoint is not what was written; the message names one that is.
        DivergedError: the loss or the weights are not finite; no such weights are saved.
        OSError: a file could not be written; the checkpoint before is whole.
    """
    for name in ("patience", "rollback_ratio"):
        if validate is None and getattr(training, name):
            raise ValueError(f"fit: {name} needs validation, but validate is None")
    with ExitStack() as outside:
        outside.enter_context(_preserve_global_state(model))
        asked = outside.enter_context(interrupts.catch_signals())
        outside.enter_context(devices.matmul_precision(training))
        fabric = devices.launch_fabric(training)
        if training.torch_compile and fabric.device.type != "cuda":
            outside.enter_context(compile.enable_compilation())
        run = fabric.broadcast(run)
        _hold_lock(run, fabric, outside)
        step = _resume_step(run / "checkpoints", resume)
        if step is not None and step > training.steps:
            raise ValueError(
                f"fit: the run is at step {step} already, expected training.steps of at least "
                f"that, got {training.steps}"
            )
        mkl.warm_up()  # or now and then a process would take its first step otherwise
        fabric.barrier()  # all have looked before the first one writes
        model.train()
        engine = Engine(model, loss, batches, training, fabric=fabric, folder=run / "checkpoints")
        if step is not None:
            engine.load(step)
        notes = outside.enter_context(_open_journal(run, step)) if fabric.is_global_zero else None
        teller = _ProgressLog(engine, notes, report if fabric.is_global_zero else silent)
        stopped = teller.run_training(lambda: _train(engine, validate, teller, asked))
        engine.load_best()
    return FitResult(model, engine.step, stopped, engine.early_stopping.metrics, engine.seconds)


def _hold_lock(run: Path, fabric: Any, stack: ExitStack) -> None:
    """Hold the lock of the run in the first process; all processes refuse a run that is busy."""
    refused = None
    if fabric.is_global_zero:
        try:
            stack.enter_context(hold_lock(run))
        except BusyError as error:
            refused = str(error)
    refused = fabric.broadcast(refused)
    if refused is not None:
        raise BusyError(refused)


def _resume_step(folder: Path, resume: bool | str) -> int | None:
    """The step to go on from; None is the start."""
    there = checkpoints.list_steps(folder)
    if isinstance(resume, str):
        wanted = [step for step in there if checkpoints.folder_name(step) == resume]
        if not wanted:
            names = ", ".join(map(checkpoints.folder_name, there)) or "none"
            raise ValueError(
                f"fit: expected a checkpoint of {folder}, got {resume}; it has {names}"
            )
        return wanted[0]
    if resume:
        return checkpoints.latest_step(folder)
    if there:
        raise ValueError(
            f"fit: {folder} has a training of {there[-1]} steps; resume it (resume=True, or "
            "--resume on the command line), or take another folder"
        )
    return None


def _train(
    engine: Engine, validate: Validator | None, progress: "_ProgressLog", stop_request: StopRequest
) -> StopReason:
    training = engine.training
    if engine.saved_step is None:
        progress.save_checkpoint()
    stop = engine.any_process(bool(stop_request))
    while not engine.is_done and not stop:
        progress.count_step(engine.train_step())
        step, last = engine.step, engine.step == training.steps
        told = last or _is_due(step, training.report_every)
        if told:
            progress.log_progress()
        best = False
        if validate is not None and (last or _is_due(step, training.validate_every)):
            best = _validate_weights(engine, validate, progress)
        # several processes ask each other only where they wait for each other anyway
        if told or engine.fabric.world_size == 1:
            stop = engine.any_process(bool(stop_request))
        if best or stop or engine.is_done or _is_due(step, training.save_every):
            progress.save_checkpoint()
    if engine.step >= training.steps:
        return "finished"
    return "early" if engine.is_done else "interrupted"


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _validate_weights(engine: Engine, validate: Validator, progress: "_ProgressLog") -> bool:
    """True if validation finds these weights the best so far."""
    training, model, metrics = engine.training, engine.eval_model, {}
    if engine.fabric.is_global_zero:
        with randomness.preserve_rng_state(), _preserve_modes(model), torch.no_grad():
            model.eval()
            said = progress.run_untimed(lambda: validate(model))
            metrics = {name: float(value) for name, value in said.items()}
    metrics = engine.fabric.broadcast(metrics)
    monitor = training.monitor
    engine.early_stopping = engine.early_stopping.with_metrics(
        engine.step, metrics, monitor=monitor, mode=training.monitor_mode
    )
    best = engine.early_stopping.bad == 0
    progress.log_validation(metrics, best)
    if engine.early_stopping.should_roll_back(
        metrics[monitor], training.rollback_ratio, mode=training.monitor_mode
    ):
        progress.roll_back()
    return best


class _ProgressLog:
    """Says how it goes, to the journal and to the report."""

    def __init__(self, engine: Engine, run_journal: Journal | None, report: Report):
        self._engine, self._journal, self._report = engine, run_journal, report
        self._interval_tokens, self._untimed_seconds = 0, 0.0
        self._first_step = engine.step
        self._start_time = self._interval_start = time.perf_counter()

    def run_training(self, train: Callable[[], StopReason]) -> StopReason:
        """Train, and say that it begins and how it ends."""
        engine, stopped, new = self._engine, "failed", not self._engine.is_done
        self._report.begin(engine.step, engine.training.steps)
        try:
            if new:
                event = "start" if engine.saved_step is None else "resume"
                self._write_event(event, training=asdict(engine.training), torch=torch.__version__)
            stopped = train()
            if new:
                self._write_event("stop", stopped=stopped, seconds=engine.seconds)
        finally:
            self._report.end(engine.step, stopped)
        return stopped

    def count_step(self, tokens: int) -> None:
        """A step was taken."""
        self._interval_tokens += tokens
        self._report.tick(self._engine.step)

    def log_progress(self) -> None:
        """An interval of steps is over."""
        engine = self._engine
        engine.check_losses()
        if not engine.training.clip:
            engine.check_weights_finite()  # no norm has told of a gradient that is not finite
        loss, norm, tokens, nonfinite = engine.running_loss.pop_interval()
        now = time.perf_counter()
        speed = self._interval_tokens / max(
            1e-9, now - self._interval_start - self._untimed_seconds
        )
        self._interval_tokens, self._untimed_seconds, self._interval_start = 0, 0.0, now
        left = (now - self._start_time) / (engine.step - self._first_step)
        left *= engine.training.steps - engine.step
        self._write_event(
            "train",
            epoch=engine.stream.epoch,
            loss=loss,
            norm=norm,
            rate=engine.rate,
            # a gradient scaler skips such steps; without one they end the training
            **({"nonfinite_gradients": nonfinite} if nonfinite else {}),
            tokens=tokens,
            tokens_per_second=speed,
            seconds=engine.seconds,
        )
        steps = engine.training.steps
        self._report.log_progress(
            TrainingProgress(engine.step, steps, loss, engine.rate, speed, left)
        )
        if nonfinite:
            self._report.note(
                f"step {engine.step:,}  the gradients of {nonfinite:,} steps were not finite"
            )

    def log_validation(self, metrics: dict[str, float], best: bool) -> None:
        """Write the metrics of a validation."""
        self._write_event("validate", metrics=metrics, best=best)
        self._report.log_validation(self._engine.step, metrics, best)

    def roll_back(self) -> None:
        """Go on from the best weights."""
        best = self._engine.early_stopping.step
        self.run_untimed(self._engine.roll_back)
        self._write_event("rollback", best=best)
        self._report.note(f"step {self._engine.step:,}  set back to the weights of step {best:,}")

    def save_checkpoint(self) -> None:
        """Write a checkpoint, when all that the journal says of it is on the disk."""
        if self._journal is not None:
            self._journal.sync()
        self.run_untimed(self._engine.save)

    def run_untimed(self, work: Callable[[], Any]) -> Any:
        """Do some work whose time does not count as training."""
        before = time.perf_counter()
        done = work()
        self._untimed_seconds += time.perf_counter() - before
        return done

    def _write_event(self, event: str, **facts: Any) -> None:
        if self._journal is not None:
            self._journal.write(event, self._engine.step, **facts)


@contextmanager
def _open_journal(run: Path, step: int | None) -> Iterator[Journal]:
    """The journal, taken back with the checkpoints to where the training goes on."""
    checkpoints.remove_leftovers(run / "checkpoints")
    path = run / "journal.jsonl"
    if step is None:
        path.unlink(missing_ok=True)
    else:
        # in this order, killed at any moment, no checkpoint is there without its lines
        checkpoints.rewind(run / "checkpoints", step)
        journal.truncate(path, step)
    with Journal(path, tensorboard=run / "tensorboard", after=step or 0) as notes:
        yield notes


@contextmanager
def _preserve_global_state(model: nn.Module) -> Iterator[None]:
    """Random state, threads and modes are the caller's."""
    threads = torch.get_num_threads()
    with randomness.preserve_rng_state(), _preserve_modes(model):
        try:
            yield
        finally:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)


@contextmanager
def _preserve_modes(model: nn.Module) -> Iterator[None]:
    """Each module is in training or not afterwards as it was before."""
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
