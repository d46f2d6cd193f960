"""One loop that trains any model: what is learned comes in as a loss, what counts as a judge."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from regard import compiling, mkl
from regard.train import checkpoints, devices, interrupts, journal, randomness
from regard.train.engine import Engine, Loss
from regard.train.interrupts import Asked
from regard.train.journal import Journal
from regard.train.progress import News, Report, silent
from regard.train.run_lock import BusyError, hold_lock
from regard.train.settings import Training
from regard.train.stream import Batches

# Measured on other data than that of the training.
Judge = Callable[[nn.Module], dict[str, float]]
Stopped = Literal["finished", "early", "interrupted"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a training gives.

    Args:
        model: the one that was given, now with the weights that were judged best; without a judge
            those of the last step; the averaged ones where there is an average.
        metrics: what the judge said of these weights.
        seconds: how long it took, all sittings together.
    """

    model: nn.Module
    step: int
    stopped: Stopped
    metrics: dict[str, float]
    seconds: float


def fit(
    model: nn.Module,
    loss: Loss,
    batches: Batches,
    training: Training,
    *,
    run: Path,
    judge: Judge | None = None,
    report: Report = silent,
    resume: bool | str = False,
) -> Fitted:
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
    for name in ("patience", "setback"):
        if judge is None and getattr(training, name):
            raise ValueError(f"fit: {name} needs judgements, but there is no judge")
    with ExitStack() as outside:
        outside.enter_context(_as_found(model))
        asked = outside.enter_context(interrupts.caught())
        outside.enter_context(devices.multiplying(training))
        fabric = devices.launched(training)
        if training.compiled and fabric.device.type != "cuda":
            outside.enter_context(compiling.asked())
        run = fabric.broadcast(run)
        _hold_lock(run, fabric, outside)
        step = _resumed(run / "checkpoints", resume)
        if step is not None and step > training.steps:
            raise ValueError(
                f"fit: the run is at step {step} already, expected training.steps of at least "
                f"that, got {training.steps}"
            )
        mkl.ready()  # or now and then a process would take its first step otherwise
        fabric.barrier()  # all have looked before the first one writes
        model.train()
        engine = Engine(model, loss, batches, training, fabric=fabric, folder=run / "checkpoints")
        if step is not None:
            engine.load(step)
        notes = outside.enter_context(_notes(run, step)) if fabric.is_global_zero else None
        teller = _Teller(engine, notes, report if fabric.is_global_zero else silent)
        stopped = teller.told(lambda: _trained(engine, judge, teller, asked))
        engine.load_best()
    return Fitted(model, engine.step, stopped, engine.stopping.metrics, engine.seconds)


def _hold_lock(run: Path, fabric: Any, outside: ExitStack) -> None:
    """Hold the lock of the run in the first process; all processes refuse a run that is busy."""
    refused = None
    if fabric.is_global_zero:
        try:
            outside.enter_context(hold_lock(run))
        except BusyError as error:
            refused = str(error)
    refused = fabric.broadcast(refused)
    if refused is not None:
        raise BusyError(refused)


def _resumed(folder: Path, resume: bool | str) -> int | None:
    """The step to go on from; None is the start."""
    there = checkpoints.steps(folder)
    if isinstance(resume, str):
        wanted = [step for step in there if checkpoints.name(step) == resume]
        if not wanted:
            names = ", ".join(map(checkpoints.name, there)) or "none"
            raise ValueError(
                f"fit: expected a checkpoint of {folder}, got {resume}; it has {names}"
            )
        return wanted[0]
    if resume:
        return checkpoints.latest(folder)
    if there:
        raise ValueError(
            f"fit: {folder} has a training of {there[-1]} steps; resume it (resume=True, or "
            "--resume on the command line), or take another folder"
        )
    return None


def _trained(engine: Engine, judge: Judge | None, teller: "_Teller", asked: Asked) -> Stopped:
    training = engine.training
    if engine.saved is None:
        teller.saved()
    stop = engine.agreed(bool(asked))
    while not engine.done and not stop:
        teller.stepped(engine.update())
        step, last = engine.step, engine.step == training.steps
        told = last or _due(step, training.report_every)
        if told:
            teller.trained()
        best = False
        if judge is not None and (last or _due(step, training.judge_every)):
            best = _judged(engine, judge, teller)
        # several processes ask each other only where they wait for each other anyway
        if told or engine.fabric.world_size == 1:
            stop = engine.agreed(bool(asked))
        if best or stop or engine.done or _due(step, training.save_every):
            teller.saved()
    if engine.step >= training.steps:
        return "finished"
    return "early" if engine.done else "interrupted"


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _judged(engine: Engine, judge: Judge, teller: "_Teller") -> bool:
    """Whether the judge finds these weights the best so far."""
    training, model, metrics = engine.training, engine.judgeable, {}
    if engine.fabric.is_global_zero:
        with randomness.kept(), _modes(model), torch.no_grad():
            model.eval()
            said = teller.paused(lambda: judge(model))
            metrics = {name: float(value) for name, value in said.items()}
    metrics = engine.fabric.broadcast(metrics)
    watch = training.watch
    engine.stopping = engine.stopping.after(engine.step, metrics, watch=watch, best=training.best)
    best = engine.stopping.bad == 0
    teller.judged(metrics, best)
    if engine.stopping.lost(metrics[watch], training.setback, best=training.best):
        teller.set_back()
    return best


