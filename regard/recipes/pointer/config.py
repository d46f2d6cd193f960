"""What every recipe of a pointer network can be told, and what it refuses."""

import math
from dataclasses import dataclass

from torch import nn

from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig, PointingRuleName
from regard.recipes.synthetic import Config
from regard.train.runs import check_name
from regard.train.settings import Optimizer, Schedule, Training

ModelConfig = PointerNetworkConfig | AttentionPointerConfig
MODELS: dict[type, type[nn.Module]] = {
    PointerNetworkConfig: PointerNetwork,
    AttentionPointerConfig: AttentionPointer,
}

TRAINING = Training(
    steps=16_000,
    optimizer=Optimizer("adam", rate=1e-3, betas=(0.9, 0.98)),
    schedule=Schedule("cosine", warmup=500),
    cuda_graphs=True,
    ema_decay=0.999,
    monitor="accuracy",
    monitor_mode="highest",
    validate_every=2000,
    report_every=200,
    save_every=2000,
)


@dataclass(frozen=True)
class Batches:
    """What is learned from at a time."""

    # instances a batch; of tours, so many of the most cities, and of fewer ones more
    rows: int = 256

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"Batches: expected rows of at least 1, got {self.rows}")


def check_config(
    where: str, config: Config, *, pointing_rule: PointingRuleName = "permutation"
) -> None:
    """Refuse what contradicts itself, before a folder is opened.

    Args:
        pointing_rule: which points may follow which in an answer.
    """
    check_name(where, config.name)
    if config.training.devices > 1:
        raise ValueError(f"{where}: one device for now, got training.devices of more")
    if config.data.max_points > max_points(config.model):
        raise ValueError(
            f"{where}: a vocabulary of {max_points(config.model)} places cannot say "
            f"{config.data.max_points} points; set model.max_points to at least "
            f"{config.data.max_points}"
        )
    if pointing_rule != "permutation" and isinstance(config.model, AttentionPointerConfig):
        raise ValueError(
            f"{where}: an attention_pointer points at each point once, which is no answer here; "
            "set model=pointer_network"
        )


def max_points(model: ModelConfig) -> int | float:
    """Of how many points a model can tell; one that points, of any number."""
    if isinstance(model, PointerNetworkConfig) and model.output != "pointer":
        return model.max_points
    return math.inf
