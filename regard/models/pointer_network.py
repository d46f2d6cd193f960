"""Pointer Network: an answer that points at its inputs, however many there are.

Vinyals, Fortunato and Jaitly 2015, "Pointer Networks"; and the two that its tables set beside it,
which say indices out of a fixed vocabulary: an LSTM, and one with attention.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from regard import check, dispatch, fast_path
from regard.functional.pointing_rules import END, NoRepeats, PointingRule, Triangles
from regard.layers.pointer import Pointer, check_has_choice
from regard.layers.rnn import (
    RNNEncoder,
    gather_at,
    init_weights,
    step_cells,
    unroll_cells,
)
from regard.layers.sets import SetBlock, point_mask
from regard.layers.single_head import Additive

EncoderKind = Literal["lstm", "attention"]
OutputKind = Literal["pointer", "attention", "vocabulary"]
PointingRuleName = Literal["permutation", "subset", "triangles"]
# Which tokens may follow which: each point once; some of them, three at least; triangles.
POINTING_RULES: dict[str, PointingRule] = {
    "permutation": NoRepeats(),
    "subset": NoRepeats(min_points=3),
    "triangles": Triangles(),
}


@dataclass(frozen=True)
class PointerNetworkConfig:
    """How it is built; the defaults are the paper's."""

    kind: Literal["pointer_network"] = "pointer_network"
    # coordinates of a point
    inputs: int = 2
    # of the states, and between them and what is pointed at
    width: int = 256
    # what reads the points: an LSTM, from the first on, or blocks of attention, which know no order
    encoder: EncoderKind = "lstm"
    bidirectional: bool = False
    layers: int = 1
    # blocks of attention: heads, and how wide they are inside
    heads: int = 8
    feed_forward_width: int = 512
    # and whether they are as sharp among many points as among few
    scalable_softmax: bool = False
    # how often it looks around before it points
    glimpses: int = 0
    # it points; or says a number out of a vocabulary, with attention or without
    output: OutputKind = "pointer"
    # how many points such a vocabulary knows
    max_points: int = 50
    # what may follow what
    pointing_rule: PointingRuleName = "subset"

    def __post_init__(self) -> None:
        sizes = ("inputs", "width", "layers", "heads", "feed_forward_width", "max_points")
        check.positive_fields("PointerNetwork", self, *sizes)
        if self.glimpses < 0:
            raise ValueError(
                f"PointerNetwork: expected glimpses of at least 0, got {self.glimpses}"
            )
        choices = (
            ("encoder", EncoderKind),
            ("output", OutputKind),
            ("pointing_rule", PointingRuleName),
        )
        for name, kinds in choices:
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(
                    f"PointerNetwork: expected {name} to be one of {', '.join(get_args(kinds))}, "
                    f"got {getattr(self, name)}"
                )


class EncodedPoints(NamedTuple):
    """Points, read. A row of each table is a token: the end, and then the points."""

    table: Tensor  # (B, K, E): what the decoder hears when a token was pointed at
    memory: Tensor  # (B, K, E)
    keys: Tensor  # (B, K, E): the memory, as it is pointed at
    hidden: tuple[Tensor, ...]  # the decoder's state before its first step
    lengths: Tensor


class State(NamedTuple):
    """Where a decoder is on its way."""

    encoded: EncodedPoints
    hidden: tuple[Tensor, ...]
    rule_state: Any  # what the course knows


