"""Attention that goes from point to point: a Transformer reads them, and a decoder points.

Kool, van Hoof and Welling 2019, "Attention, Learn to Solve Routing Problems!".
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from regard import door
from regard.functional.pointing import Left, Once
from regard.layers.norms import Norm
from regard.layers.sets import SetBlock, present
from regard.layers.touring import Places, Touring

# Each point once, and then the end.
COURSE = Once()


@dataclass(frozen=True)
class AttentionPointerConfig:
    """How it is built; the defaults are the paper's, but for the norm, which is that of POMO."""

    kind: Literal["attention_pointer"] = "attention_pointer"
    # coordinates of a point
    inputs: int = 2
    width: int = 128
    heads: int = 8
    layers: int = 3
    # how wide the feed-forward layers are inside
    inner: int = 512
    # over what numbers are made alike: the points of an instance, or those of many
    norm: Norm = "instance"
    # whether attention is as sharp among many points as among few
    sharpened: bool = False
    # the highest score that a point can have; 0 does not clip
    clip: float = 10.0

    def __post_init__(self) -> None:
        for name in ("inputs", "width", "heads", "layers", "inner"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"AttentionPointer: expected {name} of at least 1, got {getattr(self, name)}"
                )
        if self.norm not in get_args(Norm):
            raise ValueError(
                f"AttentionPointer: expected norm to be one of {', '.join(get_args(Norm))}, "
                f"got {self.norm}"
            )
        if not self.clip >= 0:
            raise ValueError(f"AttentionPointer: expected clip of at least 0, got {self.clip}")


class Going(NamedTuple):
    """Where each row is on its way."""

    places: Places
    left: Left  # over tokens
    first: Tensor  # (B,): the point it began at, and −1 before
    last: Tensor  # (B,): the point it is at


class AttentionPointer(nn.Module):
    """Reads points, and goes from one to the next until each has been pointed at."""

    def __init__(self, config: AttentionPointerConfig):
        super().__init__()
        c = self.config = config
        self.embed = nn.Linear(c.inputs, c.width)
        self.blocks = nn.ModuleList(
            SetBlock(
                c.width,
                c.heads,
                c.inner,
                norm=c.norm,
                where="after",
                sharpened=c.sharpened,
                bias=False,
            )
            for _ in range(c.layers)
        )
        self.touring = Touring(c.width, c.heads, clip=c.clip)

    @door.named
    def read(self, points: Tensor, lengths: Tensor) -> Places:
        """What is known of `points` (B, N, inputs), of which `lengths` (B,) are there."""
        x, there = self.embed(points), present(lengths, points.shape[1])
        for block in self.blocks:
            x = block(x, there)
        return self.touring.places(x, lengths)

    def forward(self, points: Tensor, lengths: Tensor, answers: Tensor) -> Tensor:
        """The log-probability of each point of `answers` (B, T), given those before it: (B, T).

        Behind the last point of an answer stands −1: its log-probability is 0.
        """
        places = self.read(points, lengths)
        return self.touring.log_probability(places, answers[:, None])[:, 0]

    @door.named
    def log_probability(self, read: Places, answers: Tensor, *, begun: bool = False) -> Tensor:
        """The same for several answers to the points of a row (B, S, T): (B, S, T).

        Args:
            begun: whether the first step was not chosen but given, so that its own is 0.
        """
        return self.touring.log_probability(read, answers, begun=begun)

    @door.named
    def walked(self, read: Places, *, starts: Tensor | None = None, drawn: bool = False) -> Tensor:
        """Whole tours (B, S, N), greedy or drawn; arguments as in `Touring.walked`."""
        return self.touring.walked(read, starts=starts, drawn=drawn)

    def start(self, source: Any) -> Going:
        """The state before the first token, for points (B, N, inputs) and lengths (B,)."""
        points, lengths = source
        nowhere = torch.full_like(lengths, -1)
        left = COURSE.start(lengths, points.shape[1] + 1)
        return Going(self.read(points, lengths), left, nowhere, nowhere)

    def step(self, tokens: Tensor, going: Going) -> tuple[Tensor, Going]:
        """The logits (B, N + 1) of the end and of each point, and the state after `tokens` (B,)."""
        places, at = going.places, tokens - 1
        left = COURSE.after(going.left, tokens)
        last = torch.where(at >= 0, at, going.last)
        first = torch.where(going.first < 0, at, going.first)
        begun, now = (x.clamp_min(0)[:, None] for x in (first, last))
        queries = self.touring.queries(places, begun, now)
        none = (first < 0)[:, None, None]
        queries = torch.where(none, self.touring.begun(places)[:, None], queries)
        logits = self.touring(places, queries, left.seen[:, None, 1:])[:, 0]
        ends = torch.zeros_like(logits[:, :1]).masked_fill(~left.seen[:, :1], -torch.inf)
        return torch.cat([ends, logits], 1), Going(places, left, first, last)
