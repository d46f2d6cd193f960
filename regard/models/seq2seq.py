"""Sequence to sequence with recurrent nets, without attention and with it.

Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks" (the state is handed
over); Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder" (one context at
every step); Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
Translate" (a context of its own for every step).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard import check
from regard.layers.classic import Additive

# What the decoder knows of the source: its last state alone, one context that it is given at every
# step, or a context that it looks up anew at every step.
Attention = Literal["none", "context", "additive"]


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Sizes and parts; the defaults are Bahdanau's."""

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
    # width of the layer before the output, the better half of twice as many
    readout: int = 500
    dropout: float = 0.0
    # one table for source, target and output, for languages that share a vocabulary
    tied: bool = False

    def __post_init__(self) -> None:
        for name in ("vocabulary", "embedding", "width", "layers", "alignment", "readout"):
            if getattr(self, name) < 1:
                raise ValueError(f"Seq2Seq: expected {name} ≥ 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"Seq2Seq: expected dropout in [0, 1), got {self.dropout}")
        if self.tied and self.readout != self.embedding:
            raise ValueError(
                f"Seq2Seq: tied embeddings need a readout as wide as the embedding, "
                f"{self.embedding}, got {self.readout}"
            )


RNNSEARCH = Seq2SeqConfig()
# Cho et al. 2014, as Bahdanau et al. trained it beside their own.
RNNENCDEC = Seq2SeqConfig(attention="context")


class Encoded(NamedTuple):
    """A source, read: what each place says, and what each layer was left with."""

    memory: Tensor  # (B, S, 2 width), zeros in the padding
    last: tuple[Tensor, ...]  # a layer each (B, 2 width): forward at the end, backward at the start


class State(NamedTuple):
    """What the decoder carries from step to step; all of it batch first."""

    hidden: tuple[Tensor, ...]  # a layer each (B, width); an LSTM's cells behind them
    memory: Tensor  # (B, S, 2 width)
    keys: Tensor  # (B, S, alignment): the memory, projected once a sentence
    bias: Tensor  # (B, 1, 1, S): −inf in the padding, else 0
    context: Tensor  # (B, 2 width): what was read last


class Encoder(nn.Module):
    """Reads the source in both directions."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        kind = nn.GRU if config.cell == "gru" else nn.LSTM
        widths = [config.embedding] + [2 * config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(
            kind(width, config.width, batch_first=True, bidirectional=True) for width in widths
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Encoded:
        """Everything that was read, of sources that end at `lengths` (B,)."""
        # Packing lets the backward direction start at each sentence's own end.
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        last = []
        for i, layer in enumerate(self.layers):
            if i:
                packed = packed._replace(data=self.dropout(packed.data))
            packed, left = layer(packed)
            left = left[0] if isinstance(left, tuple) else left  # (2, B, width)
            last.append(torch.cat(left.unbind(), -1))
        memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        return Encoded(memory, tuple(last))


class Decoder(nn.Module):
    """One step: look at the source from the state before, then move on."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        kind = nn.GRUCell if config.cell == "gru" else nn.LSTMCell
        reads = 0 if config.attention == "none" else 2 * config.width
        widths = [config.embedding + reads] + [config.width] * (config.layers - 1)
        self.cells = nn.ModuleList(kind(width, config.width) for width in widths)
        self.attention = (
            Additive(config.width, 2 * config.width, config.alignment)
            if config.attention == "additive"
            else None
        )
        self.reads = reads > 0
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, y: Tensor, state: State) -> State:
        """The state after the word `y` (B, embedding)."""
        context = state.context
        if self.attention is not None:
            query = state.hidden[len(self.cells) - 1]  # the top layer, a step ago
            context = self.attention(
                query[:, None], state.memory, keys=state.keys, bias=state.bias
            )[:, 0]
        x = torch.cat([y, context], -1) if self.reads else y
        n = len(self.cells)
        hidden, cells = [], []
        for i, cell in enumerate(self.cells):
            x = self.dropout(x) if i else x
            if isinstance(cell, nn.LSTMCell):
                x, c = cell(x, (state.hidden[i], state.hidden[n + i]))
                cells.append(c)
            else:
                x = cell(x, state.hidden[i])
            hidden.append(x)
        return state._replace(hidden=(*hidden, *cells), context=context)


