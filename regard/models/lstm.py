"""LSTM: what a Neural Turing Machine is measured by. Hochreiter and Schmidhuber 1997; in layers."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard import check

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LSTMConfig:
    """How the net is built; the defaults are those of Graves et al. 2014 for copying."""

    kind: Literal["lstm"] = "lstm"
    # channels that come in and go out at every step
    inputs: int = 10
    outputs: int = 8
    width: int = 256
    layers: int = 3

    def __post_init__(self) -> None:
        check.positive_fields("LSTM", self, "inputs", "outputs", "width", "layers")


class LSTM(nn.Module):
    """Layers of LSTMs, and a linear map of what the last one says."""

    def __init__(self, config: LSTMConfig):
        super().__init__()
        self.config = config
        self.layers = nn.LSTM(config.inputs, config.width, config.layers, batch_first=True)
        self.out = nn.Linear(config.width, config.outputs)

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What the net says at each step (B, T, O) to inputs (B, T, I), and its state then."""
        check.shape("LSTM", "inputs", inputs, B=None, T=None, I=self.config.inputs)
        said, state = self.layers(inputs, state)
        return self.out(said), state
