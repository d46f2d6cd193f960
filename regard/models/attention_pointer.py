"""Attention that goes from point to point: a Transformer reads them, and a decoder points.

Kool, van Hoof and Welling 2019, "Attention, Learn to Solve Routing Problems!".
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from regard import check, dispatch
from regard.functional.pointing_rules import NoRepeats, NoRepeatsState
from regard.layers.norms import NormKind
from regard.layers.sets import SetBlock, point_mask
from regard.layers.tour_decoder import PointTables, TourDecoder

# Each point once, and then the end.
POINTING_RULE = NoRepeats()


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
    feed_forward_width: int = 512
    # over what numbers are made alike: the points of an instance, or those of many
    norm: NormKind = "instance"
    # whether attention is as sharp among many points as among few
    scalable_softmax: bool = False
    # the highest score that a point can have; 0 does not clip
    clip: float = 10.0

    def __post_init__(self) -> None:
        sizes = ("inputs", "width", "heads", "layers", "feed_forward_width")
        check.positive_fields("AttentionPointer", self, *sizes)
        if self.norm not in get_args(NormKind):
            raise ValueError(
                f"AttentionPointer: expected norm to be one of {', '.join(get_args(NormKind))}, "
                f"got {self.norm}"
            )
        if not self.clip >= 0:
            raise ValueError(f"AttentionPointer: expected clip of at least 0, got {self.clip}")


class State(NamedTuple):
    """Where each row is on its way."""

    encoded: PointTables
    rule_state: NoRepeatsState  # over tokens
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
                c.feed_forward_width,
                norm=c.norm,
                norm_position="after",
                scalable_softmax=c.scalable_softmax,
                bias=False,
            )
            for _ in range(c.layers)
        )
        self.decoder = TourDecoder(c.width, c.heads, clip=c.clip)

    @dispatch.as_module_call
    def encode(self, points: Tensor, lengths: Tensor) -> PointTables:
        """What is known of `points` (B, N, inputs), of which `lengths` (B,) are there."""
        x, there = self.embed(points), point_mask(lengths, points.shape[1])
        for block in self.blocks:
            x = block(x, there)
        return self.decoder.point_tables(x, lengths)

    def forward(self, points: Tensor, lengths: Tensor, answers: Tensor) -> Tensor:
        """The log-probability of each point of `answers` (B, T), given those before it: (B, T).

        Behind the last point of an answer stands −1: its log-probability is 0.
        """
        places = self.encode(points, lengths)
        return self.decoder.log_probability(places, answers[:, None])[:, 0]

    @dispatch.as_module_call
    def log_probability(
        self, encoded: PointTables, answers: Tensor, *, fixed_start: bool = False
    ) -> Tensor:
        """The same for several answers to the points of a row (B, S, T): (B, S, T).

        Args:
            fixed_start: whether the first step was not chosen but given, so that its own is 0.
        """
        return self.decoder.log_probability(encoded, answers, fixed_start=fixed_start)

    @dispatch.as_module_call
    def decode_tours(
        self, encoded: PointTables, *, starts: Tensor | None = None, sample: bool = False
    ) -> Tensor:
        """Whole tours (B, S, N), greedy or drawn; arguments as in `TourDecoder.decode_tours`."""
        return self.decoder.decode_tours(encoded, starts=starts, sample=sample)

    def start(self, source: Any) -> State:
        """The state before the first token, for points (B, N, inputs) and lengths (B,)."""
        points, lengths = source
        nowhere = torch.full_like(lengths, -1)
        left = POINTING_RULE.start(lengths, points.shape[1] + 1)
        return State(self.encode(points, lengths), left, nowhere, nowhere)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (B, N + 1) of the end and of each point, and the state after `tokens` (B,)."""
        places, at = state.encoded, tokens - 1
        left = POINTING_RULE.advance(state.rule_state, tokens)
        last = torch.where(at >= 0, at, state.last)
        first = torch.where(state.first < 0, at, state.first)
        begun, now = (x.clamp_min(0)[:, None] for x in (first, last))
        queries = self.decoder.queries(places, begun, now)
        none = (first < 0)[:, None, None]
        queries = torch.where(none, self.decoder.initial_query(places)[:, None], queries)
        logits = self.decoder(places, queries, left.mask[:, None, 1:])[:, 0]
        ends = torch.zeros_like(logits[:, :1]).masked_fill(~left.mask[:, :1], -torch.inf)
        return torch.cat([ends, logits], 1), State(places, left, first, last)
