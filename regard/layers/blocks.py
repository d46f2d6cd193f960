"""Transformer blocks: look, then think, each on top of what was there."""

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from regard.functional.biases import Bias
from regard.functional.rules import Rule, both, causal
from regard.functional.scores import Score
from regard.layers.caches import Cache, Keys, SameKeys
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.multi_head import MultiHead, Turn
from regard.layers.scores import LearnedScore

Norm = Literal["before", "after"]


class AddNorm(nn.Module):
    """What stands around a layer: `x + layer(norm(x))`, or `norm(x + layer(x))`.

    Before is Xiong et al. 2020, after is Vaswani et al. 2017, 3.1.
    """

    def __init__(self, width: int, *, norm: Norm, dropout: float = 0.0):
        super().__init__()
        if norm not in ("before", "after"):
            raise ValueError(f"AddNorm: expected norm 'before' or 'after', got {norm!r}")
        self.norm = nn.LayerNorm(width)
        self.first = norm == "before"
        self.dropout = nn.Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the layer is given."""
        return self.norm(x) if self.first else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        """What comes of `x` and the output of the layer."""
        x = x + self.dropout(out)
        return x if self.first else self.norm(x)


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer; with `step`, a decoder that has no memory.

    Args:
        width: how wide the tokens are, E.
        heads: how many heads attend.
        inner: how wide the feed-forward layer is inside.
        norm: where the norms stand, before each layer or after it is added.
        dropout: the share dropped in training: of weights, of inner numbers, of what is added.
        activation: that of the feed-forward layer.
        score: that of the self-attention, as in `MultiHead`.
        turn: that of the self-attention, as in `MultiHead`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        norm: Norm = "before",
        dropout: float = 0.0,
        activation: Activation = F.relu,
        score: Score | LearnedScore | None = None,
        turn: Turn | None = None,
    ):
        super().__init__()
        self.own = MultiHead(width, heads, score=score, dropout=dropout, turn=turn)
        self.own_norm = AddNorm(width, norm=norm, dropout=dropout)
        self.think = FeedForward(width, inner, activation=activation, dropout=dropout)
        self.think_norm = AddNorm(width, norm=norm, dropout=dropout)

    def forward(
        self,
        x: Tensor,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, Q, E) that have looked at one another and thought about it."""
        x = self.own_norm.leave(x, self.own(self.own_norm.enter(x), rule=rule, bias=bias))
        return self.think_norm.leave(x, self.think(self.think_norm.enter(x)))

    def start(self, batch: int) -> Cache:
        """An empty cache, from which `step` decodes."""
        return self.own.start(batch)

    def step(
        self,
        x: Tensor,
        cache: SameKeys | None = None,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, SameKeys]:
        """The tokens that come next, which look back alone, and the longer cache."""
        seen, longer = self.own.step(self.own_norm.enter(x), cache, rule=rule, bias=bias)
        x = self.own_norm.leave(x, seen)
        return self.think_norm.leave(x, self.think(self.think_norm.enter(x))), longer


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to a memory, and a feed-forward layer.

    Args:
        width: how wide the tokens are, E.
        heads: how many heads attend.
        inner: how wide the feed-forward layer is inside.
        norm: where the norms stand, before each layer or after it is added.
        dropout: the share dropped in training: of weights, of inner numbers, of what is added.
        activation: that of the feed-forward layer.
        score: that of the self-attention, as in `MultiHead`.
        turn: that of the self-attention, as in `MultiHead`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        norm: Norm = "before",
        dropout: float = 0.0,
        activation: Activation = F.relu,
        score: Score | LearnedScore | None = None,
        turn: Turn | None = None,
    ):
        super().__init__()
        self.own = MultiHead(width, heads, score=score, dropout=dropout, turn=turn)
        self.own_norm = AddNorm(width, norm=norm, dropout=dropout)
        self.cross = MultiHead(width, heads, dropout=dropout)
        self.cross_norm = AddNorm(width, norm=norm, dropout=dropout)
        self.think = FeedForward(width, inner, activation=activation, dropout=dropout)
        self.think_norm = AddNorm(width, norm=norm, dropout=dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Keys,
        *,
        rule: Rule | Tensor | None = None,
        memory_rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, Q, E) that have looked back, at the memory, and thought about it.

        Args:
            x: the tokens.
            memory: what is read (B, K, E), or what `cross.keys` made of it.
            rule: what hides tokens from one another, beside the future.
            memory_rule: which keys of the memory may be seen.
            bias: what is added to the scores of the self-attention.
        """
        rule = causal if rule is None else both(causal, rule)
        x = self.own_norm.leave(x, self.own(self.own_norm.enter(x), rule=rule, bias=bias))
        return self._beyond(x, memory, memory_rule)

    def start(self, batch: int) -> Cache:
        """An empty cache of the self-attention, from which `step` decodes."""
        return self.own.start(batch)

    def step(
        self,
        x: Tensor,
        cache: SameKeys | None,
        memory: Tensor | Keys,
        *,
        rule: Rule | Tensor | None = None,
        memory_rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, SameKeys]:
        """The tokens that come next, and the longer cache; arguments as in `forward`."""
        seen, longer = self.own.step(self.own_norm.enter(x), cache, rule=rule, bias=bias)
        return self._beyond(self.own_norm.leave(x, seen), memory, memory_rule), longer

    def _beyond(
        self, x: Tensor, memory: Tensor | Keys, memory_rule: Rule | Tensor | None
    ) -> Tensor:
        """What follows the self-attention."""
        read = self.cross(self.cross_norm.enter(x), memory, rule=memory_rule)
        x = self.cross_norm.leave(x, read)
        return self.think_norm.leave(x, self.think(self.think_norm.enter(x)))
