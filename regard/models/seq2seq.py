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

from regard import check, dispatch
from regard.functional.selects import Select, hard, sampled, softmax
from regard.layers import deferred_weight_grads
from regard.layers.coverage import Coverage, LocationAware
from regard.layers.hard_attention import ReinforceSelect
from regard.layers.local_attention import LocalM, LocalP
from regard.layers.readouts import AttentionalReadout, Readout
from regard.layers.rnn import RNNEncoder, init_weights, step_cells, unroll_cells
from regard.layers.single_head import Additive, Dot, General, Location, SingleHeadAttention

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
AttentionLayer = SingleHeadAttention | LocalM | LocalP | Coverage | LocationAware


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
    # width of the layer before the output; query_state=previous takes the best of pairs
    readout: int = 500
    dropout: float = 0.0
    # how much what is read out is magnified before the output, whose weights are small when tied
    readout_scale: float = 1.0
    # one table for source, target and output, for languages that share a vocabulary
    tied: bool = False
    # look with the state before the step (Bahdanau), or with the one after it (Luong)
    query_state: Literal["previous", "current"] = "previous"
    # look everywhere, around the step's own number, or around a place that is predicted
    span: Literal["global", "local_m", "local_p"] = "global"
    # how far to either side a local span looks, and the filters of location_aware hear
    reach: int = 10
    # give the next step what was attended to, with query_state=current
    input_feeding: bool = True
    # read all places by their weights, or one that is drawn
    select: Literal["soft", "hard"] = "soft"
    # how many places of the source a location score knows
    max_source_length: int = 100
    # read the source from its end
    reversed: bool = False
    # read the source in both directions
    bidirectional: bool = True

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "embedding", "width", "layers", "alignment", "readout")
        check.positive_fields("Seq2Seq", self, *sizes, "reach", "max_source_length")
        check.dropout_fields("Seq2Seq", self, "dropout")
        if not self.readout_scale > 0:
            raise ValueError(f"Seq2Seq: expected readout_scale > 0, got {self.readout_scale}")
        if self.tied and self.readout != self.embedding:
            wanted = f"a readout as wide as the embedding, {self.embedding}"
            raise ValueError(f"Seq2Seq: tied embeddings need {wanted}, got {self.readout}")
        how = (self.query_state, self.span, self.select)
        if self.attention in ("none", "context") and how != ("previous", "global", "soft"):
            raise ValueError(
                f"Seq2Seq: attention {self.attention} looks at nothing: expected query_state "
                f"previous, span global and select soft, got {', '.join(how)}"
            )
        if self.attention in ("coverage", "location_aware") and self.span != "global":
            why = f"{self.attention} goes by all that was looked at"
            raise ValueError(f"Seq2Seq: {why}: expected span global, got {self.span}")

    @property
    def encoder_width(self) -> int:
        """How wide what the encoder leaves of a whole sentence is."""
        return 2 * self.width if self.bidirectional else self.width

    @property
    def memory_width(self) -> int:
        """How wide each place of the source is for the decoder."""
        return self.width if self.attention == "dot" else self.encoder_width


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
    query_state="current",
    reversed=True,
    bidirectional=False,
)


class State(NamedTuple):
    """What the decoder carries from step to step; all of it batch first."""

    hidden: tuple[Tensor, ...]  # a layer each (B, width); an LSTM's cells behind them
    memory: Tensor  # (B, S, memory)
    keys: Tensor  # (B, S, ·): the memory, projected once a sentence
    bias: Tensor  # (B, 1, 1, S): −inf in the padding, else 0
    lengths: Tensor  # (B,) of the sources
    context: Tensor  # (B, memory): what was read last
    attentional_state: Tensor | None  # (B, readout): what is fed to the next step, if anything
    position: Tensor | None  # (B,): how many steps were made, where the span goes by it
    past: Tensor | None  # (B, S): what was looked at, where the score goes by it


class SampledLogits(NamedTuple):
    """Logits of a decoder that drew where to look, and what REINFORCE needs to teach it."""

    logits: Tensor  # (B, T, V)
    log_probability: Tensor  # (B, T) of the drawn places; 0 in a batch that was read softly
    entropy: Tensor  # (B, T) of what was drawn from, in nats