class _Teller:
    """Says how it goes, to the journal and to the report."""

    def __init__(self, engine: Engine, notes: Journal | None, report: Report):
        self._engine, self._notes, self._report = engine, notes, report
        self._tokens, self._paused = 0, 0.0
        self._first = engine.step
        self._began = self._last = time.perf_counter()

    def told(self, train: Callable[[], Stopped]) -> Stopped:
        """Train, and say that it begins and how it ends."""
        engine, stopped, new = self._engine, "failed", not self._engine.done
        self._report.begin(engine.step, engine.training.steps)
        try:
            if new:
                event = "start" if engine.saved is None else "resume"
                self._note(event, training=asdict(engine.training), torch=torch.__version__)
            stopped = train()
            if new:
                self._note("stop", stopped=stopped, seconds=engine.seconds)
        finally:
            self._report.end(engine.step, stopped)
        return stopped

    def stepped(self, tokens: int) -> None:
        """A step was taken."""
        self._tokens += tokens
        self._report.tick(self._engine.step)

    def trained(self) -> None:
        """An interval of steps is over."""
        engine = self._engine
        engine.settle()
        if not engine.training.clip:
            engine.refuse_lost_weights()  # no norm has told of a gradient that is not finite
        loss, norm, tokens, nonfinite = engine.running.report()
        now = time.perf_counter()
        speed = self._tokens / max(1e-9, now - self._last - self._paused)
        self._tokens, self._paused, self._last = 0, 0.0, now
        left = (now - self._began) / (engine.step - self._first)
        left *= engine.training.steps - engine.step
        self._note(
            "train",
            epoch=engine.stream.epoch,
            loss=loss,
            norm=norm,
            rate=engine.rate,
            # a gradient scaler skips such steps; without one they end the training
            **({"nonfinite_gradients": nonfinite} if nonfinite else {}),
            tokens=tokens,
            tokens_a_second=speed,
            seconds=engine.seconds,
        )
        steps = engine.training.steps
        self._report.trained(News(engine.step, steps, loss, engine.rate, speed, left))
        if nonfinite:
            self._report.note(
                f"step {engine.step:,}  the gradients of {nonfinite:,} steps were not finite"
            )

    def judged(self, metrics: dict[str, float], best: bool) -> None:
        """The judge has spoken."""
        self._note("judge", metrics=metrics, best=best)
        self._report.judged(self._engine.step, metrics, best)

    def set_back(self) -> None:
        """Go on from the best weights."""
        best = self._engine.stopping.step
        self.paused(self._engine.set_back)
        self._note("setback", best=best)
        self._report.note(f"step {self._engine.step:,}  set back to the weights of step {best:,}")

    def saved(self) -> None:
        """Write a checkpoint, when all that the journal says of it is on the disk."""
        if self._notes is not None:
            self._notes.sync()
        self.paused(self._engine.save)

    def paused(self, work: Callable[[], Any]) -> Any:
        """Do some work whose time does not count as training."""
        before = time.perf_counter()
        done = work()
        self._paused += time.perf_counter() - before
        return done

    def _note(self, event: str, **facts: Any) -> None:
        if self._notes is not None:
            self._notes.write(event, self._engine.step, **facts)


@contextmanager
def _notes(run: Path, step: int | None) -> Iterator[Journal]:
    """The journal, taken back with the checkpoints to where the training goes on."""
    checkpoints.tidy(run / "checkpoints")
    path = run / "journal.jsonl"
    if step is None:
        path.unlink(missing_ok=True)
    else:
        # in this order, killed at any moment, no checkpoint is there without its lines
        checkpoints.back(run / "checkpoints", step)
        journal.cut(path, step)
    with Journal(path, tensorboard=run / "tensorboard", after=step or 0) as notes:
        yield notes


@contextmanager
def _as_found(model: nn.Module) -> Iterator[None]:
    """Random state, threads and modes are the caller's."""
    threads = torch.get_num_threads()
    with randomness.kept(), _modes(model):
        try:
            yield
        finally:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)


@contextmanager
def _modes(model: nn.Module) -> Iterator[None]:
    """Each module is in training or not afterwards as it was before."""
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
