"""One update of the weights, and all that must be saved so that the next one comes out the same."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.train import checkpoints, optimizers, randomness, schedules, trees
from regard.train.averaging import Average
from regard.train.checkpoints import Checkpoint
from regard.train.graphs import Replayed
from regard.train.losses import Running, Settled
from regard.train.settings import Training
from regard.train.stopping import Stopping
from regard.train.stream import Batches, Stream

# The mean over the tokens of a batch.
Loss = Callable[[nn.Module, Any], Tensor]


class DivergedError(ValueError):
    """The loss or the weights are not finite."""


class Engine:
    """A model in training: weights, optimizer, place in the data, and what was measured so far.

    Args:
        fabric: Lightning Fabric, its processes started.
        folder: where the checkpoints are.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Batches,
        training: Training,
        *,
        fabric: Any,
        folder: Path,
    ):
        self.training, self.fabric, self.folder = training, fabric, folder
        self.model = fabric.to_device(model)
        # a gradient scaler has to see gradients between the backward pass and a fused step
        fused = training.precision != "16-mixed"
        captured = training.captured and fabric.device.type == "cuda"
        self.optimizer = optimizers.made(model, training.optimizer, fused=fused, captured=captured)
        self._loss, self._stepping = fabric.setup(_Loss(model, loss), self.optimizer)
        self.average = Average(model, training.average) if training.average else None
        alone = Replayed(lambda batches: self._learn(batches, [1.0]), self._placed)
        self._replayed = alone if captured else None
        self._rate = training.optimizer.filled()["rate"]
        self.rate = 0.0  # of the step that was taken last
        self._batches = batches
        self.stream = Stream(batches)
        self.running = Running()
        self.stopping = Stopping()
        self.step = 0
        self.saved: int | None = None
        self._began, self._before = time.perf_counter(), 0.0
        randomness.seed(training.seed + fabric.global_rank)

    @property
    def done(self) -> bool:
        """Whether the last step was taken, or patience is used up."""
        return self.step >= self.training.steps or self.stopping.done(self.training.patience)

    @property
    def seconds(self) -> float:
        """How long it took so far, all sittings together."""
        return self._before + time.perf_counter() - self._began

    @property
    def judgeable(self) -> nn.Module:
        """The model whose weights count: the averaged one where there is an average."""
        return self.model if self.average is None else self.average.model

    def update(self) -> int:
        """Take one step; the tokens it learned from."""
        step = self.step + 1
        self.rate = self._rate * schedules.share(self.training.schedule, step, self.training.steps)
        optimizers.set_rate(self.optimizer, self.rate)
        batches, tokens = self._drawn()
        shares = [batch.tokens / max(1, tokens) for batch in batches]
        if self._replayed is None:
            *losses, norm = self._learn(self._placed(batches), shares)
        else:
            *losses, norm = self._replayed(batches)
        if self.average is not None:
            self.average.follow(self.model, step)
        self.running.add(step, losses, shares, tokens=tokens, norm=norm)
        self.step = step
        return tokens

    def _placed(self, batches: list[Any]) -> list[Any]:
        return [self.fabric.to_device(batch) for batch in batches]

    def _learn(self, batches: list[Any], shares: list[float]) -> tuple[Any, ...]:
        """Change the weights; the loss of each batch, and behind them the norm of the gradient."""
        fabric, losses = self.fabric, []
        # the gradients of the step before, and of what the caller did before that
        self.optimizer.zero_grad()
        for i, (batch, share) in enumerate(zip(batches, shares, strict=True), 1):
            # gradients are exchanged once a step, after its last batch
            with fabric.no_backward_sync(self._loss, enabled=i < len(batches)):
                loss = self._loss(_Held(batch))
                # processes are averaged, and should be summed
                weight = share * fabric.world_size
                fabric.backward(loss if weight == 1 else loss * weight)
            losses.append(loss.detach())
        norm = self._clipped()
        self._stepping.step()
        return *losses, norm

    def settle(self) -> list[Settled]:
        """Wait for the device and read the losses since then; refuse what is not finite.

        A gradient that is not finite is refused too, unless a scaler has skipped its step: the
        weights are lost with it, and the loss of the next step would be the first to show it.
        """
        settled = self.running.settle(self._total)
        scaled = bool(self.fabric.strategy.precision.state_dict())
        lost = [s for s in settled if not (s.norm is None or scaled or math.isfinite(s.norm))]
        for one in settled:
            if not math.isfinite(one.loss):
                raise self._diverged(f"the loss of step {one.step} is {one.loss}", lost)
            if one in lost:
                raise self._diverged(f"the gradient of step {one.step} is {one.norm}", lost)
        return settled

    def refuse_lost_weights(self) -> None:
        """Wait for the device, and refuse weights that are not finite."""
        if not trees.finite(list(self.model.parameters())):
            raise self._diverged(f"the weights after step {self.step} are not finite")

    def save(self) -> None:
        """Write a checkpoint of this step."""
        self.settle()
        self.refuse_lost_weights()
        everyones = self._gathered(randomness.state())
        if self.fabric.is_global_zero:
            checkpoints.save(self.folder, self._checkpoint(everyones), keep=self.training.keep)
        self.saved = self.step

    def load(self, step: int) -> None:
        """Go on from the checkpoint of `step`, as if nothing had happened."""
        found = checkpoints.load(self.folder, step)
        try:
            self._go_on_from(found)
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            where = self.folder / checkpoints.name(step)
            raise ValueError(f"{where} is of no training: {type(error).__name__}") from None

    def _go_on_from(self, found: Checkpoint) -> None:
        step = found.step
        state, kind = found.state, self.training.optimizer.kind
        if state["optimizer"] != kind:
            raise ValueError(
                f"fit: {checkpoints.name(step)} was trained with {state['optimizer']!s:.40}, "
                f"expected {kind}; resume with the same optimizer"
            )
        _refuse_other_types(state, step)
        self._load_learnt(found)
        if state["scaler"]:
            self.fabric.strategy.precision.load_state_dict(state["scaler"])
        self.stream = Stream(self._batches, **state["stream"])
        self.running = Running([Settled(*one) for one in state["running"]])
        was, now = state["training"], asdict(self.training)
        # what was best by another measure says nothing about this one
        if all(was[name] == now[name] for name in ("watch", "best")):
            self.stopping = Stopping(**state["stopping"])
        self.step = self.saved = step
        self._before = float(state["seconds"])
        everyones = found.trees["random"]
        randomness.restore(everyones[self.fabric.global_rank % len(everyones)])

    def load_best(self) -> None:
        """Give the model the weights that count: those judged best, or else those of now."""
        if self.stopping.best is not None and self.stopping.step != self.step:
            self.fabric.barrier()
            step, weights = self.stopping.step, ("model", "average")
            found = checkpoints.load(self.folder, step, only=weights).trees
            # the average is what was judged, where there was one
            self._load_weights(self.model, found.get("average", found["model"]), step)
        elif self.average is not None:
            self.model.load_state_dict(self.average.model.state_dict())

    def set_back(self) -> None:
        """Go on from the weights that were judged best, at the place in the data of now."""
        self.fabric.barrier()
        learnt = ("model", "average", "optimizer")
        self._load_learnt(checkpoints.load(self.folder, self.stopping.step, only=learnt))

    def agreed(self, wish: bool) -> bool:
        """Whether any process has this wish."""
        if self.fabric.world_size == 1:
            return wish
        agreed: bool = self.fabric.strategy.reduce_boolean_decision(wish, all=False)
        return agreed

    def _drawn(self) -> tuple[list[Any], int]:
        """The batches of this process for one step, and the tokens of all processes.

        Process r takes every world-th batch. All of them draw all batches, so that they know how
        many tokens the others have without asking.
        """
        world, rank = self.fabric.world_size, self.fabric.global_rank
        drawn = [self.stream.next() for _ in range(world * self.training.accumulate)]
        return drawn[rank::world], sum(batch.tokens for batch in drawn)

    def _clipped(self) -> Tensor | None:
        if not self.training.clip:
            return None
        norm: Tensor = self.fabric.clip_gradients(
            self._loss, self._stepping, max_norm=self.training.clip, error_if_nonfinite=False
        )
        return norm.detach()

    def _total(self, sums: Tensor) -> Tensor:
        if self.fabric.world_size == 1:
            return sums
        total: Tensor = self.fabric.all_reduce(sums.to(self.fabric.device), reduce_op="sum")
        return total.cpu()

    def _gathered(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """The state of every process, in the order of their ranks."""
        if self.fabric.world_size == 1:
            return [state]
        states: list[Any] = [None] * self.fabric.world_size
        torch.distributed.all_gather_object(states, state)
        return states

    def _checkpoint(self, everyones: list[dict[str, Any]]) -> Checkpoint:
        found = {
            "model": self.model.state_dict(),
            "optimizer": optimizers.moments(self.optimizer, self.model),
            "random": everyones,
        }
        if self.average is not None:
            found["average"] = self.average.model.state_dict()
        state = {
            "optimizer": self.training.optimizer.kind,
            "scaler": self.fabric.strategy.precision.state_dict(),
            "stream": {"epoch": self.stream.epoch, "batch": self.stream.batch},
            "running": self.running.settled,
            "stopping": asdict(self.stopping),
            "seconds": self.seconds,
            "training": asdict(self.training),
            "torch": torch.__version__,
        }
        best = None if self.stopping.best is None else self.stopping.step
        return Checkpoint(self.step, found, state, best)

    def _load_learnt(self, found: Checkpoint) -> None:
        """Take the weights and the moments of a checkpoint."""
        self._load_weights(self.model, found.trees["model"], found.step)
        if self.average is not None:
            # an average that was not there before begins with the weights of now
            weights = found.trees.get("average", found.trees["model"])
            self._load_weights(self.average.model, weights, found.step)
        optimizers.remember(self.optimizer, self.model, found.trees["optimizer"])

    def _load_weights(self, model: nn.Module, weights: dict[str, Tensor], step: int) -> None:
        where = self.folder / checkpoints.name(step)
        _refuse_other_dtypes(model, weights, where)
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(
                f"{where} is of another model: {str(error).splitlines()[-1].strip()}"
            ) from None

    def _diverged(self, what: str, lost: Sequence[Settled] = ()) -> DivergedError:
        counted = f" (gradients of {len(lost)} steps are not finite)" if len(lost) > 1 else ""
        if self.saved is None:
            way_out = "nothing was saved: begin with finite weights"
        else:
            saved = checkpoints.name(self.saved)
            way_out = f"{saved} is whole: go on from there with a lower rate or clip"
        return DivergedError(f"fit: {what}; {way_out}{counted}")


def _refuse_other_types(state: dict[str, Any], step: int) -> None:
    """Raise TypeError unless each part of the state of a training at `step` is of its type."""
    stopping, best = state["stopping"], state["stopping"]["best"]
    fits = {
        "seconds": _is_number(state["seconds"]) and math.isfinite(state["seconds"]),
        "stream": all(type(place) is int for place in state["stream"].values()),
        "scaler": isinstance(state["scaler"], dict),
        "running": type(state["running"]) is list and all(map(_is_settled, state["running"])),
        "best": best is None or (_is_number(best) and math.isfinite(best)),
        "step": type(stopping["step"]) is int and 0 <= stopping["step"] <= step,
        "metrics": all(map(_is_number, stopping["metrics"].values())),
        "bad": type(stopping["bad"]) is int and stopping["bad"] >= 0,
    }
    wrong = [name for name, right in fits.items() if not right]
    if wrong:
        raise TypeError(", ".join(wrong))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_settled(one: Any) -> bool:
    """True if these are the numbers of one step, as JSON holds them."""
    if not isinstance(one, list) or len(one) != len(Settled._fields):
        return False
    step, loss, tokens, norm = one
    whole = type(step) is int and type(tokens) is int
    return whole and _is_number(loss) and (norm is None or _is_number(norm))


def _refuse_other_dtypes(model: nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    """Refuse what would be rounded in silence: numbers of another kind than those of the model."""
    for name, own in model.state_dict().items():
        given = weights.get(name)
        if not isinstance(given, Tensor) or not isinstance(own, Tensor):
            continue
        floats = given.is_floating_point() and own.is_floating_point()
        if given.dtype != own.dtype and not floats:
            raise ValueError(
                f"{where} is of another model: expected {name} as {own.dtype}, got {given.dtype}"
            )


class _Held:
    """A batch that Lightning does not look into: its own precision is the loss's business."""

    __slots__ = ("batch",)

    def __init__(self, batch: Any):
        self.batch = batch


class _Loss(nn.Module):
    """Model and loss as one module, so that whatever the loss calls is inside autocast and DDP."""

    def __init__(self, model: nn.Module, loss: Loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, held: _Held) -> Tensor:
        return self.loss(self.model, held.batch)