class Decoder(nn.Module):
    """One step: look at the source and move on, or move on and look."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        kind = nn.GRUCell if config.cell == "gru" else nn.LSTMCell
        self.queries_previous_state = config.query_state == "previous"
        # what the cells read beside the word
        self.extra_input: Literal["nothing", "context", "attended"] = "context"
        if config.attention == "none":
            self.extra_input = "nothing"
        elif not self.queries_previous_state:
            self.extra_input = "attended" if config.input_feeding else "nothing"
        extra = {"nothing": 0, "context": config.memory_width, "attended": config.readout}
        widths = [config.embedding + extra[self.extra_input], *[config.width] * (config.layers - 1)]
        self.cells = nn.ModuleList(kind(width, config.width) for width in widths)
        self.attention: AttentionLayer | None = _build_attention(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, y: Tensor, state: State, select: Select = softmax) -> State:
        """The state after the word `y` (B, embedding)."""
        if self.queries_previous_state:
            state = self._with_context(state, select)
        beside = state.attentional_state if self.extra_input == "attended" else state.context
        x = y if self.extra_input == "nothing" or beside is None else torch.cat([y, beside], -1)
        state = state._replace(hidden=step_cells(self.cells, x, state.hidden, self.dropout))
        return state if self.queries_previous_state else self._with_context(state, select)

    @property
    def can_run_parallel(self) -> bool:
        """Whether the cells go the same way whatever was looked at, so that they can go ahead."""
        remembers = isinstance(self.attention, Coverage | LocationAware)
        return self.attention is None or (self.extra_input == "nothing" and not remembers)

    def run_parallel(self, words: Tensor, state: State, select: Select) -> tuple[Tensor, Tensor]:
        """The top states (B, T, width) of a heedless decoder after each of `words`, and contexts.

        Contexts are (B, T, memory), or (B, 1, memory) where all steps have the same.
        """
        x, context = words, state.context[:, None]
        if self.extra_input == "context":
            x = torch.cat([x, context.expand(-1, x.shape[1], -1)], -1)
        x = unroll_cells(self.cells, x, state.hidden, self.dropout)
        return x, context if self.attention is None else self._attend(x, state, select)[0]

    def _with_context(self, state: State, select: Select) -> State:
        """The state with the context that its top layer asks for."""
        if self.attention is None:
            return state
        context, state = self._attend(state.hidden[len(self.cells) - 1][:, None], state, select)
        return state._replace(context=context.squeeze(1))

    def _attend(self, x: Tensor, state: State, select: Select) -> tuple[Tensor, State]:
        """What the queries `x` (B, Q, width) read, and what is remembered of where they looked."""
        layer, memory, keys, bias = self.attention, state.memory, state.keys, state.bias
        if isinstance(layer, Coverage | LocationAware):
            assert state.past is not None
            context, past = layer(x, memory, past=state.past, keys=keys, bias=bias, select=select)
            return context, state._replace(past=past)
        if isinstance(layer, LocalM):
            assert state.position is not None
            context = layer(x, memory, keys=keys, start=state.position, bias=bias, select=select)
            return context, state._replace(position=state.position + x.shape[1])
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
        self.encoder = RNNEncoder(
            E,
            width,
            layers=config.layers,
            cell=config.cell,
            bidirectional=config.bidirectional,
            memory_width=config.memory_width,
            reversed=config.reversed,
            dropout=config.dropout,
        )
        bridged = 0 if config.attention == "context" else config.layers
        self.bridge = nn.ModuleList(nn.Linear(config.encoder_width, width) for _ in range(bridged))
        self.decoder = Decoder(config)
        self.readout = _build_readout(config)
        self.out = nn.Linear(config.readout, V)
        self.dropout = nn.Dropout(config.dropout)
        if config.select == "hard":
            # what a sentence is expected to cost, kept by the loss that uses `forward_sampled`
            self.register_buffer("baseline", torch.zeros(()))
        self.apply(init_weights)
        if config.tied:
            self.out.weight = self.target.weight

    def forward(self, source: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Logits (B, T, V) for the word after each of `target` (B, T).

        Where select is hard, places are drawn in training and the best are taken in evaluation.

        Args:
            source: tokens (B, S), and how many of each row are no padding (B,).
        """
        return self._teacher_forced_logits(source, target, self._select)

    def forward_sampled(self, source: tuple[Tensor, Tensor], target: Tensor) -> SampledLogits:
        """Logits of one draw of where to look, and what REINFORCE needs; arguments as in `forward`.

        Xu et al. 2015, 4.1: one batch in two is read softly instead, all of it.
        """
        if self.config.select != "hard":
            raise ValueError(f"Seq2Seq: expected select hard to draw, got {self.config.select}")
        soft, draws = torch.rand((), device=target.device).round(), list[ReinforceSelect]()

        def new_select() -> Select:
            draws.append(ReinforceSelect(soft))
            return draws[-1]

        logits = self._teacher_forced_logits(source, target, new_select)
        likely = torch.cat([one.log_probability for one in draws], -1)[:, 0]
        return SampledLogits(logits, likely, torch.cat([one.entropy for one in draws], -1)[:, 0])

    @dispatch.as_module_call
    def start(self, source: tuple[Tensor, Tensor], *, size: int | None = None) -> State:
        """The state before the first word, of any `size` the same; `source` as in `forward`."""
        check.token_batch("Seq2Seq", source)
        tokens, lengths = source
        B, S = tokens.shape
        longest = self.config.max_source_length
        if self.config.attention == "location" and longest < S:
            raise ValueError(f"Seq2Seq: {S} source tokens, but max_source_length is {longest}")
        memory, last = self.encoder(self._embed_tokens(self.source, tokens), lengths)
        places = torch.arange(S, device=tokens.device)
        layer, feeds = self.decoder.attention, self.decoder.extra_input == "attended"
        return State(
            hidden=self._initial_hidden(last),
            memory=memory,
            keys=memory if layer is None else layer.keys(memory),
            # A rule would guard against NaN in the padding at every step; the memory is zero there.
            bias=torch.where(places < lengths[:, None], 0.0, -torch.inf)[:, None, None],
            lengths=lengths,
            context=last[-1] if layer is None else memory.new_zeros(B, memory.shape[2]),
            attentional_state=memory.new_zeros(B, self.config.readout) if feeds else None,
            position=torch.zeros_like(lengths) if isinstance(layer, LocalM) else None,
            past=layer.init_past(memory) if isinstance(layer, Coverage | LocationAware) else None,
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) for the word after `tokens` (B,), and the state there."""
        word = self._embed_tokens(self.target, tokens)
        state = self._advance(word, state, self._select())
        if state.attentional_state is not None:
            return self._logits(state.attentional_state), state
        return self._logits(self.readout(self._top_hidden(state), word, state.context)), state

    def _teacher_forced_logits(
        self, source: tuple[Tensor, Tensor], target: Tensor, select: Callable[[], Select]
    ) -> Tensor:
        """Logits as of `forward`; `select` is asked for once a call of the attention."""
        check.shape("Seq2Seq", "target", target, B=source[0].shape[0], T=None)
        state, words = self.start(source), self._embed_tokens(self.target, target)
        if self.decoder.can_run_parallel:
            tops, contexts = self.decoder.run_parallel(words, state, select())
            return self._logits(self.readout(tops, words, contexts))
        states = []
        with deferred_weight_grads.maybe_defer_weight_grads(words):
            for word in words.to(state.memory.dtype).unbind(1):
                states.append(state := self._advance(word, state, select()))
        if fed := [one.attentional_state for one in states if one.attentional_state is not None]:
            return self._logits(torch.stack(fed, 1))
        tops = torch.stack([self._top_hidden(one) for one in states], 1)
        contexts = torch.stack([one.context for one in states], 1)
        return self._logits(self.readout(tops, words, contexts))

    def _logits(self, readout: Tensor) -> Tensor:
        scale = self.config.readout_scale
        return self.out(readout if scale == 1 else scale * readout)

    def _advance(self, word: Tensor, state: State, select: Select) -> State:
        state = self.decoder(word, state, select)
        if state.attentional_state is None:
            return state
        attentional_state = self.readout(self._top_hidden(state), word, state.context)
        return state._replace(attentional_state=attentional_state)

    def _select(self) -> Select:
        if self.config.select == "soft":
            return softmax
        return sampled() if self.training else hard

    def _embed_tokens(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        # drawn small, to serve as output weights too; as wide as the states when it is read
        return self.dropout(table(tokens) * self.config.embedding**0.5)

    def _top_hidden(self, state: State) -> Tensor:
        return state.hidden[self.config.layers - 1]

    def _initial_hidden(self, last: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The decoder's hidden states before the first word: handed over, or zero."""
        if self.config.attention == "context":
            hidden = tuple(h.new_zeros(h.shape[0], self.config.width) for h in last)
        else:
            hidden = tuple(torch.tanh(b(h)) for b, h in zip(self.bridge, last, strict=True))
        cells = tuple(map(torch.zeros_like, hidden)) if self.config.cell == "lstm" else ()
        return hidden + cells


def _build_readout(config: Seq2SeqConfig) -> Readout | AttentionalReadout:
    width, memory, dropout = config.width, config.memory_width, config.dropout
    if config.query_state == "current":
        return AttentionalReadout(width, memory, config.readout, dropout=dropout)
    context = None if config.attention == "none" else memory
    return Readout(width, config.embedding, context, config.readout, dropout=dropout)


def _build_attention(config: Seq2SeqConfig) -> AttentionLayer | None:
    """The attention of a decoder, or None if it looks at nothing."""
    width, memory, reach = config.width, config.memory_width, config.reach
    layer: SingleHeadAttention
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
            layer = Location(width, config.max_source_length)
        case "additive" | "concat":
            layer = Additive(width, memory, config.alignment)
    if config.span == "global":
        return layer
    local = LocalM if config.span == "local_m" else LocalP
    return local(width, memory, reach=reach, attention=layer)
