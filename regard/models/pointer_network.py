"""Pointer Network: an answer that points at its inputs, however many there are.

Vinyals, Fortunato and Jaitly 2015, "Pointer Networks"; and the two that its tables set beside it,
which say indices out of a fixed vocabulary: an LSTM, and one with attention.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from regard import door
from regard.functional.pointing import END, Course, Once, Triples
from regard.layers.classic import Additive
from regard.layers.pointer import Pointer, refuse_stuck
from regard.layers.recurrent import Directions, Encoder, at, begin, stepped, unrolled
from regard.layers.sets import SetBlock, present

Reader = Literal["lstm", "attention"]
Says = Literal["pointer", "attention", "vocabulary"]
Follows = Literal["each", "some", "triangles"]
# Which tokens may follow which: each point once; some of them, three at least; triangles.
COURSES: dict[str, Course] = {"each": Once(), "some": Once(least=3), "triangles": Triples()}


@dataclass(frozen=True)
class PointerNetworkConfig:
    """How it is built; the defaults are the paper's."""

    kind: Literal["pointer_network"] = "pointer_network"
    # coordinates of a point
    inputs: int = 2
    # of the states, and between them and what is pointed at
    width: int = 256
    # what reads the points: an LSTM, from the first on, or blocks of attention, which know no order
    reader: Reader = "lstm"
    directions: Directions = "ahead"
    layers: int = 1
    # blocks of attention: heads, and how wide they are inside
    heads: int = 8
    inner: int = 512
    # and whether they are as sharp among many points as among few
    sharpened: bool = False
    # how often it looks around before it points
    glimpses: int = 0
    # it points; or says a number out of a vocabulary, with attention or without
    says: Says = "pointer"
    # how many points such a vocabulary knows
    places: int = 50
    # what may follow what
    follows: Follows = "some"

    def __post_init__(self) -> None:
        for name in ("inputs", "width", "layers", "heads", "inner", "places"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"PointerNetwork: expected {name} of at least 1, got {getattr(self, name)}"
                )
        if self.glimpses < 0:
            raise ValueError(
                f"PointerNetwork: expected glimpses of at least 0, got {self.glimpses}"
            )
        choices = (("reader", Reader), ("says", Says), ("follows", Follows))
        for name, kinds in choices:
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(
                    f"PointerNetwork: expected {name} to be one of {', '.join(get_args(kinds))}, "
                    f"got {getattr(self, name)}"
                )


class Read(NamedTuple):
    """Points, read. A row of each table is a token: the end, and then the points."""

    table: Tensor  # (B, K, E): what the decoder hears when a token was pointed at
    memory: Tensor  # (B, K, E)
    keys: Tensor  # (B, K, E): the memory, as it is pointed at
    hidden: tuple[Tensor, ...]  # the decoder's state before its first step
    lengths: Tensor


class Pointed(NamedTuple):
    """Where a decoder is on its way."""

    read: Read
    hidden: tuple[Tensor, ...]
    now: Any  # what the course knows


