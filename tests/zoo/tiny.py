"""A model that fits on a page, of a kind that only the tests know; and its folder, for breaking."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.zoo import model_kinds, saver

CARD = {"name": "tiny", "recipe": "translate", "numbers": {"bleu": 12.5}, "seed": 3}


@dataclass(frozen=True)
class TinyConfig:
    width: int = 3
    layers: int = 2
    tied: bool = False
    reach: int = 5

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"Tiny: expected width ≥ 1,\ngot {self.width}")


class Tiny(nn.Module):
    """Something of everything: an RNN, a tie, a saved buffer and one that is computed."""

    places: Tensor
    count: Tensor

    def __init__(self, config: TinyConfig):
        super().__init__()
        self.rnn = nn.GRU(config.width, config.width, config.layers, batch_first=True)
        self.first = nn.Linear(config.width, config.width)
        self.second = nn.Linear(config.width, config.width)
        if config.tied:
            self.second.weight = self.first.weight
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("places", torch.arange(config.reach) / 2, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.rnn(x)[0])) * self.count + self.places.sum()


def known() -> Callable[[], tuple[type, type[nn.Module]]]:
    return lambda: (TinyConfig, Tiny)


def saved(folder: Path, config: TinyConfig | None = None, **kwargs: object) -> Tiny:
    """A model, and its folder; `kinds.KINDS` must have "tiny"."""
    assert "tiny" in model_kinds.KINDS
    config = config or TinyConfig()
    torch.manual_seed(0)
    model = Tiny(config).eval()
    saver.save(folder, model, config, CARD, **kwargs)
    return model


def header(folder: Path) -> dict:
    data = (folder / "model.safetensors").read_bytes()
    return json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])


def safetensors(folder: Path, header: object, body: bytes = b"", length: int | None = None) -> None:
    """Write a safetensors file by hand, however wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    first = struct.pack("<Q", len(text) if length is None else length)
    (folder / "model.safetensors").write_bytes(first + text + body)


def card(folder: Path, **changed: object) -> None:
    """Change some fields of a card; None takes a field away."""
    path = folder / "card.json"
    fields = json.loads(path.read_text()) | changed
    path.write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
