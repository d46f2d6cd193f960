"""Transformer blocks: look, then think, each on top of what was there."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

from torch import Tensor, nn
from torch.nn import functional as F

from regard import door
from regard.functional.biases import Bias
from regard.functional.rules import Rule, both, causal
from regard.functional.scores import Score
from regard.kernels import one_query
from regard.layers.caches import Cache, Fused, Keys, SameKeys, Slots
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.multi_head import MultiHead, Turn
from regard.layers.positions import Learned
from regard.layers.scores import AdditiveScore, LearnedScore

Norm = Literal["before", "after"]
# artanh √⅓, where the second derivative of tanh is largest
BEND = 0.66


class Dropped(NamedTuple):
    """The shares that a block drops in training."""

    added: float = 0.0  # of what a layer adds, which is all that Vaswani et al. 2017 drop
    weights: float = 0.0  # of the weights of its attentions
    inner: float = 0.0  # of the numbers inside its feed-forward layer


class Scores(NamedTuple):
    """The scores of a block with two attentions, each as in `MultiHead`."""

    own: Score | LearnedScore | None = None
    cross: Score | LearnedScore | None = None


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
        dropout: the share dropped in training, of all that is dropped or of each by `Dropped`.
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
        dropout: float | Dropped = 0.0,
        activation: Activation = F.relu,
        score: Score | LearnedScore | None = None,
        turn: Turn | None = None,
    ):
        super().__init__()
        added, weights, within = _shares(dropout)
        self.own = MultiHead(width, heads, score=score, dropout=weights, turn=turn)
        self.own_norm = AddNorm(width, norm=norm, dropout=added)
        self.think = FeedForward(width, inner, activation=activation, dropout=within)
        self.think_norm = AddNorm(width, norm=norm, dropout=added)

    def forward(
        self,
        x: Tensor,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, Q, E) that have looked at one another and thought about it."""
        return self.read(x, rule=rule, bias=bias)[0]

    def read(
        self,
        x: Tensor,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """What `forward` gives, and the keys that were looked at, from which `step` goes on."""
        entered = self.own_norm.enter(x)
        keys = self.own.keys(entered)
        x = self.own_norm.leave(x, self.own(entered, keys, rule=rule, bias=bias))
        return self.think_norm.leave(x, self.think(self.think_norm.enter(x))), keys

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
        dropout: the share dropped in training, of all that is dropped or of each by `Dropped`.
        activation: that of the feed-forward layer.
        score: that of the self-attention, as in `MultiHead`; `Scores` has one for each attention.
        turn: that of the self-attention, as in `MultiHead`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        norm: Norm = "before",
        dropout: float | Dropped = 0.0,
        activation: Activation = F.relu,
        score: Score | LearnedScore | Scores | None = None,
        turn: Turn | None = None,
    ):
        super().__init__()
        own, cross = score if isinstance(score, Scores) else Scores(score)
        added, weights, within = _shares(dropout)
        self.own = MultiHead(width, heads, score=own, dropout=weights, turn=turn)
        self.own_norm = AddNorm(width, norm=norm, dropout=added)
        self.cross = MultiHead(width, heads, score=cross, dropout=weights)
        self.cross_norm = AddNorm(width, norm=norm, dropout=added)
        self.think = FeedForward(width, inner, activation=activation, dropout=within)
        self.think_norm = AddNorm(width, norm=norm, dropout=added)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | Keys,
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
                wants to be told where the tokens stand there: `cross.keys(memory).asked_from(0)`.
            rule: what hides tokens from one another, beside the future.
            memory_rule: which keys of the memory may be seen.
            bias: what is added to the scores of the self-attention.
            memory_bias: what is added to the scores of the memory.
        """
        rule = causal if rule is None else both(causal, rule)
        x = self.own_norm.leave(x, self.own(self.own_norm.enter(x), rule=rule, bias=bias))
        return self._beyond(x, memory, memory_rule, memory_bias)

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
        memory_bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, SameKeys]:
        """The tokens that come next, and the longer cache; arguments as in `forward`."""
        seen, longer = self.own.step(self.own_norm.enter(x), cache, rule=rule, bias=bias)
        x = self.own_norm.leave(x, seen)
        return self._beyond(x, memory, memory_rule, memory_bias), longer

    def swift(
        self, stream: "Stream", own: Slots, memory: Cache, filled: "Filled"
    ) -> tuple["Stream", Slots]:
        """`step` of one token a row in few launches, where `swiftly` finds that it can be.

        Its numbers are those of `step`, rounded less often. Slots are written to.
        """
        from regard.kernels.one_query_linear import linear

        new = linear(stream.entered, *cast(Fused, own.fused))
        seen = door.grown(new, own.k, own.v, filled.free, filled.length)
        stream = stream.joined(seen, self.own.out)
        q = linear(stream.entered, self.cross.query.weight, self.cross.query.bias)
        seen = door.read_once(q, memory.k, memory.v, filled.bias)
        stream = stream.joined(seen, self.cross.out)
        return stream.joined(self.think.within_few(stream.entered), self.think.out), own

    @property
    def norms(self) -> tuple[AddNorm, AddNorm, AddNorm]:
        """What stands around its layers, in their order."""
        return self.own_norm, self.cross_norm, self.think_norm

    def _beyond(
        self,
        x: Tensor,
        memory: Tensor | Keys,
        rule: Rule | Tensor | None,
        bias: Bias | Tensor | None,
    ) -> Tensor:
        """What follows the self-attention."""
        read = self.cross(self.cross_norm.enter(x), memory, rule=rule, bias=bias)
        x = self.cross_norm.leave(x, read)
        return self.think_norm.leave(x, self.think(self.think_norm.enter(x)))


class Filled(NamedTuple):
    """What the self-attentions of all layers have in common, and the bias of the memory."""

    length: Tensor  # (): how many slots are filled
    free: Tensor  # (B, 1, 1, N): −inf for each slot that is not
    bias: Tensor  # (B, 1, 1, S): what is added to the scores of the memory


class Stream(NamedTuple):
    """A token of each row on its way through layers, and the norms it has still to come to."""

    x: Tensor  # (B, E): what the layers are on top of
    entered: Tensor  # (B, E): what the next layer is given
    norms: tuple[nn.LayerNorm, ...]
    first: bool  # whether norms come before layers

    @classmethod
    def begun(cls, x: Tensor, blocks: Sequence[DecoderBlock], last: nn.Module) -> "Stream":
        """Before the first layer; `last` is what comes after all of them."""
        around = [part for block in blocks for part in block.norms]
        norms = [part.norm for part in around]
        if not around[0].first:
            return cls(x, x, tuple(norms), False)
        return cls(x, norms[0](x), (*norms[1:], cast(nn.LayerNorm, last)), True)

    def joined(self, out: Tensor, project: nn.Linear) -> "Stream":
        """Behind a layer that ends with a projection of `out` (B, ·)."""
        from regard.kernels.one_query_linear import linear
        from regard.kernels.one_query_norm import added

        norm, *others = self.norms
        out = linear(out, project.weight, project.bias)
        x, entered = added(self.x, out, norm, kept=self.first)
        return Stream(x, entered, tuple(others), self.first)


def swiftly(blocks: Sequence[DecoderBlock], own: Sequence[Any], cross: Sequence[Cache]) -> bool:
    """Whether blocks can step by `DecoderBlock.swift` from these caches, one token a row.

    They can from slots on a card where nobody follows, if each of their attentions is an everyday
    one. What a CPU does is in `layers.swift`.
    """
    if own[0].k.device.type not in one_query.DEVICES:
        return False
    if not all(isinstance(x, Slots) and x.fused is not None for x in own):
        return False
    simple = all(b.own.everyday and b.cross.everyday and not b.training for b in blocks)
    weights = (b.think.out.weight for b in blocks)
    keys = (x for cache in (*own, *cross) for x in (cache.k, cache.v))
    return simple and door.swift(*keys, *weights, own[0].fused.weight)


def begin(module: nn.Module) -> None:
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
            module.score.begin()
            if module.query.bias is not None:
                nn.init.constant_(module.query.bias, BEND)


def _shares(dropout: float | Dropped) -> Dropped:
    return dropout if isinstance(dropout, Dropped) else Dropped(dropout, dropout, dropout)