class Reading(nn.Module):
    """What reads the points: an LSTM one after the other, or attention all at once."""

    def __init__(self, config: PointerNetworkConfig):
        super().__init__()
        c = config
        self.embed = nn.Linear(c.inputs, c.width)
        self.ahead = self.blocks = None
        if c.reader == "lstm":
            self.ahead = Encoder(
                c.width,
                c.width,
                layers=c.layers,
                cell="lstm",
                directions=c.directions,
                memory_width=c.width,
            )
            self.last = nn.Linear(c.width * (2 if c.directions == "both" else 1), 2 * c.width)
        else:
            self.blocks = nn.ModuleList(
                SetBlock(c.width, c.heads, c.inner, sharpened=c.sharpened) for _ in range(c.layers)
            )
            self.norm = nn.LayerNorm(c.width)
            self.last = nn.Linear(c.width, 2 * c.width)

    def forward(self, points: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is heard of each point, and what is known of it (B, N, E), and of all (B, 2E)."""
        x = self.embed(points)
        if self.ahead is not None:
            memory, last = self.ahead(x, lengths)
            return x, memory, self.last(last[-1])
        there = present(lengths, x.shape[1])
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
        self.reading = Reading(c)
        # what is heard before the first step, and what is pointed at to end
        self.first = nn.Parameter(torch.randn(c.width) * c.width**-0.5)
        self.end = nn.Parameter(torch.randn(c.width) * c.width**-0.5)
        self.cells = nn.ModuleList([nn.LSTMCell(c.width, c.width)])
        looks = c.glimpses if c.says == "pointer" else int(c.says == "attention")
        self.glimpses = nn.ModuleList(Additive(c.width, c.width, c.width) for _ in range(looks))
        self.pointer = Pointer(c.width, c.width, c.width) if c.says == "pointer" else None
        self.joins = nn.ModuleList(nn.Linear(2 * c.width, c.width) for _ in range(looks))
        self.words = nn.Linear(c.width, c.places + 1) if c.says != "pointer" else None
        self.apply(begin)

    @property
    def course(self) -> Course:
        """Which tokens may follow which."""
        return COURSES[self.config.follows]

    @door.named
    def read(self, points: Tensor, lengths: Tensor) -> Read:
        """`points` (B, N, inputs), of which `lengths` (B,) are there."""
        heard, memory, last = self.reading(points, lengths)
        B = len(points)
        table, memory = (
            torch.cat([row.expand(B, 1, -1).to(x.dtype), x], 1)
            for row, x in ((self.first, heard), (self.end, memory))
        )
        keys = memory if self.pointer is None else self.pointer.keys(memory)
        hidden = tuple(part.contiguous() for part in last.chunk(2, -1))
        return Read(table, memory, keys, hidden, lengths)

    def forward(self, points: Tensor, lengths: Tensor, answers: Tensor) -> Tensor:
        """The log-probability of each point of `answers` (B, T) and of the end: (B, T + 1).

        Behind the last point of an answer stands −1; behind the end, 0 comes back.
        """
        return self.log_probability(self.read(points, lengths), answers[:, None])[:, 0]

    @door.named
    def log_probability(self, read: Read, answers: Tensor, *, begun: bool = False) -> Tensor:
        """The same for several answers to the points of a row (B, S, T): (B, S, T + 1).

        All steps of all answers are one call of the LSTM and one of the pointer.

        Args:
            begun: whether the first step was not chosen but given, so that its own is 0.
        """
        B, S, T = answers.shape
        K = read.keys.shape[1]
        tokens = nn.functional.pad(answers + 1, (0, 1)).flatten(0, 1)
        # the end counts once, and what stands behind it does not
        over = nn.functional.pad((tokens[:, :-1] == END).long().cumsum(1), (1, 0)) > 0
        index = tokens.masked_fill(over, -1)
        if begun:
            index = torch.cat([torch.full_like(index[:, :1], -1), index[:, 1:]], 1)
        before = nn.functional.pad(tokens[:, :-1], (1, 0)).view(B, S * (T + 1))
        heard = _rows(read.table, before).view(B * S, T + 1, -1)
        hidden = tuple(x.repeat_interleave(S, 0) for x in read.hidden)
        states = unrolled(self.cells, heard, hidden, _same).reshape(B, S * (T + 1), -1)
        lengths, index = read.lengths.repeat_interleave(S), index.view(B, S * (T + 1))
        rule = self.course.along(tokens, lengths, K).view(B, 1, S * (T + 1), K)
        if self.pointer is None:
            said = self._logits(states, read, rule).log_softmax(-1)
            found = said.gather(2, index.clamp_min(0)[..., None])[..., 0]
            found = found.masked_fill(index < 0, 0)
        else:
            states = self._looked(states, read, rule)
            found = self.pointer.log_probability(states, read.keys, index, rule=rule)
        return found.view(B, S, T + 1)

    @door.named
    @torch.no_grad()
    def walked(self, read: Read, *, starts: Tensor | None = None, drawn: bool = False) -> Tensor:
        """Whole tours (B, S, N) through each point once, greedy or drawn, without looking back.

        Args:
            starts: where each tour of a row begins (B, S); None has one choose its own.
        """
        B, K = read.keys.shape[:2]
        S = 1 if starts is None else starts.shape[1]
        if starts is not None and S > 1 and not door.alone():
            # who looks sees each tour in a row of its own, where queries count its steps
            alone = self.walked(_each(read, S), starts=starts.view(-1, 1), drawn=drawn)
            return alone.view(B, S, K - 1)
        hidden = tuple(x.repeat_interleave(S, 0) for x in read.hidden)
        now = self.course.start(read.lengths.repeat_interleave(S), K)
        tokens, found = torch.zeros_like(now.gone), []
        for step in range(K - 1):
            hidden = stepped(
                self.cells, _rows(read.table, tokens.view(B, S)).flatten(0, 1), hidden, _same
            )
            given = starts.flatten() + 1 if starts is not None and step == 0 else None
            if given is None or not door.alone():
                states, rule = hidden[0].view(B, S, -1), now.seen.view(B, 1, S, K)
                logits = self._logits(states, read, rule).flatten(0, 1)
                if drawn:
                    logits = logits - torch.empty_like(logits).exponential_().log_()
                tokens = logits.argmax(1)
                if given is None and not door.alone():
                    refuse_stuck(logits, now.seen, step)
            tokens = tokens if given is None else given
            now = self.course.after(now, tokens)
            found.append(tokens - 1)
        return torch.stack(found, 1).view(B, S, K - 1)

    def start(self, source: Any) -> Pointed:
        """The state before the first token, for points (B, N, inputs) and lengths (B,)."""
        points, lengths = source
        read = self.read(points, lengths)
        return Pointed(read, read.hidden, self.course.start(lengths, read.keys.shape[1]))

    def step(self, tokens: Tensor, pointed: Pointed) -> tuple[Tensor, Pointed]:
        """The logits (B, K) of the end and of each point, and the state after `tokens` (B,)."""
        read, now = pointed.read, self.course.after(pointed.now, tokens)
        hidden = stepped(self.cells, at(read.table, tokens), pointed.hidden, _same)
        logits = self._logits(hidden[0][:, None], read, now.seen[:, None, None])[:, 0]
        return logits, Pointed(read, hidden, now)

    def _looked(self, states: Tensor, read: Read, rule: Tensor) -> Tensor:
        """The states (B, T, E) after they have looked around."""
        for glimpse, join in zip(self.glimpses, self.joins, strict=True):
            seen = glimpse(states, read.memory, rule=rule)
            states = torch.tanh(join(torch.cat([states, seen], -1)))
        return states

    def _logits(self, states: Tensor, read: Read, rule: Tensor) -> Tensor:
        """What is said in each of the states (B, T, E): the logits of all tokens (B, T, ·).

        Whoever points does so by the rule; a vocabulary knows none, but which points there are.
        """
        if self.words is None:
            assert self.pointer is not None
            return self.pointer(self._looked(states, read, rule), read.keys, rule=rule)
        there = torch.arange(self.config.places + 1, device=states.device) <= read.lengths[:, None]
        keys = there[:, None, None, : read.keys.shape[1]]
        said = self.words(self._looked(states, read, keys))
        return said.masked_fill(~there[:, None], -torch.inf)


def _each(read: Read, count: int) -> Read:
    """Each row of what was read, so many times."""
    table, memory, keys, lengths, *hidden = (
        x.repeat_interleave(count, 0) for x in (*read[:3], read.lengths, *read.hidden)
    )
    return Read(table, memory, keys, tuple(hidden), lengths)


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """The rows of a table (B, K, E) at `index` (B, T): (B, T, E)."""
    return table.gather(1, index[..., None].expand(-1, -1, table.shape[2]))


def _same(x: Tensor) -> Tensor:
    return x
