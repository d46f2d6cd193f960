"""Multi-head attention: project, split into heads, attend, join, project."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check
from regard.dispatch import attend
from regard.functional.biases import Bias
from regard.functional.rules import Rule, both, causal
from regard.functional.scores import Score, scaled_dot
from regard.layers.caches import AnyCache, Cache, CacheT, QKVProjection, StaticCache
from regard.layers.scores import LearnedScore, check_no_parameters, score_value

# What turns queries and keys (B, H, Q, D) by their positions (Q,), such as `layers.Rotary()`.
Rotation = Callable[[Tensor, Tensor], Tensor]


class MultiHead(nn.Module):
    """Vaswani et al. 2017, 3.2.2: several heads attend side by side.

    Args:
        width: how wide the input and the output are, E.
        heads: how many heads the queries have.
        memory_width: how wide what is attended to is; None for `width`.
        kv_heads: how many heads the keys have, if groups of query heads share one.
        score: from `regard.scores`, a module of `layers.scores` that learns one, or any callable
            on q and k; None for `scaled_dot`.
        bias: whether the projections have one.
        dropout: the share of weights dropped in training.
        rotary: what is done to queries and keys according to where they stand, such as `Rotary()`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        memory_width: int | None = None,
        kv_heads: int | None = None,
        score: Score | LearnedScore | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Rotation | None = None,
    ):
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        memory_width = width if memory_width is None else memory_width
        if heads < 1 or width % heads:
            raise ValueError(f"MultiHead: width {width} does not split into {heads} heads")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"MultiHead: {heads} heads do not share {kv_heads} heads of keys")
        if not 0 <= dropout < 1:
            raise ValueError(f"MultiHead: expected dropout from 0 up to but not 1, got {dropout!r}")
        if score is not None:
            check_no_parameters("MultiHead", score)
        self.heads, self.kv_heads = heads, kv_heads
        self.dropout = dropout
        self.score = scaled_dot if score is None else score
        self.rotary = rotary
        shared = width // heads * kv_heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(memory_width, shared, bias=bias)
        self.value = nn.Linear(memory_width, shared, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | AnyCache | None = None,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        queries: Tensor | None = None,
    ) -> Tensor:
        """Attend from `x` (B, Q, E) to `memory`, or to `x` itself: (B, Q, E).

        Args:
            x: what asks.
            memory: what is read (B, K, E), or the cache that `keys` or `step` made of it.
            rule: which keys may be seen, as in `attend`.
            bias: what is added to the scores, as in `attend`.
            queries: what was projected of `x` already (B, Q, E).
        """
        check.shape("MultiHead", "x", x, B=None, Q=None, E=self.query.in_features)
        if isinstance(memory, Cache | StaticCache):
            keys = memory
        else:
            keys = self.keys(x if memory is None else memory)
        Q = x.shape[1]
        asked = self.query(x) if queries is None else queries
        q = self._rotate(_split_heads(asked, self.heads), keys.query_positions)
        out = attend(
            q,
            keys.k,
            keys.v,
            score=keys.score(score_value(self.score), Q),
            rule=keys.rule(rule, Q),
            bias=keys.bias(bias, Q),
            dropout=self.dropout if self.training else 0.0,
        )
        return self.out(out.transpose(1, 2).flatten(2))  # (B, H, Q, D) -> (B, Q, E)

    def keys(self, memory: Tensor) -> Cache:
        """The keys and values of `memory` (B, K, E), projected once to be attended to often."""
        return self._project_keys(memory, lambda n: torch.arange(n, device=memory.device))

    def start(self, batch: int) -> Cache:
        """An empty cache, from which `step` decodes; `.fixed(size)` makes it a static one."""
        weight = self.key.weight
        width = self.query.out_features // self.heads
        none = Cache.empty(batch, self.kv_heads, width, device=weight.device, dtype=weight.dtype)
        return replace(none, qkv_projection=self.qkv_projection())

    def step(
        self,
        x: Tensor,
        cache: CacheT | None = None,
        *,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
    ) -> tuple[Tensor, CacheT]:
        """Self-attention of the tokens that come next (B, Q, E): the output, and a longer cache.

        Without a cache they are the first. They see what it holds and one another, causally; `rule`
        may hide more. All steps together give what one `forward` gives under `causal`.
        """
        begun: Any = self.start(x.shape[0]) if cache is None else cache
        past: CacheT = begun
        if past.qkv_projection is None:
            queries, new = None, self._project_keys(x, past.next_positions)
        else:
            check.shape("MultiHead", "x", x, B=None, Q=None, E=self.query.in_features)
            queries, k, v = F.linear(x, *past.qkv_projection).split(self._qkv_widths, -1)
            new = self._make_cache(k, v, past.next_positions)
        longer = past.append(new.k, new.v)
        if x.shape[1] > 1:  # one token stands on the last key: nothing is ahead of it
            rule = causal if rule is None else both(causal, rule)
        return self(x, longer, rule=rule, bias=bias, queries=queries), longer

    def qkv_projection(self) -> QKVProjection | None:
        """The three projections as one, a copy for many steps; None where they are to learn."""
        parts = (self.query, self.key, self.value)
        apart = len({project.in_features for project in parts}) > 1
        learns = torch.is_grad_enabled() and any(p.weight.requires_grad for p in parts)
        if apart or learns or torch.compiler.is_compiling():
            return None
        weight = nn.Parameter(torch.cat([p.weight for p in parts]), requires_grad=False)
        if self.query.bias is None:
            return QKVProjection(weight, None)
        bias = nn.Parameter(torch.cat([p.bias for p in parts]), requires_grad=False)
        return QKVProjection(weight, bias)

    @classmethod
    def from_torch(cls, module: nn.Module) -> "MultiHead":
        """A copy of PyTorch's module that gives the same numbers; ours is always batch first.

        Masks turn round: their True hides a key, ours shows it. What of theirs is frozen, its
        dtype, its device and whether it trains are kept.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(
                "MultiHead.from_torch: expected an nn.MultiheadAttention, got "
                f"{check.describe_kind(module)}"
            )
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "MultiHead.from_torch: add_bias_kv and add_zero_attn add keys of their own, "
                "which MultiHead does not have"
            )
        if module.kdim != module.vdim:
            raise ValueError(
                "MultiHead.from_torch: expected keys and values from one memory, "
                f"got kdim={module.kdim} and vdim={module.vdim}"
            )
        biased = module.in_proj_bias is not None
        ours = cls(
            module.embed_dim,
            module.num_heads,
            memory_width=module.kdim,
            bias=biased,
            dropout=module.dropout,
        )
        if module.in_proj_weight is None:
            wholes = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
            parts = wholes
        else:
            wholes, parts = [module.in_proj_weight] * 3, module.in_proj_weight.chunk(3)
        ours._copy_parameters(
            "weight", [*parts, module.out_proj.weight], [*wholes, module.out_proj.weight]
        )
        if biased:
            bias, out = module.in_proj_bias, module.out_proj.bias
            ours._copy_parameters("bias", [*bias.chunk(3), out], [bias, bias, bias, out])
        return ours.train(module.training)

    def _copy_parameters(self, kind: str, parts: list[Tensor], wholes: list[Tensor]) -> None:
        """Copy parts of parameters; they need gradients if the wholes do."""
        projects = (self.query, self.key, self.value, self.out)
        for project, part, whole in zip(projects, parts, wholes, strict=True):
            setattr(project, kind, nn.Parameter(part.detach().clone(), whole.requires_grad))

    def _project_keys(self, memory: Tensor, positions_for: Callable[[int], Tensor]) -> Cache:
        """Keys that stand where `where(how many)` says, and their values."""
        check.shape("MultiHead", "memory", memory, B=None, K=None, E=self.key.in_features)
        return self._make_cache(self.key(memory), self.value(memory), positions_for)

    def _make_cache(self, k: Tensor, v: Tensor, positions_for: Callable[[int], Tensor]) -> Cache:
        """Projected keys and values (B, K, ·), with the keys turned where they stand."""
        k, v = _split_heads(k, self.kv_heads), _split_heads(v, self.kv_heads)
        return Cache(self._rotate(k, positions_for), v)

    @property
    def is_plain(self) -> bool:
        """Whether it reads by scaled dots, a head of keys each, and turns and drops nothing."""
        alone = self.heads == self.kv_heads and self.rotary is None
        return self.score is scaled_dot and alone and not self.training

    @property
    def _qkv_widths(self) -> list[int]:
        return [project.out_features for project in (self.query, self.key, self.value)]

    def _rotate(self, x: Tensor, positions_for: Callable[[int], Tensor]) -> Tensor:
        return x if self.rotary is None else self.rotary(x, positions_for(x.shape[2]))


def _split_heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(2, (heads, x.shape[2] // heads)).transpose(1, 2)  # (B, H, Q, D)