class Readout(nn.Module):
    """Bahdanau et al. 2015, A.2.2: of what state, word and context say, the better of two.

    The state is s_i, as the probability is written there; the formula of t̃ has s_{i−1}.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.state = nn.Linear(config.width, 2 * config.readout)
        self.word = nn.Linear(config.embedding, 2 * config.readout, bias=False)
        reads = config.attention != "none"
        self.context = (
            nn.Linear(2 * config.width, 2 * config.readout, bias=False) if reads else None
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, state: Tensor, word: Tensor, context: Tensor) -> Tensor:
        """(..., readout)."""
        both = self.state(state) + self.word(word)
        if self.context is not None:
            both = both + self.context(context)
        return self.dropout(both.unflatten(-1, (-1, 2)).amax(-1))


class Seq2Seq(nn.Module):
    """Read a sentence, then write another."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        V, E, width = config.vocabulary, config.embedding, config.width
        self.source = nn.Embedding(V, E)
        self.target = self.source if config.tied else nn.Embedding(V, E)
        self.encoder = Encoder(config)
        bridged = 0 if config.attention == "context" else config.layers
        self.bridge = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(bridged))
        self.decoder = Decoder(config)
        self.readout = Readout(config)
        self.out = nn.Linear(config.readout, V)
        self.dropout = nn.Dropout(config.dropout)
        self.apply(_begin)
        if config.tied:
            self.out.weight = self.target.weight

    def forward(self, source: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Logits (B, T, V) for the word after each of `target` (B, T).

        Args:
            source: tokens (B, S), and how many of each row are no padding (B,).
        """
        check.shape("Seq2Seq", "target", target, B=source[0].shape[0], T=None)
        state, words = self.start(source), self._embedded(self.target, target)
        tops, contexts = [], []
        for word in words.unbind(1):
            state = self.decoder(word, state)
            tops.append(self._top(state))
            contexts.append(state.context)
        return self.out(self.readout(torch.stack(tops, 1), words, torch.stack(contexts, 1)))

    def start(self, source: tuple[Tensor, Tensor]) -> State:
        """The state before the first word; `source` as in `forward`."""
        tokens, lengths = source
        check.shape("Seq2Seq", "source", tokens, B=None, S=None)
        check.shape("Seq2Seq", "lengths", lengths, B=tokens.shape[0])
        S = tokens.shape[1]
        if check.readable(lengths) and not ((lengths > 0) & (lengths <= S)).all():
            raise ValueError(f"Seq2Seq: expected lengths from 1 to S={S}, got {lengths.tolist()}")
        memory, last = self.encoder(self._embedded(self.source, tokens), lengths)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        attention = self.decoder.attention
        return State(
            hidden=self._first(last),
            memory=memory,
            keys=memory if attention is None else attention.keys(memory),
            # A rule would guard against NaN in the padding at every step; the memory is zero there.
            bias=torch.where(places < lengths[:, None], 0.0, -torch.inf)[:, None, None],
            context=last[-1],
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) for the word after `tokens` (B,), and the state there."""
        word = self._embedded(self.target, tokens)
        state = self.decoder(word, state)
        return self.out(self.readout(self._top(state), word, state.context)), state

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


def _begin(module: nn.Module) -> None:
    """Recurrent matrices orthogonal, as Bahdanau's; the rest by the size of its layer.

    Bahdanau's other matrices are drawn at 0.01 and suit Adadelta; Adam is quicker from here.
    """
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        for name, weight in module.named_parameters():
            if "weight_hh" in name:
                for gate in weight.data.split(weight.shape[1]):
                    nn.init.orthogonal_(gate)
            elif "weight" in name:
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.zeros_(weight)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