class PointEncoder(nn.Module):
    """What reads the points: an LSTM one after the other, or attention all at once."""

    def __init__(self, config: PointerNetworkConfig):
        super().__init__()
        c = config
        self.embed = nn.Linear(c.inputs, c.width)
        self.rnn = self.blocks = None
        if c.encoder == "lstm":
            self.rnn = RNNEncoder(
                c.width,
                c.width,
                layers=c.layers,
                cell="lstm",
                bidirectional=c.bidirectional,
                memory_width=c.width,
            )
            self.last = nn.Linear(c.width * (2 if c.bidirectional else 1), 2 * c.width)
        else:
            self.blocks = nn.ModuleList(
                SetBlock(
                    c.width, c.heads, c.feed_forward_width, scalable_softmax=c.scalable_softmax
                )
                for _ in range(c.layers)
            )
            self.norm = nn.LayerNorm(c.width)
            self.last = nn.Linear(c.width, 2 * c.width)

    def forward(self, points: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is heard of each point, and what is known of it (B, N, E), and of all (B, 2E)."""
        x = self.embed(points)
        if self.rnn is not None:
            memory, last = self.rnn(x, lengths)
            return x, memory, self.last(last[-1])
        there = point_mask(lengths, x.shape[1])
        for block in self.blocks:  # type: ignore[union-attr]
            x = block(x, there)
        x = self.norm(x)
        x = x if there is None else x * there[..., None]
        return x, x, self.last(x.sum(1) / lengths[:, None])


class PointerNetwork(nn.Module):
    """Reads points, and points at some of them, one after the other."""

    def __init__(self, config: PointerNetworkConfig):
        super().__init__()
        c = self.config = config
        self.encoder = PointEncoder(c)
        # what is heard before the first step, and what is pointed at to end
        self.first = nn.Parameter(torch.randn(c.width) * c.width**-0.5)
        self.end = nn.Parameter(torch.randn(c.width) * c.width**-0.5)
        self.cells = nn.ModuleList([nn.LSTMCell(c.width, c.width)])
        looks = c.glimpses if c.output == "pointer" else int(c.output == "attention")
        self.glimpses = nn.ModuleList(Additive(c.width, c.width, c.width) for _ in range(looks))
        self.pointer = Pointer(c.width, c.width, c.width) if c.output == "pointer" else None
        self.joins = nn.ModuleList(nn.Linear(2 * c.width, c.width) for _ in range(looks))
        self.words = nn.Linear(c.width, c.max_points + 1) if c.output != "pointer" else None
        self.apply(init_weights)

    @property
    def pointing_rule(self) -> PointingRule:
        """Which tokens may follow which."""
        return POINTING_RULES[self.config.pointing_rule]

    @dispatch.as_module_call
    def encode(self, points: Tensor, lengths: Tensor) -> EncodedPoints:
        """`points` (B, N, inputs), of which `lengths` (B,) are there."""
        heard, memory, last = self.encoder(points, lengths)
        B = len(points)
        table, memory = (
            torch.cat([row.expand(B, 1, -1).to(x.dtype), x], 1)
            for row, x in ((self.first, heard), (self.end, memory))
        )
        keys = memory if self.pointer is None else self.pointer.keys(memory)
        hidden = tuple(part.contiguous() for part in last.chunk(2, -1))
        return EncodedPoints(table, memory, keys, hidden, lengths)

    def forward(self, points: Tensor, lengths: Tensor, answers: Tensor) -> Tensor:
        """The log-probability of each point of `answers` (B, T) and of the end: (B, T + 1).

        Behind the last point of an answer stands −1; behind the end, 0 comes back.
        """
        return self.log_probability(self.encode(points, lengths), answers[:, None])[:, 0]

    @dispatch.as_module_call
    def log_probability(
        self, encoded: EncodedPoints, answers: Tensor, *, fixed_start: bool = False
    ) -> Tensor:
        """The same for several answers to the points of a row (B, S, T): (B, S, T + 1).

        All steps of all answers are one call of the LSTM and one of the pointer.

        Args:
            fixed_start: whether the first step was not chosen but given, so that its own is 0.
        """
        B, S, T = answers.shape
        K = encoded.keys.shape[1]
        tokens = nn.functional.pad(answers + 1, (0, 1)).flatten(0, 1)
        # the end counts once, and what stands behind it does not
        over = nn.functional.pad((tokens[:, :-1] == END).long().cumsum(1), (1, 0)) > 0
        index = tokens.masked_fill(over, -1)
        if fixed_start:
            index = torch.cat([torch.full_like(index[:, :1], -1), index[:, 1:]], 1)
        before = nn.functional.pad(tokens[:, :-1], (1, 0)).view(B, S * (T + 1))
        heard = _gather_rows(encoded.table, before).view(B * S, T + 1, -1)
        hidden = tuple(x.repeat_interleave(S, 0) for x in encoded.hidden)
        states = unroll_cells(self.cells, heard, hidden, _identity).reshape(B, S * (T + 1), -1)
        lengths, index = encoded.lengths.repeat_interleave(S), index.view(B, S * (T + 1))
        rule = self.pointing_rule.mask_all_steps(tokens, lengths, K).view(B, 1, S * (T + 1), K)
        if self.pointer is None:
            said = self._logits(states, encoded, rule).log_softmax(-1)
            found = said.gather(2, index.clamp_min(0)[..., None])[..., 0]
            found = found.masked_fill(index < 0, 0)
        else:
            states = self._apply_glimpses(states, encoded, rule)
            found = self.pointer.log_probability(states, encoded.keys, index, rule=rule)
        return found.view(B, S, T + 1)

    @dispatch.as_module_call
    @torch.no_grad()
    def decode_tours(
        self, encoded: EncodedPoints, *, starts: Tensor | None = None, sample: bool = False
    ) -> Tensor:
        """Whole tours (B, S, N) through each point once, greedy or drawn, without looking back.

        Args:
            starts: where each tour of a row begins (B, S); None has one choose its own.
        """
        B, K = encoded.keys.shape[:2]
        S = 1 if starts is None else starts.shape[1]
        if starts is not None and S > 1 and not fast_path.not_observed():
            # who looks sees each tour in a row of its own, where queries count its steps
            alone = self.decode_tours(
                _repeat_rows(encoded, S), starts=starts.view(-1, 1), sample=sample
            )
            return alone.view(B, S, K - 1)
        hidden = tuple(x.repeat_interleave(S, 0) for x in encoded.hidden)
        now = self.pointing_rule.start(encoded.lengths.repeat_interleave(S), K)
        tokens, found = torch.zeros_like(now.visited_count), []
        for step in range(K - 1):
            hidden = step_cells(
                self.cells,
                _gather_rows(encoded.table, tokens.view(B, S)).flatten(0, 1),
                hidden,
                _identity,
            )
            given = starts.flatten() + 1 if starts is not None and step == 0 else None
            if given is None or not fast_path.not_observed():
                states, rule = hidden[0].view(B, S, -1), now.mask.view(B, 1, S, K)
                logits = self._logits(states, encoded, rule).flatten(0, 1)
                if sample:
                    logits = logits - torch.empty_like(logits).exponential_().log_()
                tokens = logits.argmax(1)
                if given is None and not fast_path.not_observed():
                    check_has_choice(logits, now.mask, step)
            tokens = tokens if given is None else given
            now = self.pointing_rule.advance(now, tokens)
            found.append(tokens - 1)
        return torch.stack(found, 1).view(B, S, K - 1)

    def start(self, source: Any) -> State:
        """The state before the first token, for points (B, N, inputs) and lengths (B,)."""
        points, lengths = source
        read = self.encode(points, lengths)
        return State(read, read.hidden, self.pointing_rule.start(lengths, read.keys.shape[1]))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (B, K) of the end and of each point, and the state after `tokens` (B,)."""
        read, now = state.encoded, self.pointing_rule.advance(state.rule_state, tokens)
        hidden = step_cells(self.cells, gather_at(read.table, tokens), state.hidden, _identity)
        logits = self._logits(hidden[0][:, None], read, now.mask[:, None, None])[:, 0]
        return logits, State(read, hidden, now)

    def _apply_glimpses(self, states: Tensor, encoded: EncodedPoints, rule: Tensor) -> Tensor:
        """The states (B, T, E) after they have looked around."""
        for glimpse, join in zip(self.glimpses, self.joins, strict=True):
            seen = glimpse(states, encoded.memory, rule=rule)
            states = torch.tanh(join(torch.cat([states, seen], -1)))
        return states

    def _logits(self, states: Tensor, encoded: EncodedPoints, rule: Tensor) -> Tensor:
        """What is said in each of the states (B, T, E): the logits of all tokens (B, T, ·).

        Whoever points does so by the rule; a vocabulary knows none, but which points there are.
        """
        if self.words is None:
            assert self.pointer is not None
            return self.pointer(
                self._apply_glimpses(states, encoded, rule), encoded.keys, rule=rule
            )
        there = (
            torch.arange(self.config.max_points + 1, device=states.device)
            <= encoded.lengths[:, None]
        )
        keys = there[:, None, None, : encoded.keys.shape[1]]
        said = self.words(self._apply_glimpses(states, encoded, keys))
        return said.masked_fill(~there[:, None], -torch.inf)


def _repeat_rows(encoded: EncodedPoints, count: int) -> EncodedPoints:
    """Each row of what was read, so many times."""
    table, memory, keys, lengths, *hidden = (
        x.repeat_interleave(count, 0) for x in (*encoded[:3], encoded.lengths, *encoded.hidden)
    )
    return EncodedPoints(table, memory, keys, tuple(hidden), lengths)


def _gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """The rows of a table (B, K, E) at `index` (B, T): (B, T, E)."""
    return table.gather(1, index[..., None].expand(-1, -1, table.shape[2]))


def _identity(x: Tensor) -> Tensor:
    return x
