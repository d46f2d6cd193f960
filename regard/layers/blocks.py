"""Transformer blocks: look, then think, each on top of what was there."""

from typing import Literal, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from regard.functional.biases import Bias
from regard.functional.rules import Rule, both, causal
from regard.functional.scores import Score
from regard.layers.caches import AnyCache, Cache, CacheT
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.multi_head import MultiHead, Rotation
from regard.layers.positions import Learned
from regard.layers.scores import AdditiveScore, LearnedScore

NormPosition = Literal["before", "after"]
# artanh √⅓, where the second derivative of tanh is largest
TANH_MAX_CURVATURE = 0.66


class DropoutRates(NamedTuple):
    """The shares that a block drops in training."""

    residual: float = 0.0  # of what a layer adds, which is all that Vaswani et al. 2017 drop
    attention: float = 0.0  # of the weights of its attentions
    feed_forward: float = 0.0  # of the numbers inside its feed-forward layer


class DecoderScores(NamedTuple):
    """The scores of a block with two attentions, each as in `MultiHead`."""

    self_attention: Score | LearnedScore | None = None
    cross: Score | LearnedScore | None = None


class AddNorm(nn.Module):
    """What stands around a layer: `x + layer(norm(x))`, or `norm(x + layer(x))`.

    Before is Xiong et al. 2020, after is Vaswani et al. 2017, 3.1.
    """

    def __init__(self, width: int, *, norm: NormPosition, dropout: float = 0.0):
        super().__init__()
        if norm not in ("before", "after"):
            raise ValueError(f"AddNorm: expected norm 'before' or 'after', got {norm!r}")
        self.norm = nn.LayerNorm(width)
        self.norm_first = norm == "before"
        self.dropout = nn.Dropout(dropout)

    def layer_input(self, x: Tensor) -> Tensor:
        """What the layer is given."""
        return self.norm(x) if self.norm_first else x

    def add_residual(self, x: Tensor, out: Tensor) -> Tensor:
        """What comes of `x` and the output of the layer."""
        x = x + self.dropout(out)
        return x if self.norm_first else self.norm(x)


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer; with `step`, a decoder that has no memory.

    Args:
        width: how wide the tokens are, E.
        heads: how many heads attend.
        feed_forward_width: how wide the feed-forward layer is inside.
        norm: where the norms stand, before each layer or after it is added.
        dropout: the share dropped in training, of all that is dropped or of each by `DropoutRates`.
        activation: that of the feed-forward layer.
        score: that of the self-attention, as in `MultiHead`.
        rotary: that of the self-attention, as in `MultiHead`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward_width: int,
        *,
        norm: NormPosition = "before",
        dropout: float | DropoutRates = 0.0,
        activation: Activation = F.relu,
        score: Score | LearnedScore | None = None,
        rotary: Rotation | None = None,
    ):
        super().__init__()
        added, weights, within = _dropout_rates(dropout)
        self.self_attention = MultiHead(width, heads, score=score, dropout=weights, rotary=rotary)
        self.self_attention_norm = AddNorm(width, norm=norm, dropout=added)
        self.feed_forward = FeedForward(
            width, feed_forward_width, activation=activation, dropout=within
        )
        self.feed_forward_norm = AddNorm(width, norm=norm, dropout=added)

    def forward(
        self,
        x: Tensor,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, Q, E) that have looked at one another and thought about it."""
        return self.forward_with_cache(x, rule=rule, bias=bias)[0]

    def forward_with_cache(
        self,
        x: Tensor,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """What `forward` gives, and the keys that were looked at, from which `step` goes on."""
        entered = self.self_attention_norm.layer_input(x)
        keys = self.self_attention.keys(entered)
        x = self.self_attention_norm.add_residual(
            x, self.self_attention(entered, keys, rule=rule, bias=bias)
        )
        return self.feed_forward_norm.add_residual(
            x, self.feed_forward(self.feed_forward_norm.layer_input(x))
        ), keys

    def start(self, batch: int) -> Cache:
        """An empty cache, from which `step` decodes."""
        return self.self_attention.start(batch)

    def step(
        self,
        x: Tensor,
        cache: CacheT | None = None,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, CacheT]:
        """The tokens that come next, which look back alone, and the longer cache."""
        seen, longer = self.self_attention.step(
            self.self_attention_norm.layer_input(x), cache, rule=rule, bias=bias
        )
        x = self.self_attention_norm.add_residual(x, seen)
        return self.feed_forward_norm.add_residual(
            x, self.feed_forward(self.feed_forward_norm.layer_input(x))
        ), longer


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to a memory, and a feed-forward layer.

    Args:
        width: how wide the tokens are, E.
        heads: how many heads attend.
        feed_forward_width: how wide the feed-forward layer is inside.
        norm: where the norms stand, before each layer or after it is added.
        dropout: the share dropped in training, of all that is dropped or of each by `DropoutRates`.
        activation: that of the feed-forward layer.
        score: that of the self-attention, as in `MultiHead`; `DecoderScores` has one for each.
        rotary: that of the self-attention, as in `MultiHead`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward_width: int,
        *,
        norm: NormPosition = "before",
        dropout: float | DropoutRates = 0.0,
        activation: Activation = F.relu,
        score: Score | LearnedScore | DecoderScores | None = None,
        rotary: Rotation | None = None,
    ):
        super().__init__()
        own, cross = score if isinstance(score, DecoderScores) else DecoderScores(score)
        added, weights, within = _dropout_rates(dropout)
        self.self_attention = MultiHead(width, heads, score=own, dropout=weights, rotary=rotary)
        self.self_attention_norm = AddNorm(width, norm=norm, dropout=added)
        self.cross = MultiHead(width, heads, score=cross, dropout=weights)
        self.cross_norm = AddNorm(width, norm=norm, dropout=added)
        self.feed_forward = FeedForward(
            width, feed_forward_width, activation=activation, dropout=within
        )
        self.feed_forward_norm = AddNorm(width, norm=norm, dropout=added)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | AnyCache,
        *,
        rule: Rule | Tensor | None = None,
        memory_rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        memory_bias: Bias | Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, Q, E) that have looked back, at the memory, and thought about it.

        Args:
            x: the tokens.
            memory: what is read (B, K, E), or what `cross.keys` made of it. A score of distances
                wants to be told where the tokens stand: `cross.keys(memory).with_query_offset(0)`.
            rule: what hides tokens from one another, beside the future.
            memory_rule: which keys of the memory may be seen.
            bias: what is added to the scores of the self-attention.
            memory_bias: what is added to the scores of the memory.
        """
        rule = causal if rule is None else both(causal, rule)
        x = self.self_attention_norm.add_residual(
            x, self.self_attention(self.self_attention_norm.layer_input(x), rule=rule, bias=bias)
        )
        return self._cross_attention_and_feed_forward(x, memory, memory_rule, memory_bias)

    def start(self, batch: int) -> Cache:
        """An empty cache of the self-attention, from which `step` decodes."""
        return self.self_attention.start(batch)

    def step(
        self,
        x: Tensor,
        cache: CacheT | None,
        memory: Tensor | AnyCache,
        *,
        rule: Rule | Tensor | None = None,
        memory_rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        memory_bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, CacheT]:
        """The tokens that come next, and the longer cache; arguments as in `forward`."""
        seen, longer = self.self_attention.step(
            self.self_attention_norm.layer_input(x), cache, rule=rule, bias=bias
        )
        x = self.self_attention_norm.add_residual(x, seen)
        return self._cross_attention_and_feed_forward(x, memory, memory_rule, memory_bias), longer

    @property
    def norms(self) -> tuple[AddNorm, AddNorm, AddNorm]:
        """What stands around its layers, in their order."""
        return self.self_attention_norm, self.cross_norm, self.feed_forward_norm

    def _cross_attention_and_feed_forward(
        self,
        x: Tensor,
        memory: Tensor | AnyCache,
        rule: Rule | Tensor | None,
        bias: Bias | Tensor | None,
    ) -> Tensor:
        """What follows the self-attention."""
        read = self.cross(self.cross_norm.layer_input(x), memory, rule=rule, bias=bias)
        x = self.cross_norm.add_residual(x, read)
        return self.feed_forward_norm.add_residual(
            x, self.feed_forward(self.feed_forward_norm.layer_input(x))
        )


def init_weights(module: nn.Module) -> None:
    """Draw the weights of a module where Transformers train, normed after each layer too.

    Matrices are Glorot's, smaller where queries, keys and values are made: as one matrix for all
    three would be. Queries of additive scores begin where tanh bends most, so that what small
    queries and keys say together counts: at 0 it is straight. An embedding is drawn so that it may
    serve as output weights, and is read √E times as large; learned positions are drawn like one.
    """
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif isinstance(module, Learned):
        nn.init.normal_(module.table, std=module.table.shape[1] ** -0.5)
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, MultiHead):
        for project in (module.query, module.key, module.value):
            nn.init.xavier_uniform_(project.weight, gain=2**-0.5)
        if isinstance(module.score, AdditiveScore):
            module.score.init_for_transformer()
            if module.query.bias is not None:
                nn.init.constant_(module.query.bias, TANH_MAX_CURVATURE)


def _dropout_rates(dropout: float | DropoutRates) -> DropoutRates:
    return dropout if isinstance(dropout, DropoutRates) else DropoutRates(dropout, dropout, dropout)
