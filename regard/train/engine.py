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
from regard.train.checkpoints import Checkpoint
from regard.train.cuda_graphs import GraphedCallable
from regard.train.early_stopping import EarlyStopping
from regard.train.ema import AveragedModel
from regard.train.running_loss import RunningLoss, StepStats
from regard.train.settings import Training
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
        captured = training.cuda_graphs and fabric.device.type == "cuda"
        self.optimizer = optimizers.build_optimizer(
            model, training.optimizer, fused=fused, capturable=captured
        )
        self._loss, self._fabric_optimizer = fabric.setup(_LossModule(model, loss), self.optimizer)
        self.average = AveragedModel(model, training.ema_decay) if training.ema_decay else None
        alone = GraphedCallable(
            lambda batches: self._update_weights(batches, [1.0]), self._to_device
        )
        self._graphed_update = alone if captured else None
        self._max_rate = training.optimizer.hyperparameters()["rate"]
        self.rate = 0.0  # of the step that was taken last
        self._batches = batches
        self.stream = Stream(batches)
        self.running_loss = RunningLoss()
        self.early_stopping = EarlyStopping()
        self.step = 0
        self.saved_step: int | None = None
        self._start_time, self._seconds_before = time.perf_counter(), 0.0
        randomness.seed_everything(training.seed + fabric.global_rank)

    @property
    def is_done(self) -> bool:
        """Whether the last step was taken, or patience is used up."""
        return self.step >= self.training.steps or self.early_stopping.is_out_of_patience(
            self.training.patience
        )

    @property
    def seconds(self) -> float:
        """How long it took so far, all sittings together."""
        return self._seconds_before + time.perf_counter() - self._start_time

    @property
    def eval_model(self) -> nn.Module:
        """The model whose weights count: the averaged one where there is an average."""
        return self.model if self.average is None else self.average.model

    def train_step(self) -> int:
        """Take one step; the tokens it learned from."""
        step = self.step + 1
        self.rate = self._max_rate * schedules.rate_factor(
            self.training.schedule, step, self.training.steps
        )
        optimizers.set_rate(self.optimizer, self.rate)
        batches, tokens = self._next_batches()
        shares = [batch.tokens / max(1, tokens) for batch in batches]
        if self._graphed_update is None:
            *losses, norm = self._update_weights(self._to_device(batches), shares)
        else:
            *losses, norm = self._graphed_update(batches)
        if self.average is not None:
            self.average.update(self.model, step)
        self.running_loss.add(step, losses, shares, tokens=tokens, norm=norm)
        self.step = step
        return tokens

    def _to_device(self, batches: list[Any]) -> list[Any]:
        return [self.fabric.to_device(batch) for batch in batches]

    def _update_weights(self, batches: list[Any], shares: list[float]) -> tuple[Any, ...]:
        """Change the weights; the loss of each batch, and behind them the norm of the gradient."""
        fabric, losses = self.fabric, []
        # the gradients of the step before, and of what the caller did before that
        self.optimizer.zero_grad()
        for i, (batch, share) in enumerate(zip(batches, shares, strict=True), 1):
            # gradients are exchanged once a step, after its last batch
            with fabric.no_backward_sync(self._loss, enabled=i < len(batches)):
                loss = self._loss(_OpaqueBatch(batch))
                # processes are averaged, and should be summed
                weight = share * fabric.world_size
                fabric.backward(loss if weight == 1 else loss * weight)
            losses.append(loss.detach())
        norm = self._clip_gradients()
        self._fabric_optimizer.step()
        return *losses, norm

    def check_losses(self) -> list[StepStats]:
        """Wait for the device and read the losses since then; refuse what is not finite.

        A gradient that is not finite is refused too, unless a scaler has skipped its step: the
        weights are lost with it, and the loss of the next step would be the first to show it.
        """
        settled = self.running_loss.synchronize(self._all_reduce_sum)
        scaled = bool(self.fabric.strategy.precision.state_dict())
        lost = [s for s in settled if not (s.norm is None or scaled or math.isfinite(s.norm))]
        for one in settled:
            if not math.isfinite(one.loss):
                raise self._divergence_error(f"the loss of step {one.step} is {one.loss}", lost)
            if one in lost:
                raise self._divergence_error(f"the gradient of step {one.step} is {one.norm}", lost)
        return settled

    def check_weights_finite(self) -> None:
        """Wait for the device, and refuse weights that are not finite."""
        if not trees.are_finite(list(self.model.parameters())):
            raise self._divergence_error(f"the weights after step {self.step} are not finite")

    def save(self) -> None:
        """Write a checkpoint of this step."""
        self.check_losses()
        self.check_weights_finite()
        everyones = self._all_gather(randomness.get_rng_state())
        if self.fabric.is_global_zero:
            checkpoints.save(
                self.folder, self._build_checkpoint(everyones), keep=self.training.keep_checkpoints
            )
        self.saved_step = self.step

    def load(self, step: int) -> None:
        """Go on from the checkpoint of `step`, as if nothing had happened."""
        found = checkpoints.load(self.folder, step)
        try:
            self._restore(found)
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            where = self.folder / checkpoints.folder_name(step)
            raise ValueError(f"{where} is of no training: {type(error).__name__}") from None

    def _restore(self, checkpoint: Checkpoint) -> None:
        step = checkpoint.step
        state, kind = checkpoint.state, self.training.optimizer.kind
        if state["optimizer"] != kind:
            raise ValueError(
                f"fit: {checkpoints.folder_name(step)} was trained with "
                f"{state['optimizer']!s:.40}, "
                f"expected {kind}; resume with the same optimizer"
            )
        _check_state_types(state, step)
        self._load_weights_and_optimizer(checkpoint)
        if state["scaler"]:
            self.fabric.strategy.precision.load_state_dict(state["scaler"])
        self.stream = Stream(self._batches, **state["stream"])
        self.running_loss = RunningLoss([StepStats(*one) for one in state["running"]])
        was, now = state["training"], asdict(self.training)
        # what was best by another measure says nothing about this one
        if all(was[name] == now[name] for name in ("monitor", "monitor_mode")):
            self.early_stopping = EarlyStopping(**state["stopping"])
        self.step = self.saved_step = step
        self._seconds_before = float(state["seconds"])
        everyones = checkpoint.trees["random"]
        randomness.set_rng_state(everyones[self.fabric.global_rank % len(everyones)])

    def load_best(self) -> None:
        """Give the model the weights that count: those judged best, or else those of now."""
        if self.early_stopping.best is not None and self.early_stopping.step != self.step:
            self.fabric.barrier()
            step, weights = self.early_stopping.step, ("model", "average")
            found = checkpoints.load(self.folder, step, only=weights).trees
            # the average is what was judged, where there was one
            self._load_weights(self.model, found.get("average", found["model"]), step)
        elif self.average is not None:
            self.model.load_state_dict(self.average.model.state_dict())

    def roll_back(self) -> None:
        """Go on from the weights that were judged best, at the place in the data of now."""
        self.fabric.barrier()
        learnt = ("model", "average", "optimizer")
        self._load_weights_and_optimizer(
            checkpoints.load(self.folder, self.early_stopping.step, only=learnt)
        )

    def any_process(self, flag: bool) -> bool:
        """Whether any process has this wish."""
        if self.fabric.world_size == 1:
            return flag
        agreed: bool = self.fabric.strategy.reduce_boolean_decision(flag, all=False)
        return agreed

    def _next_batches(self) -> tuple[list[Any], int]:
        """The batches of this process for one step, and the tokens of all processes.

        Process r takes every world-th batch. All of them draw all batches, so that they know how
        many tokens the others have without asking.
        """
        world, rank = self.fabric.world_size, self.fabric.global_rank
        drawn = [self.stream.next_batch() for _ in range(world * self.training.accumulate)]
        return drawn[rank::world], sum(batch.tokens for batch in drawn)

    def _clip_gradients(self) -> Tensor | None:
        if not self.training.clip:
            return None
        norm: Tensor = self.fabric.clip_gradients(
            self._loss,
            self._fabric_optimizer,
            max_norm=self.training.clip,
            error_if_nonfinite=False,
        )
        return norm.detach()

    def _all_reduce_sum(self, sums: Tensor) -> Tensor:
        if self.fabric.world_size == 1:
            return sums
        total: Tensor = self.fabric.all_reduce(sums.to(self.fabric.device), reduce_op="sum")
        return total.cpu()

    def _all_gather(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """The state of every process, in the order of their ranks."""
        if self.fabric.world_size == 1:
            return [state]
        states: list[Any] = [None] * self.fabric.world_size
        torch.distributed.all_gather_object(states, state)
        return states

    def _build_checkpoint(self, rng_states: list[dict[str, Any]]) -> Checkpoint:
        found = {
            "model": self.model.state_dict(),
            "optimizer": optimizers.named_state(self.optimizer, self.model),
            "random": rng_states,
        }
        if self.average is not None:
            found["average"] = self.average.model.state_dict()
        state = {
            "optimizer": self.training.optimizer.kind,
            "scaler": self.fabric.strategy.precision.state_dict(),
            "stream": {"epoch": self.stream.epoch, "batch": self.stream.batch},
            "running": self.running_loss.step_stats,
            "stopping": asdict(self.early_stopping),
            "seconds": self.seconds,
            "training": asdict(self.training),
            "torch": torch.__version__,
        }
        best = None if self.early_stopping.best is None else self.early_stopping.step
        return Checkpoint(self.step, found, state, best)

    def _load_weights_and_optimizer(self, checkpoint: Checkpoint) -> None:
        """Take the weights and the moments of a checkpoint."""
        self._load_weights(self.model, checkpoint.trees["model"], checkpoint.step)
        if self.average is not None:
            # an average that was not there before begins with the weights of now
            weights = checkpoint.trees.get("average", checkpoint.trees["model"])
            self._load_weights(self.average.model, weights, checkpoint.step)
        optimizers.load_named_state(self.optimizer, self.model, checkpoint.trees["optimizer"])

    def _load_weights(self, model: nn.Module, weights: dict[str, Tensor], step: int) -> None:
        where = self.folder / checkpoints.folder_name(step)
        _check_dtypes(model, weights, where)
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(
                f"{where} is of another model: {str(error).splitlines()[-1].strip()}"
            ) from None

    def _divergence_error(self, reason: str, nonfinite: Sequence[StepStats] = ()) -> DivergedError:
        counted = (
            f" (gradients of {len(nonfinite)} steps are not finite)" if len(nonfinite) > 1 else ""
        )
        if self.saved_step is None:
            way_out = "nothing was saved: begin with finite weights"
        else:
            saved = checkpoints.folder_name(self.saved_step)
            way_out = f"{saved} is whole: go on from there with a lower rate or clip"
        return DivergedError(f"fit: {reason}; {way_out}{counted}")


def _check_state_types(state: dict[str, Any], step: int) -> None:
    """Raise TypeError unless each part of the state of a training at `step` is of its type."""
    stopping, best = state["stopping"], state["stopping"]["best"]
    fits = {
        "seconds": _is_number(state["seconds"]) and math.isfinite(state["seconds"]),
        "stream": all(type(place) is int for place in state["stream"].values()),
        "scaler": isinstance(state["scaler"], dict),
        "running": type(state["running"]) is list and all(map(_is_step_stats, state["running"])),
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


def _is_step_stats(value: Any) -> bool:
    """True if these are the numbers of one step, as JSON holds them."""
    if not isinstance(value, list) or len(value) != len(StepStats._fields):
        return False
    step, loss, tokens, norm = value
    whole = type(step) is int and type(tokens) is int
    return whole and _is_number(loss) and (norm is None or _is_number(norm))


def _check_dtypes(model: nn.Module, weights: dict[str, Tensor], where: Path) -> None:
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


class _OpaqueBatch:
    """A batch that Lightning does not look into: its own precision is the loss's business."""

    __slots__ = ("batch",)

    def __init__(self, batch: Any):
        self.batch = batch


class _LossModule(nn.Module):
    """Model and loss as one module, so that whatever the loss calls is inside autocast and DDP."""

    def __init__(self, model: nn.Module, loss: Loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, wrapped: _OpaqueBatch) -> Tensor:
        return self.loss(self.model, wrapped.batch)
