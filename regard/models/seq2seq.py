"""Sequence to sequence with recurrent nets, without attention and with every kind of it.

Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks" (the state is handed
over, the source reversed); Cho et al. 2014, "Learning Phrase Representations using RNN
Encoder-Decoder" (one context at every step); Bahdanau et al. 2015, "Neural Machine Translation by
Jointly Learning to Align and Translate" (a context of its own for every step); Luong et al. 2015,
"Effective Approaches to Attention-based Neural Machine Translation" (scores, spans, feeding); Tu
et al. 2016 and Chorowski et al. 2015 (what was looked at counts); Xu et al. 2015 (hard).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard import check, door
from regard.functional.selects import Select, hard, sampled, softmax
from regard.layers import deferred
from regard.layers.classic import Additive, Classic, Dot, General, Location
from regard.layers.coverage import Coverage, LocationAware
from regard.layers.hard import Draw
from regard.layers.local import LocalM, LocalP
from regard.layers.readouts import Attended, Readout
from regard.layers.recurrent import Encoder, begin, stepped, unrolled

# What the decoder knows of the source: its last state alone (none), one context that it is given at
# every step (context), or a context that it looks up anew at every step, by this score.
Attention = Literal[
    "none",
    "context",
    "additive",
    "dot",
    "general",
    "concat",
    "location",
    "coverage",
    "location_aware",
]
Looks = Classic | LocalM | LocalP | Coverage | LocationAware


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Sizes and parts; the defaults are Bahdanau's."""

    # by which a config is known among those of other models
    kind: Literal["seq2seq"] = field(default="seq2seq", kw_only=True)
    # words, or pieces of words
    vocabulary: int = 30_000
    embedding: int = 620
    # of the decoder's state, and of each direction of the encoder
    width: int = 1000
    layers: int = 1
    cell: Literal["gru", "lstm"] = "gru"
    # none hands the state over, context gives the decoder one at every step
    attention: Attention = "additive"
    # width of the layer inside the score
    alignment: int = 1000
    # width of the layer before the output; asked before, the better half of twice as many
    readout: int = 500
    dropout: float = 0.0
    # how much what is read out is magnified before the output, whose weights are small when tied
    gain: float = 1.0
    # one table for source, target and output, for languages that share a vocabulary
    tied: bool = False
    # look with the state before the step (Bahdanau), or with the one after it (Luong)
    asks: Literal["before", "after"] = "before"
    # look everywhere, around the step's own number, or around a place that is predicted
    span: Literal["global", "local_m", "local_p"] = "global"
    # how far to either side a local span looks, and the filters of location_aware hear
    reach: int = 10
    # give the next step what was attended to, where the state after the step asks
    feeding: bool = True
    # read all places by their weights, or one that is drawn
    select: Literal["soft", "hard"] = "soft"
    # how many places of the source a location score knows
    places: int = 100
    # read the source from its end
    reversed: bool = False
    # read the source ahead only, or in both directions
    directions: Literal["ahead", "both"] = "both"

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "embedding", "width", "layers", "alignment", "readout")
        for name in (*sizes, "reach", "places"):
            if getattr(self, name) < 1:
                raise ValueError(f"Seq2Seq: expected {name} ≥ 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1 or not self.gain > 0:
            got = f"{self.dropout} and {self.gain}"
            raise ValueError(f"Seq2Seq: expected dropout in [0, 1) and gain > 0, got {got}")
        if self.tied and self.readout != self.embedding:
            raise ValueError(
                f"Seq2Seq: tied embeddings need a readout as wide as the embedding, "
                f"{self.embedding}, got {self.readout}"
            )
        how = (self.asks, self.span, self.select)
        if self.attention in ("none", "context") and how != ("before", "global", "soft"):
            raise ValueError(
                f"Seq2Seq: attention {self.attention} looks at nothing: expected asks before, span "
                f"global and select soft, got {', '.join(how)}"
            )
        if self.attention in ("coverage", "location_aware") and self.span != "global":
            why = f"{self.attention} goes by all that was looked at"
            raise ValueError(f"Seq2Seq: {why}: expected span global, got {self.span}")

    @property
    def read(self) -> int:
        """How wide what the encoder leaves of a whole sentence is."""
        return 2 * self.width if self.directions == "both" else self.width

    @property
    def memory(self) -> int:
        """How wide each place of the source is for the decoder."""
        return self.width if self.attention == "dot" else self.read


RNNSEARCH = Seq2SeqConfig()
# Cho et al. 2014, as Bahdanau et al. trained it beside their own.
RNNENCDEC = Seq2SeqConfig(attention="context")
# Luong et al. 2015, 4.1; their best looks with span local_p.
LUONG = Seq2SeqConfig(
    vocabulary=50_000,
    embedding=1000,
    layers=4,
    cell="lstm",
    attention="general",
    readout=1000,
    dropout=0.2,
    asks="after",
    reversed=True,
    directions="ahead",
)


class State(NamedTuple):
    """What the decoder carries from step to step; all of it batch first."""

    hidden: tuple[Tensor, ...]  # a layer each (B, width); an LSTM's cells behind them
    memory: Tensor  # (B, S, memory)
    keys: Tensor  # (B, S, ·): the memory, projected once a sentence
    bias: Tensor  # (B, 1, 1, S): −inf in the padding, else 0
    lengths: Tensor  # (B,) of the sources
    context: Tensor  # (B, memory): what was read last
    attended: Tensor | None  # (B, readout): what is fed to the next step, if anything
    place: Tensor | None  # (B,): how many steps were made, where the span goes by it
    past: Tensor | None  # (B, S): what was looked at, where the score goes by it


class Drawn(NamedTuple):
    """Logits of a decoder that drew where to look, and what REINFORCE needs to teach it."""

    logits: Tensor  # (B, T, V)
    log_probability: Tensor  # (B, T) of the drawn places; 0 in a batch that was read softly
    entropy: Tensor  # (B, T) of what was drawn from, in nats


class Decoder(nn.Module):
    """One step: look at the source and move on, or move on and look."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        kind = nn.GRUCell if config.cell == "gru" else nn.LSTMCell
        self.before = config.asks == "before"
        # what the cells read beside the word
        self.feeds: Literal["nothing", "context", "attended"] = "context"
        if config.attention == "none" or (not self.before and not config.feeding):
            self.feeds = "nothing"
        elif not self.before:
            self.feeds = "attended"
        beside = {"nothing": 0, "context": config.memory, "attended": config.readout}[self.feeds]
        widths = [config.embedding + beside] + [config.width] * (config.layers - 1)
        self.cells = nn.ModuleList(kind(width, config.width) for width in widths)
        self.attention: Looks | None = _looking(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, y: Tensor, state: State, select: Select = softmax) -> State:
        """The state after the word `y` (B, embedding)."""
        if self.before:
            state = self._looked(state, select)
        beside = state.attended if self.feeds == "attended" else state.context
        x = y if self.feeds == "nothing" or beside is None else torch.cat([y, beside], -1)
        state = state._replace(hidden=stepped(self.cells, x, state.hidden, self.dropout))
        return state if self.before else self._looked(state, select)

    @property
    def heedless(self) -> bool:
        """Whether the cells go the same way whatever was looked at, so that they can go ahead."""
        remembers = isinstance(self.attention, Coverage | LocationAware)
        return self.attention is None or (self.feeds == "nothing" and not remembers)

    def ahead(self, words: Tensor, state: State, select: Select) -> tuple[Tensor, Tensor]:
        """The top states (B, T, width) of a heedless decoder after each of `words`, and contexts.

        Contexts are (B, T, memory), or (B, 1, memory) where all steps have the same.
        """
        x, context = words, state.context[:, None]
        if self.feeds == "context":
            x = torch.cat([x, context.expand(-1, x.shape[1], -1)], -1)
        x = unrolled(self.cells, x, state.hidden, self.dropout)
        return x, context if self.attention is None else self._read(x, state, select)[0]

    def _looked(self, state: State, select: Select) -> State:
        """The state with the context that its top layer asks for."""
        if self.attention is None:
            return state
        context, state = self._read(state.hidden[len(self.cells) - 1][:, None], state, select)
        return state._replace(context=context.squeeze(1))

    def _read(self, x: Tensor, state: State, select: Select) -> tuple[Tensor, State]:
        """What the queries `x` (B, Q, width) read, and what is remembered of where they looked."""
        layer, memory, keys, bias = self.attention, state.memory, state.keys, state.bias
        if isinstance(layer, Coverage | LocationAware):
            assert state.past is not None
            context, past = layer(x, memory, past=state.past, keys=keys, bias=bias, select=select)
            return context, state._replace(past=past)
        if isinstance(layer, LocalM):
            assert state.place is not None
            context = layer(x, memory, keys=keys, start=state.place, bias=bias, select=select)
            return context, state._replace(place=state.place + x.shape[1])
        if isinstance(layer, LocalP):
            lengths = state.lengths
            return layer(x, memory, keys=keys, lengths=lengths, bias=bias, select=select), state
        assert layer is not None
        return layer(x, memory, keys=keys, bias=bias, select=select), state


class Seq2Seq(nn.Module):
    """Read a sentence, then write another."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        V, E, width = config.vocabulary, config.embedding, config.width
        self.source = nn.Embedding(V, E)
        self.target = self.source if config.tied else nn.Embedding(V, E)
        self.encoder = Encoder(
            E,
            width,
            layers=config.layers,
            cell=config.cell,
            directions=config.directions,
            memory_width=config.memory,
            reversed=config.reversed,
            dropout=config.dropout,
        )
        bridged = 0 if config.attention == "context" else config.layers
        self.bridge = nn.ModuleList(nn.Linear(config.read, width) for _ in range(bridged))
        self.decoder = Decoder(config)
        self.readout = _readout(config)
        self.out = nn.Linear(config.readout, V)
        self.dropout = nn.Dropout(config.dropout)
        if config.select == "hard":
            # what a sentence is expected to cost, kept by the loss that uses what is `drawn`
            self.register_buffer("baseline", torch.zeros(()))
        self.apply(begin)
        if config.tied:
            self.out.weight = self.target.weight

    def forward(self, source: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Logits (B, T, V) for the word after each of `target` (B, T).

        Where select is hard, places are drawn in training and the best are taken in evaluation.

        Args:
            source: tokens (B, S), and how many of each row are no padding (B,).
        """
        return self._written(source, target, self._select)

    def drawn(self, source: tuple[Tensor, Tensor], target: Tensor) -> Drawn:
        """Logits of one draw of where to look, and what REINFORCE needs; arguments as in `forward`.

        Xu et al. 2015, 4.1: one batch in two is read softly instead, all of it.
        """
        if self.config.select != "hard":
            raise ValueError(f"Seq2Seq: expected select hard to draw, got {self.config.select}")
        soft, draws = torch.rand((), device=target.device).round(), list[Draw]()

        def draw() -> Select:
            draws.append(Draw(soft))
            return draws[-1]

        logits = self._written(source, target, draw)
        likely = torch.cat([one.log_probability for one in draws], -1)[:, 0]
        return Drawn(logits, likely, torch.cat([one.entropy for one in draws], -1)[:, 0])

    @door.named
    def start(self, source: tuple[Tensor, Tensor], *, size: int | None = None) -> State:
        """The state before the first word, of any `size` the same; `source` as in `forward`."""
        check.sentences("Seq2Seq", source)
        tokens, lengths = source
        B, S = tokens.shape
        if self.config.attention == "location" and self.config.places < S:
            raise ValueError(f"Seq2Seq: {S} source tokens, but places is {self.config.places}")
        memory, last = self.encoder(self._embedded(self.source, tokens), lengths)
        places = torch.arange(S, device=tokens.device)
        layer, feeds = self.decoder.attention, self.decoder.feeds == "attended"
        return State(
            hidden=self._first(last),
            memory=memory,
            keys=memory if layer is None else layer.keys(memory),
            # A rule would guard against NaN in the padding at every step; the memory is zero there.
            bias=torch.where(places < lengths[:, None], 0.0, -torch.inf)[:, None, None],
            lengths=lengths,
            context=last[-1] if layer is None else memory.new_zeros(B, memory.shape[2]),
            attended=memory.new_zeros(B, self.config.readout) if feeds else None,
            place=torch.zeros_like(lengths) if isinstance(layer, LocalM) else None,
            past=layer.begin(memory) if isinstance(layer, Coverage | LocationAware) else None,
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) for the word after `tokens` (B,), and the state there."""
        word = self._embedded(self.target, tokens)
        state = self._moved(word, state, self._select())
        if state.attended is not None:
            return self._logits(state.attended), state
        return self._logits(self.readout(self._top(state), word, state.context)), state

    def _written(
        self, source: tuple[Tensor, Tensor], target: Tensor, select: Callable[[], Select]
    ) -> Tensor:
        """Logits as of `forward`; `select` is asked for once a call of the attention."""
        check.shape("Seq2Seq", "target", target, B=source[0].shape[0], T=None)
        state, words = self.start(source), self._embedded(self.target, target)
        if self.decoder.heedless:
            tops, contexts = self.decoder.ahead(words, state, select())
            return self._logits(self.readout(tops, words, contexts))
        states = []
        with deferred.on_card(words):
            for word in words.to(state.memory.dtype).unbind(1):
                states.append(state := self._moved(word, state, select()))
        if fed := [one.attended for one in states if one.attended is not None]:
            return self._logits(torch.stack(fed, 1))
        tops = torch.stack([self._top(one) for one in states], 1)
        contexts = torch.stack([one.context for one in states], 1)
        return self._logits(self.readout(tops, words, contexts))

    def _logits(self, read: Tensor) -> Tensor:
        return self.out(read if self.config.gain == 1 else self.config.gain * read)

    def _moved(self, word: Tensor, state: State, select: Select) -> State:
        state = self.decoder(word, state, select)
        if state.attended is None:
            return state
        return state._replace(attended=self.readout(self._top(state), word, state.context))

    def _select(self) -> Select:
        if self.config.select == "soft":
            return softmax
        return sampled() if self.training else hard

    def _embedded(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        # drawn small, to serve as output weights too; as wide as the states when it is read
        return self.dropout(table(tokens) * self.config.embedding**0.5)

    def _top(self, state: State) -> Tensor:
        return state.hidden[self.config.layers - 1]

    def _first(self, last: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The decoder's hidden states before the first word: handed over, or zero."""
        if self.config.attention == "context":
            hidden = tuple(h.new_zeros(h.shape[0], self.config.width) for h in last)
        else:
            hidden = tuple(torch.tanh(b(h)) for b, h in zip(self.bridge, last, strict=True))
        cells = tuple(map(torch.zeros_like, hidden)) if self.config.cell == "lstm" else ()
        return hidden + cells


def _readout(config: Seq2SeqConfig) -> Readout | Attended:
    if config.asks == "after":
        return Attended(config.width, config.memory, config.readout, dropout=config.dropout)
    memory = None if config.attention == "none" else config.memory
    return Readout(config.width, config.embedding, memory, config.readout, dropout=config.dropout)


def _looking(config: Seq2SeqConfig) -> Looks | None:
    """The attention of a decoder, or None if it looks at nothing."""
    width, memory, reach = config.width, config.memory, config.reach
    layer: Classic
    match config.attention:
        case "none" | "context":
            return None
        case "coverage":
            return Coverage(width, memory, config.alignment)
        case "location_aware":
            return LocationAware(width, memory, config.alignment, reach=reach)
        case "dot":
            layer = Dot()
        case "general":
            layer = General(width, memory)
        case "location":
            layer = Location(width, config.places)
        case "additive" | "concat":
            layer = Additive(width, memory, config.alignment)
    if config.span == "global":
        return layer
    local = LocalM if config.span == "local_m" else LocalP
    return local(width, memory, reach=reach, attention=layer)
