"""What every recipe of a machine can be told, and what it refuses."""

from dataclasses import dataclass

from torch import nn

from regard.models.lstm import LSTM, LSTMConfig
from regard.models.ntm import NTM, NTMConfig
from regard.recipes.synthetic import Config
from regard.train.runs import check_name
from regard.train.settings import Optimizer, Schedule, Training

ModelConfig = NTMConfig | LSTMConfig
MODELS: dict[type, type[nn.Module]] = {NTMConfig: NTM, LSTMConfig: LSTM}

# Gradients are soon forgotten, as in the paper's RMSProp: machines learn in leaps.
ADAM = Optimizer("adam", rate=2e-3, betas=(0.9, 0.98))
TRAINING = Training(
    steps=8_000,
    optimizer=ADAM,
    schedule=Schedule("cosine", warmup=100),
    cuda_graphs=True,
    monitor="bits",
    validate_every=250,
    report_every=250,
    save_every=1000,
)


@dataclass(frozen=True)
class Batches:
    """What is learned from at a time."""

    # episodes a batch
    rows: int = 8
    # batches over which episodes become as long as they are to be; 0 are so from the beginning
    curriculum: int = 0

    def __post_init__(self) -> None:
        if self.rows < 1 or self.curriculum < 0:
            raise ValueError(
                "Batches: expected rows of at least 1 and curriculum of at least 0, "
                f"got {self.rows} and {self.curriculum}"
            )


def check_config(where: str, config: Config) -> None:
    """Refuse what contradicts itself, before a folder is opened."""
    check_name(where, config.name)
    if config.training.devices > 1:
        raise ValueError(f"{where}: one device for now, got training.devices of more")
    if isinstance(config.model, NTMConfig):
        check_fits_memory(where, config.data.slots, config.model.slots, hint="set model.slots")


def check_fits_memory(where: str, vectors: int, slots: int, *, hint: str = "") -> None:
    """Refuse more vectors than a memory has slots."""
    if vectors > slots:
        raise ValueError(
            f"{where}: {vectors} vectors do not fit into a memory of {slots} slots"
            + (f"; {hint} to at least {vectors}" if hint else "")
        )
