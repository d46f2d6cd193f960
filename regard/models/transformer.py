"""The Transformer, with any score in any of its attentions.

Vaswani et al. 2017, "Attention Is All You Need"; Shaw et al. 2018, "Self-Attention with Relative
Position Representations" (positions as distances); Zhu et al. 2019, "An Empirical Study of Spatial
Attention Mechanisms in Deep Networks" (a score of four factors, any of them switched off).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check, door
from regard.functional.scores import Score
from regard.layers import blocks as stacked
from regard.layers import positions, products, scores, swift
from regard.layers.blocks import DecoderBlock, Dropped, EncoderBlock, Norm, Scores, begin
from regard.layers.caches import Cache, Slots, StaticCache
from regard.layers.products import Make
from regard.layers.scores import FactorsScore, LearnedScore, RelativeScore
from regard.layers.shared import ROOM, Shared, Written


@dataclass(frozen=True)
class Factors:
    """Zhu et al. 2019, eq. 2: which of the four factors make up a score."""

    # E1: what is asked for and what the key says
    query_key: bool = True
    # E2: what is asked for and how far away the key is
    query_position: bool = True
    # E3: what the key says
    key: bool = True
    # E4: how far away the key is
    position: bool = True


ALL = Factors()


@dataclass(frozen=True)
class Attention:
    """One of the three attentions of a layer."""

    score: Literal["scaled_dot", "dot", "additive", "cosine", "general", "factors"] = "scaled_dot"
    # for score=factors alone
    factors: Factors = ALL

    def __post_init__(self) -> None:
        if self.factors != ALL and self.score != "factors":
            raise ValueError(
                f"Transformer: expected score 'factors' where factors are switched off, "
                f"got {self.score!r}"
            )
        if self.factors == Factors(False, False, False, False):
            raise ValueError("Transformer: expected at least one of the four factors, got none")


SCALED_DOT = Attention()


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes and parts; the defaults are those of the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    # pieces of words, of both languages
    vocabulary: int = 37_000
    width: int = 512
    heads: int = 8
    # of the encoder, and as many of the decoder
    layers: int = 6
    # width inside the feed-forward layers
    inner: int = 2048
    # of embeddings, and of what a layer adds
    dropout: float = 0.1
    # of attention weights, and inside the feed-forward layers
    weights_dropout: float = 0.0
    inner_dropout: float = 0.0
    # relative has distances in both self-attentions, and nothing beside the tokens
    positions: Literal["sinusoidal", "learned", "relative", "none"] = "sinusoidal"
    # how many learned positions there are
    context: int = 512
    # how far relative positions and factors tell distances apart
    reach: int = 16
    norm: Norm = "after"
    # one table for source, target and output, else three
    tied: bool = True
    # the encoder's self-attention
    encoder: Attention = SCALED_DOT
    # the decoder's self-attention
    decoder: Attention = SCALED_DOT
    # the decoder's attention to the source
    cross: Attention = SCALED_DOT

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "heads", "layers", "inner", "context", "reach"):
            if getattr(self, name) < 1:
                raise ValueError(f"Transformer: expected {name} ≥ 1, got {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(
                f"Transformer: width {self.width} does not split into {self.heads} heads"
            )
        for name in ("dropout", "weights_dropout", "inner_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"Transformer: expected {name} in [0, 1), got {getattr(self, name)}"
                )
        for name in ("encoder", "decoder"):
            score = getattr(self, name).score
            if self.positions == "relative" and score != "scaled_dot":
                raise ValueError(
                    f"Transformer: relative positions are part of a scaled_dot score, "
                    f"but {name}.score is {score!r}"
                )


BASE = TransformerConfig()
BIG = TransformerConfig(width=1024, heads=16, inner=4096, dropout=0.3)
# The size that suits 29,000 sentence pairs: fairseq's, as it is trained on Multi30k.
TINY = TransformerConfig(vocabulary=10_000, width=128, heads=4, layers=4, inner=256, dropout=0.3)


class State(NamedTuple):
    """What the decoder carries from step to step; all of it batch first."""

    own: tuple[Cache | Slots, ...] | Written  # a layer each: what was written so far
    cross: tuple[Cache, ...] | Shared  # a layer each: the source, projected once a sentence
    bias: Tensor  # (B, 1, 1, S): −inf in the padding of the source, else 0
    position: Tensor  # (): where the next token stands
    free: Tensor | None  # (B, 1, 1, N): −inf in slots to be written yet; None if there are none
    places: nn.Parameter | None = None  # (N, E): what is added to tokens, if that was prepared
    line: Tensor | None = None  # (B, T): the beam that wrote each token, where beams share caches
    ready: swift.Ready | None = None  # the blocks, where they share caches


class Encoder(nn.Module):
    """Reads the source, every token at once."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        blocks = [
            EncoderBlock(
                config.width,
                config.heads,
                config.inner,
                norm=config.norm,
                dropout=_dropped(config),
                score=_own_score(config, config.encoder),
            )
            for _ in range(config.layers)
        ]
        self.blocks = cast(Sequence[EncoderBlock], nn.ModuleList(blocks))
        self.norm = _last_norm(config)

    def forward(self, x: Tensor, bias: Tensor, ready: swift.Ready | None = None) -> Tensor:
        """What each token (B, S, E) says in its sentence."""
        if not swift.reads(tuple(self.blocks), x):
            for block in self.blocks:
                x = block(x, bias=bias)
            return self.norm(x)
        blocks = (swift.Reading.of(block, products.plain) for block in self.blocks)
        for reading in blocks if ready is None else ready.reading:
            x = reading(x, bias)
        return self.norm(x)


