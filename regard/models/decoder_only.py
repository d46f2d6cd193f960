"""Translation without an encoder: the source, then the target, as one sequence that is written on.

Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", 4.2.3 (T-D). With a prefix,
the source is seen both ways: Raffel et al. 2020 (T5), 3.2.2, the prefix LM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check, dispatch
from regard.layers import positions, scores
from regard.layers.blocks import DropoutRates, EncoderBlock, NormPosition, init_weights
from regard.layers.caches import AnyCache, StaticCache


@dataclass(frozen=True)
class DecoderOnlyConfig:
    """Sizes and parts; the defaults are those of a Transformer's base, with twice its layers."""

    kind: Literal["decoder-only"] = "decoder-only"
    # pieces of words, of both languages
    vocabulary: int = 37_000
    width: int = 512
    heads: int = 8
    layers: int = 12
    # width inside the feed-forward layers
    feed_forward_width: int = 2048
    # of embeddings, and of what a layer adds
    dropout: float = 0.1
    # of attention weights, and inside the feed-forward layers
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    # how many learned positions there are, for source and target together
    context: int = 1024
    norm: NormPosition = "after"
    # one table for input and output
    tied: bool = True
    score: scores.ScoreName = "scaled_dot"
    # whether the source is seen both ways, not only backwards
    prefix_lm: bool = False

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "width", "heads", "layers", "feed_forward_width", "context")
        check.positive_fields("DecoderOnly", self, *sizes)
        if self.width % self.heads:
            raise ValueError(
                f"DecoderOnly: width {self.width} does not split into {self.heads} heads"
            )
        shares = ("dropout", "attention_dropout", "feed_forward_dropout")
        check.dropout_fields("DecoderOnly", self, *shares)


class State(NamedTuple):
    """What is carried from step to step; all of it batch first."""

    # a layer each: the source, its padding, and what was written so far
    self_caches: tuple[AnyCache, ...]
    bias: Tensor  # (B, 1, 1, K): −inf in the padding of the source, else 0
    position: Tensor  # (B,): where the next token stands; no padding stands before it


class DecoderOnly(nn.Module):
    """Read on from a sentence into its translation."""

    def __init__(self, config: DecoderOnlyConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = positions.build_positions(config.positions, config.context, config.width)
        shares = DropoutRates(config.dropout, config.attention_dropout, config.feed_forward_dropout)
        blocks = [
            EncoderBlock(
                config.width,
                config.heads,
                config.feed_forward_width,
                norm=config.norm,
                dropout=shares,
                score=scores.build_score(config.score, config.heads, config.width // config.heads),
            )
            for _ in range(config.layers)
        ]
        self.blocks = cast(Sequence[EncoderBlock], nn.ModuleList(blocks))
        # what is normed before each layer is normed once more at the end
        self.norm = nn.LayerNorm(config.width) if config.norm == "before" else nn.Identity()
        self.out = nn.Linear(config.width, config.vocabulary, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.apply(init_weights)
        if config.tied:
            self.out.weight = self.tokens.weight

    def forward(self, source: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        """Logits (B, T, V) for the token after each of `target` (B, T).

        Args:
            source: tokens (B, S), and how many of each row are no padding (B,).
        """
        check.token_batch("DecoderOnly", source)
        tokens, lengths = source
        check.shape("DecoderOnly", "target", target, B=tokens.shape[0], T=None)
        S, T = tokens.shape[1], target.shape[1]
        x = torch.cat([self._embed_tokens(tokens), self._embed_tokens(target, start=lengths)], 1)
        bias = self._attention_bias(lengths, S, S + T)
        for block in self.blocks:
            x = block(x, bias=bias)
        return self.out(self.norm(x[:, S:]))

    @dispatch.as_module_call
    def start(self, source: tuple[Tensor, Tensor], *, size: int | None = None) -> State:
        """The state before the first token of the target; `source` as in `forward`.

        Args:
            size: how many tokens of the target there is room for, in caches whose shapes never
                change; None lets them grow.
        """
        check.token_batch("DecoderOnly", source)
        tokens, lengths = source
        S = tokens.shape[1]
        x, bias, own = (
            self._embed_tokens(tokens),
            self._attention_bias(lengths, S, S),
            list[AnyCache](),
        )
        for block in self.blocks:
            x, keys = block.forward_with_cache(x, bias=bias)
            own.append(keys if size is None else keys.to_static(S + size, finite=True))
        hidden = _padding_bias(lengths, S)
        return State(tuple(own), hidden if size is None else F.pad(hidden, (0, size)), lengths)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (B, V) for the token after `tokens` (B,), and the state there."""
        x = self._embed_tokens(tokens[:, None], start=state.position)
        grows = not isinstance(state.self_caches[0], StaticCache)
        bias = F.pad(state.bias, (0, 1)) if grows else state.bias
        own: list[Any] = []
        past: Any
        for block, past in zip(self.blocks, state.self_caches, strict=True):
            x, longer = block.step(x, past, bias=bias)
            own.append(longer)
        return self.out(self.norm(x[:, 0])), State(tuple(own), bias, state.position + 1)

    def _embed_tokens(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        # drawn small, to serve as output weights too; as large as positions when it is read
        x = self.tokens(tokens) * self.config.width**0.5
        return self.dropout(self.positions(x, start=start))

    def _attention_bias(self, lengths: Tensor, source_length: int, length: int) -> Tensor:
        """−inf where one of L tokens may not see another (B, 1, L, L); the source has the first."""
        places = torch.arange(length, device=lengths.device)
        seen = places <= places[:, None]  # (L, L)
        if self.config.prefix_lm:
            seen = seen | (places < source_length)
        ahead = torch.where(seen, 0.0, -torch.inf)
        return ahead + F.pad(_padding_bias(lengths, source_length), (0, length - source_length))


def _padding_bias(lengths: Tensor, size: int) -> Tensor:
    """−inf in the padding of a source of `size` places (B, 1, 1, S), else 0."""
    # A rule would clear keys of NaN in every layer; what stands in the padding is finite.
    real = torch.arange(size, device=lengths.device) < lengths[:, None]
    return torch.where(real, 0.0, -torch.inf)[:, None, None]
