"""What a training is told: three frozen values that refuse to contradict themselves."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

OptimizerKind = Literal["adam", "adamw", "adadelta", "sgd"]
ScheduleKind = Literal["constant", "inverse_square_root", "linear", "cosine", "halving"]
# The largest that torch takes.
MAX_SEED = 2**64 - 1
Precision = Literal["32-true", "tf32", "bf16-mixed", "16-mixed"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Strategy = Literal["auto", "ddp"]
MonitorMode = Literal["lowest", "highest"]

# What each kind of optimizer is told when nothing is said, and so also what it can be told.
OPTIMIZER_DEFAULTS: dict[str, dict[str, Any]] = {
    "adam": {"rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.0},
    "adamw": {"rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.01},
    # Bahdanau et al. 2015, B.2
    "adadelta": {"rate": 1.0, "rho": 0.95, "eps": 1e-6, "decay": 0.0},
    "sgd": {"rate": 0.1, "momentum": 0.0, "decay": 0.0},
}


@dataclass(frozen=True)
class Optimizer:
    """How weights follow their gradients; None takes the default of the kind."""

    kind: OptimizerKind = "adam"
    # the highest rate; the schedule takes its share of it
    rate: float | None = None
    # adam, adamw
    betas: tuple[float, float] | None = None
    eps: float | None = None
    # adadelta: how much of the past is kept
    rho: float | None = None
    # sgd
    momentum: float | None = None
    # of matrices, not of biases and norms; adamw decays beside the gradient, others inside it
    decay: float | None = None

    def __post_init__(self) -> None:
        _check_choice("Optimizer", "kind", self.kind, get_args(OptimizerKind))
        for name in ("rate", "betas", "eps", "rho", "momentum", "decay"):
            if getattr(self, name) is not None and name not in OPTIMIZER_DEFAULTS[self.kind]:
                raise ValueError(
                    f"Optimizer: {self.kind} has no {name}; it has "
                    f"{', '.join(OPTIMIZER_DEFAULTS[self.kind])}"
                )
        for name in ("rate", "eps"):
            _check_above("Optimizer", name, getattr(self, name))
        _check_at_least("Optimizer", "decay", self.decay, 0)
        for name, share in (("rho", self.rho), ("momentum", self.momentum)):
            _check_fraction("Optimizer", name, share)
        for beta in self.betas or ():
            _check_fraction("Optimizer", "betas", beta)

    def hyperparameters(self) -> dict[str, Any]:
        """What this kind of optimizer is told, its defaults filled in."""
        given = {name: getattr(self, name) for name in OPTIMIZER_DEFAULTS[self.kind]}
        return OPTIMIZER_DEFAULTS[self.kind] | {k: v for k, v in given.items() if v is not None}


@dataclass(frozen=True)
class Schedule:
    """How the rate goes with the step: up for `warmup` steps, and then as `kind` says."""

    kind: ScheduleKind = "constant"
    # steps over which the rate rises from zero
    warmup: int = 0
    # linear, cosine: the share of the highest rate that is left at the end
    floor: float = 0.0
    # halving: the rate is halved at step `after`, and then every `every` steps
    after: int | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        _check_choice("Schedule", "kind", self.kind, get_args(ScheduleKind))
        _check_at_least("Schedule", "warmup", self.warmup, 0)
        _check_at_least("Schedule", "floor", self.floor, 0)
        if self.kind == "inverse_square_root" and self.warmup < 1:
            raise ValueError("Schedule: inverse_square_root expected warmup of at least 1, got 0")
        if self.floor > 1 or (self.floor and self.kind not in ("linear", "cosine")):
            raise ValueError(
                f"Schedule: expected floor from 0 to 1, for linear and cosine alone, "
                f"got {self.floor} for {self.kind}"
            )
        halving = (self.after, self.every)
        if self.kind != "halving" and halving != (None, None):
            raise ValueError(f"Schedule: after and every belong to halving, not to {self.kind}")
        if self.kind == "halving" and (None in halving or min(halving) < 1):  # type: ignore[type-var, operator]
            raise ValueError(
                f"Schedule: halving expected after and every of at least 1, "
                f"got {self.after} and {self.every}"
            )


@dataclass(frozen=True)
class Training:
    """How a model is trained: everything `fit` is told, apart from the model and its data."""

    # updates of the weights
    steps: int = 10_000
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    # the largest norm of the gradient; 0 does not clip
    clip: float = 1.0
    # batches of one device that make one update, weighted by their tokens
    accumulate: int = 1
    # 32-true leaves the model as it is, float64 too; tf32 lets a GPU multiply with 10 bits
    precision: Precision = "32-true"
    device: Device = "auto"
    # how many of them
    devices: int = 1
    strategy: Strategy = "auto"
    # on a GPU, record the step of each form of batch once and replay it; the model must not wait
    cuda_graphs: bool = False
    # off a GPU, compile what is taken step by step; worth it from a thousand steps on
    torch_compile: bool = False
    # share of the past in the moving average of the weights; 0 does not average
    ema_decay: float = 0.0
    # steps between validations; 0 validates at the end alone
    validate_every: int = 1000
    # validations without a new best before it stops early; 0 never does
    patience: int = 0
    # the validation metric that decides what is best
    monitor: str = "loss"
    monitor_mode: MonitorMode = "lowest"
    # validated so many times worse than the best, it goes on from the best; 0 never goes back
    rollback_ratio: float = 0.0
    # steps between checkpoints
    save_every: int = 1000
    # how many of the newest checkpoints stay, the best aside
    keep_checkpoints: int = 2
    # steps between lines of the journal; the device is waited for that often
    report_every: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        _check_choice("Training", "precision", self.precision, get_args(Precision))
        _check_choice("Training", "device", self.device, get_args(Device))
        _check_choice("Training", "strategy", self.strategy, get_args(Strategy))
        _check_choice("Training", "monitor_mode", self.monitor_mode, get_args(MonitorMode))
        for name in (
            "steps",
            "accumulate",
            "devices",
            "save_every",
            "keep_checkpoints",
            "report_every",
        ):
            _check_at_least("Training", name, getattr(self, name), 1)
        for name in ("clip", "validate_every", "patience"):
            _check_at_least("Training", name, getattr(self, name), 0)
        if not 0 <= self.seed <= MAX_SEED:
            raise ValueError(
                f"Training: expected seed from 0 to 2^64 - 1, got {str(self.seed)[:30]}"
            )
        _check_fraction("Training", "ema_decay", self.ema_decay)
        for name in ("patience", "rollback_ratio"):
            if getattr(self, name) and not self.validate_every:
                raise ValueError(f"Training: {name} needs validation, but validate_every is 0")
        if self.rollback_ratio and not self.rollback_ratio > 1:
            raise ValueError(
                "Training: expected rollback_ratio above 1, or 0 for none, "
                f"got {self.rollback_ratio}"
            )
        if self.cuda_graphs and (self.accumulate > 1 or self.devices > 1):
            raise ValueError(
                "Training: a step of cuda_graphs is one batch on one device, "
                f"got accumulate={self.accumulate} and devices={self.devices}"
            )
        if self.cuda_graphs and self.precision == "16-mixed":
            raise ValueError(
                "Training: 16-mixed waits for the GPU at every step; "
                "with cuda_graphs take bf16-mixed"
            )
        if self.precision == "16-mixed" and self.device == "cpu":
            raise ValueError("Training: 16-mixed needs a GPU; on a cpu take bf16-mixed")


def _check_choice(where: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{where}: expected {name} to be one of {', '.join(choices)}, got {value}")


def _check_at_least(where: str, name: str, value: int | float | None, least: int) -> None:
    if value is not None and not value >= least:
        raise ValueError(f"{where}: expected {name} of at least {least}, got {value}")


def _check_above(where: str, name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{where}: expected {name} above 0, got {value}")


def _check_fraction(where: str, name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < 1:
        raise ValueError(f"{where}: expected {name} from 0 to less than 1, got {value}")
