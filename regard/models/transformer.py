"""The Transformer, with any score in any of its attentions.

Vaswani et al. 2017, "Attention Is All You Need"; Shaw et al. 2018, "Self-Attention with Relative
Position Representations" (positions as distances); Zhu et al. 2019, "An Empirical Study of Spatial
Attention Mechanisms in Deep Networks" (a score of four factors, any of them switched off).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard import check, dispatch
from regard.functional.scores import Score
from regard.layers import positions, scores
from regard.layers.blocks import (
    DecoderBlock,
    DecoderScores,
    DropoutRates,
    EncoderBlock,
    NormPosition,
    init_weights,
)
from regard.layers.caches import AnyCache, Cache
from regard.layers.multi_head import MultiHead
from regard.layers.scores import FactorsScore, LearnedScore, RelativeScore


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


ALL_FACTORS = Factors()


@dataclass(frozen=True)
class Attention:
    """One of the three attentions of a layer."""

    score: Literal["scaled_dot", "dot", "additive", "cosine", "general", "factors"] = "scaled_dot"
    # for score=factors alone
    factors: Factors = ALL_FACTORS

    def __post_init__(self) -> None:
        if self.factors != ALL_FACTORS and self.score != "factors":
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
    feed_forward_width: int = 2048
    # of embeddings, and of what a layer adds
    dropout: float = 0.1
    # of attention weights, and inside the feed-forward layers
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    # relative has distances in both self-attentions, and nothing beside the tokens
    positions: Literal["sinusoidal", "learned", "relative", "none"] = "sinusoidal"
    # how many learned positions there are
    context: int = 512
    # how far relative positions and factors tell distances apart
    reach: int = 16
    norm: NormPosition = "after"
    # one table for source, target and output, else three
    tied: bool = True
    # the encoder's self-attention
    encoder: Attention = SCALED_DOT
    # the decoder's self-attention
    decoder: Attention = SCALED_DOT
    # the decoder's attention to the source
    cross: Attention = SCALED_DOT

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "width", "heads", "layers", "feed_forward_width")
        check.positive_fields("Transformer", self, *sizes, "context", "reach")
        if self.width % self.heads:
            raise ValueError(
                f"Transformer: width {self.width} does not split into {self.heads} heads"
            )
        shares = ("dropout", "attention_dropout", "feed_forward_dropout")
        check.dropout_fields("Transformer", self, *shares)
        for name in ("encoder", "decoder"):
            score = getattr(self, name).score
            if self.positions == "relative" and score != "scaled_dot":
                raise ValueError(
                    f"Transformer: relative positions are part of a scaled_dot score, "
                    f"but {name}.score is {score!r}"
                )


BASE = TransformerConfig()
BIG = TransformerConfig(width=1024, heads=16, feed_forward_width=4096, dropout=0.3)
# The size that suits 29,000 sentence pairs: fairseq's, as it is trained on Multi30k.
TINY = TransformerConfig(
    vocabulary=10_000, width=128, heads=4, layers=4, feed_forward_width=256, dropout=0.3
)


class State(NamedTuple):
    """What the decoder carries from step to step; all of it batch first."""

    # a layer each: keys and values of the target so far
    self_caches: tuple[AnyCache, ...]
    # a layer each: keys and values of the source, projected once a sentence
    cross_caches: tuple[Cache, ...]
    # −inf in the padding of the source, else 0 (B, 1, 1, S)
    bias: Tensor
    # that of the next token ()
    position: Tensor


class Encoder(nn.Module):
    """Reads the source, every token at once."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        sizes, rates = _block_sizes(config), _dropout_rates(config)
        blocks = list[EncoderBlock]()
        for _ in range(config.layers):
            score = _self_attention_score(config, config.encoder)
            blocks.append(EncoderBlock(*sizes, norm=config.norm, dropout=rates, score=score))
        self.blocks = cast(Sequence[EncoderBlock], nn.ModuleList(blocks))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Encoder hidden states (B, S, E) of source embeddings."""
        for block in self.blocks:
            x = block(x, bias=bias)
        return self.norm(x)


class Decoder(nn.Module):
    """Writes the target: looks back, then at the source."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        sizes, rates = _block_sizes(config), _dropout_rates(config)
        blocks = list[DecoderBlock]()
        for _ in range(config.layers):
            own, cross = _self_attention_score(config, config.decoder), _score(config, config.cross)
            score = DecoderScores(own, cross)
            blocks.append(DecoderBlock(*sizes, norm=config.norm, dropout=rates, score=score))
        self.blocks = cast(Sequence[DecoderBlock], nn.ModuleList(blocks))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        """Decoder hidden states (B, T, E) of target embeddings."""
        for block in self.blocks:
            keys = block.cross.keys(memory).with_query_offset(0)
            x = block(x, keys, memory_bias=bias)
        return self.norm(x)

    def start(self, memory: Tensor, bias: Tensor, size: int | None) -> State:
        """The state before the first token of a target with room for `size` tokens."""
        caches = [block.start(len(memory)) for block in self.blocks]
        return State(
            self_caches=tuple(
                x if size is None else x.to_static(size, finite=True) for x in caches
            ),
            cross_caches=tuple(_keys_of_memory(block.cross, memory) for block in self.blocks),
            bias=bias,
            position=torch.zeros((), dtype=torch.int64, device=memory.device),
        )

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The hidden states (B, 1, E) of the next token, and the state after it."""
        caches: list[AnyCache] = []
        layers = zip(self.blocks, state.self_caches, state.cross_caches, strict=True)
        for block, cache, keys in layers:
            keys = keys.with_query_offset(state.position)
            x, longer = block.step(x, cast(Any, cache), keys, memory_bias=state.bias)
            caches.append(longer)
        state = state._replace(self_caches=tuple(caches), position=state.position + 1)
        return self.norm(x), state


class Transformer(nn.Module):
    """Read a sentence all at once, then write another word by word."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        V, E = config.vocabulary, config.width
        self.embedding_scale = E**0.5
        self.source = nn.Embedding(V, E)
        self.target = self.source if config.tied else nn.Embedding(V, E)
        beside = "none" if config.positions == "relative" else config.positions
        self.positions = positions.build_positions(beside, config.context, E)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.out = nn.Linear(E, V, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.apply(init_weights)
        if config.tied:
            self.out.weight = self.target.weight

    def forward(self, source: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Logits (B, T, V) for the token after each of `target` (B, T).

        Args:
            source: tokens (B, S), and how many of each row are no padding (B,).
        """
        check.shape("Transformer", "target", target, B=source[0].shape[0], T=None)
        memory, bias = self._encode(source)
        return self.out(self.decoder(self.embed(self.target, target), memory, bias))

    @dispatch.as_module_call
    def start(self, source: tuple[Tensor, Tensor], *, size: int | None = None) -> State:
        """The state before the first token; `source` as in `forward`.

        Args:
            size: how many tokens of the target there is room for, in caches whose shapes never
                change; None lets them grow.
        """
        memory, bias = self._encode(source)
        return self.decoder.start(memory, bias, size)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) for the token after `tokens` (B,), and the state there."""
        x = self.embed(self.target, tokens[:, None], start=state.position)
        x, state = self.decoder.step(x, state)
        return self.out(x[:, 0]), state

    def embed(self, table: nn.Embedding, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """Embeddings (B, T, E) of tokens at positions from `start` on."""
        # initialised small, to serve as output weights too; scaled here to the size of positions
        return self.dropout(self.positions(table(tokens) * self.embedding_scale, start=start))

    def embed_source(self, source: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Source embeddings (B, S, E), and the bias (B, 1, 1, S) that is −inf in the padding."""
        check.token_batch("Transformer", source)
        tokens, lengths = source
        # A rule would clear keys of NaN in every layer; what stands in the padding is finite.
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        x = self.embed(self.source, tokens)
        # in the dtype of the queries, so that SDPA takes it as a mask without a copy
        return x, x.new_zeros(()).where(real, -torch.inf)[:, None, None]

    def _encode(self, source: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Encoder hidden states (B, S, E), and the bias of the padding."""
        x, bias = self.embed_source(source)
        return self.encoder(x, bias), bias


def _keys_of_memory(attention: MultiHead, memory: Tensor) -> Cache:
    """Keys and values of the memory; on a CPU each head contiguous, to be read at every step."""
    keys = attention.keys(memory)
    return keys if keys.k.is_cuda else keys.contiguous()


def _self_attention_score(config: TransformerConfig, attention: Attention) -> Score | LearnedScore:
    """The score of a self-attention, in which relative positions stand."""
    if config.positions == "relative":
        # one table for all heads, as in the paper
        return RelativeScore(1, config.width // config.heads, config.reach)
    return _score(config, attention)


def _score(config: TransformerConfig, attention: Attention) -> Score | LearnedScore:
    heads, width = config.heads, config.width // config.heads
    if attention.score != "factors":
        return scores.build_score(attention.score, heads, width)
    return FactorsScore(heads, width, config.reach, **asdict(attention.factors))


def _block_sizes(config: TransformerConfig) -> tuple[int, int, int]:
    return config.width, config.heads, config.feed_forward_width


def _dropout_rates(config: TransformerConfig) -> DropoutRates:
    attention, feed_forward = config.attention_dropout, config.feed_forward_dropout
    return DropoutRates(config.dropout, attention=attention, feed_forward=feed_forward)


def _final_norm(config: TransformerConfig) -> nn.Module:
    """What is normed before each layer is normed once more at the end."""
    return nn.LayerNorm(config.width) if config.norm == "before" else nn.Identity()