class Decoder(nn.Module):
    """Writes the target: looks back, then at the source."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        blocks = [
            DecoderBlock(
                config.width,
                config.heads,
                config.inner,
                norm=config.norm,
                dropout=_dropped(config),
                score=Scores(
                    own=_own_score(config, config.decoder), cross=_score(config, config.cross)
                ),
            )
            for _ in range(config.layers)
        ]
        self.blocks = cast(Sequence[DecoderBlock], nn.ModuleList(blocks))
        self.norm = _last_norm(config)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        """What each token (B, T, E) has to say to its successor."""
        for block in self.blocks:
            keys = block.cross.keys(memory).asked_from(0)
            x = block(x, keys, memory_bias=bias)
        return self.norm(x)

    def start(self, memory: Tensor, bias: Tensor, size: int | None) -> State:
        """The state before the first token of a target with room for `size` tokens."""
        B, device = memory.shape[0], memory.device
        own = tuple(block.start(B) for block in self.blocks)
        cross = tuple(block.cross.keys(memory) for block in self.blocks)
        hidden = memory.new_full((B, 1, 1, size or 0), -torch.inf)
        return State(
            own=own if size is None else tuple(cache.slots(size) for cache in own),
            cross=tuple(map(_near, cross)),
            bias=bias,
            position=torch.zeros((), dtype=torch.int64, device=device),
            free=None if size is None else hidden,
        )

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The same for the token that comes next (B, 1, E), and the state after it."""
        caches: Any = state.own
        memories: Any = state.cross
        if stacked.swiftly(tuple(self.blocks), caches, memories):
            return self._swift(x, state)
        own: list[Any] = []
        for block, past, keys in zip(self.blocks, caches, memories, strict=True):
            keys = keys.asked_from(state.position)
            if isinstance(past, Slots):
                past = past.cache(state.position, cast(Tensor, state.free))
            x, longer = block.step(x, past, keys, memory_bias=state.bias)
            own.append(longer.slots() if isinstance(longer, StaticCache) else longer)
        return self.norm(x), state._replace(own=tuple(own), position=state.position + 1)

    def _swift(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """`step` in few launches of a card."""
        filled = stacked.Filled(state.position, cast(Tensor, state.free), state.bias)
        stream, own = stacked.Stream.begun(x[:, 0], tuple(self.blocks), self.norm), []
        each: Any = zip(self.blocks, cast(Any, state.own), cast(Any, state.cross), strict=True)
        for block, past, keys in each:
            stream, longer = block.swift(stream, past, keys, filled)
            own.append(longer)
        state = state._replace(own=tuple(own), position=state.position + 1)
        return stream.entered[:, None], state


class Transformer(nn.Module):
    """Read a sentence all at once, then write another word by word."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        V, E = config.vocabulary, config.width
        self.source = nn.Embedding(V, E)
        self.target = self.source if config.tied else nn.Embedding(V, E)
        beside = "none" if config.positions == "relative" else config.positions
        self.places = positions.named(beside, config.context, E)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.out = nn.Linear(E, V, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.apply(begin)
        if config.tied:
            self.out.weight = self.target.weight

    def forward(self, source: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Logits (B, T, V) for the token after each of `target` (B, T).

        Args:
            source: tokens (B, S), and how many of each row are no padding (B,).
        """
        check.shape("Transformer", "target", target, B=source[0].shape[0], T=None)
        memory, bias = self._read(source)
        return self.out(self.decoder(self._embedded(self.target, target), memory, bias))

    @torch.no_grad()
    def ready(self, make: Make) -> swift.Ready | None:
        """The weights of now for `start` on a CPU; None if an attention is no everyday one."""
        reads, writes = tuple(self.encoder.blocks), tuple(self.decoder.blocks)
        everyday = swift.everyday(reads) and swift.everyday(writes)
        return swift.Ready.of(reads, writes, self.out, make) if everyday else None

    @door.named
    def start(
        self,
        source: tuple[Tensor, Tensor],
        *,
        size: int | None = None,
        ready: swift.Ready | None = None,
    ) -> State:
        """The state before the first token; `source` as in `forward`.

        Args:
            size: how many tokens of the target there is room for, in caches whose shapes never
                change; None lets them grow.
            ready: what `ready` gave, to be used where nobody looks and nothing learns.
        """
        (memory, bias), writes = self._read(source, ready), tuple(self.decoder.blocks)
        if size is None and swift.begins(writes, memory):
            ready = ready or swift.Ready.of((), writes, self.out, products.plain)
            position = torch.zeros((), dtype=torch.int64)
            line = position.new_zeros(len(memory), 0)
            return State(*ready.begun(memory, bias), bias, position, None, line=line, ready=ready)
        state = self.decoder.start(memory, bias, size)
        if size is None or not isinstance(self.places, positions.Sinusoidal):
            return state
        return state._replace(places=self.places.rows(size, self.target.weight))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) for the token after `tokens` (B,), and the state there."""
        if not self.training and swift.goes_on(tuple(self.decoder.blocks), state.own):
            return self._swift(*self._placed(tokens, state))
        state = _plain(state)
        x, state = self.decoder.step(self._next(tokens, state), state)
        return self.out(x[:, 0]), state

    def _swift(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """`step` of tokens (B, E) on a CPU, where `layers.swift` goes on."""
        ready, own, cross = (cast(Any, x) for x in (state.ready, state.own, state.cross))
        x, own, line = ready.written(x, own, state.line, cross, state.bias)
        state = state._replace(own=own, position=state.position + 1, line=line)
        return ready.out(self.decoder.norm(x)), state

    def _placed(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The tokens of a swift step (B, E), and the state with room for where they stand."""
        length, places = cast(Written, state.own).length, state.places
        if not isinstance(self.places, positions.Sinusoidal):
            return self._next(tokens, state)[:, 0], state
        if places is None or length == len(places):
            places = self.places.rows(max(ROOM, 2 * length), self.target.weight)
        said = F.embedding(tokens, self.target.weight)
        x = torch.add(cast(Tensor, places)[length], said, alpha=self.config.width**0.5)
        return x, state._replace(places=places)

    def _next(self, tokens: Tensor, state: State) -> Tensor:
        """The tokens that come next (B, 1, E)."""
        if state.places is None or self.training:
            return self._embedded(self.target, tokens[:, None], start=state.position)
        table, scale = self.target.weight, self.config.width**0.5
        x = positions.looked_up(tokens, table, state.places, state.position, scale=scale)
        return x[:, None]

    def _read(
        self, source: tuple[Tensor, Tensor], ready: swift.Ready | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the source says (B, S, E), and the bias that hides its padding (B, 1, 1, S)."""
        check.sentences("Transformer", source)
        tokens, lengths = source
        S = tokens.shape[1]
        # A rule would clear keys of NaN in every layer; what stands in the padding is finite.
        real = torch.arange(S, device=tokens.device) < lengths[:, None]
        x = self._embedded(self.source, tokens)
        # in the dtype of the queries, it is a mask as it stands
        bias = x.new_zeros(()).where(real, -torch.inf)[:, None, None]
        return self.encoder(x, bias, ready), bias

    def _embedded(self, table: nn.Embedding, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        # drawn small, to serve as output weights too; as large as positions when it is read
        return self.dropout(self.places(table(tokens) * self.config.width**0.5, start=start))


def _plain(state: State) -> State:
    """The state with a cache for each beam, if beams shared them."""
    if state.line is None:
        return state
    own = cast(swift.Ready, state.ready).caches(cast(Written, state.own), state.line)
    cross = cast(Shared, state.cross).caches()
    return state._replace(own=own, cross=cross, places=None, line=None, ready=None)


def _near(keys: Cache) -> Cache:
    """Keys that are read at every step: in the cache of a CPU each head is to lie together."""
    return keys if keys.k.is_cuda else keys.contiguous()


def _own_score(config: TransformerConfig, attention: Attention) -> Score | LearnedScore:
    """The score of a self-attention, in which relative positions stand."""
    if config.positions == "relative":
        # one table for all heads, as in the paper
        return RelativeScore(1, config.width // config.heads, config.reach)
    return _score(config, attention)


def _score(config: TransformerConfig, attention: Attention) -> Score | LearnedScore:
    heads, width, factors = config.heads, config.width // config.heads, attention.factors
    if attention.score != "factors":
        return scores.named(attention.score, heads, width)
    return FactorsScore(
        heads,
        width,
        config.reach,
        query_key=factors.query_key,
        query_position=factors.query_position,
        key=factors.key,
        position=factors.position,
    )


def _dropped(config: TransformerConfig) -> Dropped:
    return Dropped(config.dropout, weights=config.weights_dropout, inner=config.inner_dropout)


def _last_norm(config: TransformerConfig) -> nn.Module:
    """What is normed before each layer is normed once more at the end."""
    return nn.LayerNorm(config.width) if config.norm == "before" else nn.Identity()
