"""Every mechanism, with sample arguments: what stands in these lists is held to every law.

A new score, select, rule, bias or backend gets all of `tests/test_laws.py` by one line here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from regard import biases, rules
from regard.functional import scores, selects
from regard.functional.rules import Rule


@dataclass(frozen=True)
class Sizes:
    """The sizes of one call; G heads of keys are shared by H heads of queries."""

    B: int = 2
    H: int = 3
    G: int = 3
    Q: int = 5
    K: int = 7
    D: int = 11
    Dv: int = 13

    @property
    def full(self) -> tuple[int, int, int, int]:
        return self.B, self.H, self.Q, self.K


@dataclass(frozen=True, eq=False)
class Asked:
    """One call of `attend`: its tensors, and what is passed by name."""

    q: Tensor
    k: Tensor
    v: Tensor
    named: dict[str, Any] = field(default_factory=dict)

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v


def mask(*shape: int) -> Tensor:
    return torch.rand(shape) < 0.6


def lengths(s: Sizes) -> Tensor:
    return torch.randint(0, s.K + 1, (s.B,))


def centres(s: Sizes) -> Tensor:
    return torch.rand(s.B, s.H, s.Q) * (s.K + 2) - 1


def closeness(q: Tensor, k: Tensor) -> Tensor:
    """A score of the user's own, which no kernel knows."""
    return -(q[:, :, :, None] - k[:, :, None]).square().sum(-1)


SCORES = {
    "dot": lambda s: scores.dot,
    "scaled_dot": lambda s: scores.scaled_dot,
    "negative dot": lambda s: scores.Dot(-0.3),
    "cosine": lambda s: scores.Cosine(2.0),
    "cosine of strengths": lambda s: scores.Cosine(torch.rand(s.B, s.H, s.Q) * 3),
    "cosine of one strength": lambda s: scores.Cosine(torch.tensor(3.0)),
    "general": lambda s: scores.General(torch.randn(s.H, s.D, s.D)),
    "location": lambda s: scores.Location(torch.randn(s.H, s.D, s.K + 2)),
    "additive": lambda s: scores.Additive(torch.randn(s.H, s.D)),
    "relative": lambda s: scores.Relative(torch.randn(s.H, 5, s.D)),
    "relative shared": lambda s: scores.Relative(torch.randn(1, 3, s.D)),
    "factors": lambda s: scores.Factors(
        True, torch.randn(s.H, 5, s.D), torch.randn(s.H, s.D), torch.randn(s.H, 5)
    ),
    "factors of keys alone": lambda s: scores.Factors(False, key=torch.randn(s.H, s.D)),
    "clipped": lambda s: scores.Clipped(scores.scaled_dot, 3.0),
    "one's own": lambda s: closeness,
}
# Scores that are a dot product once q and k are projected, so that fused kernels take them.
FUSED = [
    name for name, made in SCORES.items() if isinstance(made(Sizes()), scores.DOT_PRODUCT_SCORES)
]
# Scores that depend on the content of q and k alone, not on where they stand.
PLACELESS = [n for n in SCORES if not n.startswith(("location", "relative", "factors"))]

SELECTS = {
    "softmax": lambda s: selects.softmax,
    "sparsemax": lambda s: selects.sparsemax,
    "top_k": lambda s: selects.top_k(2),
    "hard": lambda s: selects.hard,
    "straight_through": lambda s: selects.straight_through,
    "gaussian": lambda s: selects.gaussian(centres(s), 1.5),
    "one's own": lambda s: lambda scores: selects.softmax(2 * scores),
}
# Drawing is a select too, but never does the same twice.
DRAWN = {"sampled": lambda s: selects.sampled(torch.Generator().manual_seed(3))}
# Selects whose rows need not sum to one.
LOSSY = ["gaussian"]
# Selects that judge a row by its seen scores alone, so that chunks take them.
LOCAL = [name for name, made in SELECTS.items() if selects.is_position_independent(made(Sizes()))]
# Selects without a useful gradient of the scores.
FLAT = ["hard", "straight_through"]

RULES = {
    "causal": lambda s: rules.causal,
    "window": lambda s: rules.window(2),
    "narrow window": lambda s: rules.window(0),
    "prefix": lambda s: rules.prefix(2),
    "padding": lambda s: rules.padding(lengths(s)),
    "padding on the left": lambda s: rules.padding(lengths(s), side="left"),
    "documents": lambda s: rules.documents(torch.randint(0, 2, (s.B, s.K + 1))),
    "around": lambda s: rules.around(centres(s), 1.5),
    "at": lambda s: rules.at(rules.causal, torch.randint(0, s.K + 1, (s.Q,))),
    "at in rows": lambda s: rules.at(rules.causal, torch.randint(-1, s.K + 1, (s.B, s.Q))),
    "mask (B, H, Q, K)": lambda s: mask(*s.full),
    "mask (B, 1, 1, K)": lambda s: mask(s.B, 1, 1, s.K),
    "mask (B, 1, Q, 1)": lambda s: mask(s.B, 1, s.Q, 1),
    "mask (H, 1, K)": lambda s: mask(s.H, 1, s.K),
    "mask (Q, K)": lambda s: mask(s.Q, s.K),
    "mask (Q, 1)": lambda s: mask(s.Q, 1),
    "mask (K,)": lambda s: mask(s.K),
    "mask ()": lambda s: mask(),
    "one's own": lambda s: lambda b, h, q, k: (q + k + b + h) % 3 > 0,
}
# Rules that keep a query near its own position or near a centre: chunks gain from these.
NEAR = ["window", "narrow window", "around"]

BIASES = {
    "alibi": lambda s: biases.alibi(s.H),
    "relative": lambda s: biases.relative(torch.randn(s.H, 8), max_distance=6),
    "relative behind": lambda s: biases.relative(
        torch.randn(s.H, 4), bidirectional=False, max_distance=6
    ),
    "tensor (B, H, Q, K)": lambda s: torch.randn(s.full),
    "tensor (H, 1, K)": lambda s: torch.randn(s.H, 1, s.K),
    "tensor (Q, 1)": lambda s: torch.randn(s.Q, 1),
    "tensor (K,)": lambda s: torch.randn(s.K),
    "tensor ()": lambda s: torch.randn(()),
    "tensor that hides": lambda s: torch.zeros(s.full).masked_fill(~mask(*s.full), -torch.inf),
    "one's own": lambda s: lambda b, h, q, k: (q - k) * 0.1 + h,
}

BACKENDS = ["reference", "sdpa", "flex", "chunked"]
# Backends that have gradients on a CPU.
TRAINED = ["reference", "sdpa", "chunked"]

EVERYTHING = {"score": SCORES, "select": SELECTS, "rule": RULES, "bias": BIASES}


def asked(s: Sizes, dtype: torch.dtype = torch.float32, **names: str) -> Asked:
    """Random tensors of these sizes, and the mechanisms of these names."""
    q = torch.randn(s.B, s.H, s.Q, s.D, dtype=dtype)
    k = torch.randn(s.B, s.G, s.K, s.D, dtype=dtype)
    v = torch.randn(s.B, s.G, s.K, s.Dv, dtype=dtype)
    return Asked(q, k, v, {what: EVERYTHING[what][name](s) for what, name in names.items()})


def sizes(**fixed: int) -> st.SearchStrategy[Sizes]:
    """Ones, primes, nothing at all; fewer or more queries than keys; grouped heads."""
    heads = st.sampled_from([(1, 1), (3, 3), (2, 1), (6, 3), (5, 1)])
    lengths = st.sampled_from([0, 1, 2, 3, 5, 7, 13])
    drawn = {"B": st.sampled_from([1, 2, 3]), "Q": lengths, "K": lengths}
    drawn |= {"D": st.sampled_from([2, 3, 5]), "Dv": st.sampled_from([1, 3])}
    drawn = {name: st.just(fixed[name]) if name in fixed else s for name, s in drawn.items()}

    def built(heads: tuple[int, int], **others: int) -> Sizes:
        return Sizes(H=heads[0], G=heads[1], **others)

    return st.builds(built, heads, **drawn)


Tree = str | tuple[str, Any, Any]  # a rule's name, or ("both" or "either", a tree, a tree)


def trees(names: Iterable[str] = tuple(RULES)) -> st.SearchStrategy[Tree]:
    """One rule, or a few under `both` and `either`."""
    joined = st.sampled_from(["both", "either"])
    return st.recursive(
        st.sampled_from(list(names)), lambda tree: st.tuples(joined, tree, tree), max_leaves=3
    )


def grown(tree: Tree, s: Sizes) -> Rule | Tensor:
    """The rule that a tree of names stands for."""
    if isinstance(tree, str):
        return RULES[tree](s)
    join, *inner = tree
    return {"both": rules.both, "either": rules.either}[join](*(grown(part, s) for part in inner))


@dataclass(frozen=True)
class Plan:
    """Any call at all, before its tensors are drawn."""

    sizes: Sizes
    seed: int
    score: str | None
    select: str | None
    bias: str | None
    rule: Tree | None

    def asked(self, dtype: torch.dtype = torch.float32) -> Asked:
        torch.manual_seed(self.seed)
        names = {"score": self.score, "select": self.select, "bias": self.bias}
        call = asked(self.sizes, dtype, **{w: name for w, name in names.items() if name})
        ruled = {"rule": grown(self.rule, self.sizes)} if self.rule else {}
        return replace(call, named=call.named | ruled)


def plans(
    *,
    of: st.SearchStrategy[Sizes] | None = None,
    score: Iterable[str | None] = (*SCORES, None),
    select: Iterable[str | None] = (*SELECTS, None),
    bias: Iterable[str | None] = (*BIASES, None),
    rule: st.SearchStrategy[Tree | None] | None = None,
) -> st.SearchStrategy[Plan]:
    """Calls of any sizes, scores, selects and biases out of these, and rules joined at random."""
    return st.builds(
        Plan,
        sizes() if of is None else of,
        st.integers(0, 1000),
        *(st.sampled_from(list(names)) for names in (score, select, bias)),
        trees() | st.none() if rule is None else rule,
    )


def plans_of(
    backend: str,
    *,
    of: st.SearchStrategy[Sizes] | None = None,
    score: Iterable[str] = tuple(SCORES),
    select: Iterable[str] = tuple(SELECTS),
    bias: Iterable[str | None] = (*BIASES, None),
    rule: st.SearchStrategy[Tree | None] | None = None,
) -> st.SearchStrategy[Plan]:
    """Such of these calls as a backend accepts."""
    if backend == "reference":
        return plans(of=of, score=score, select=select, bias=bias, rule=rule)
    fused = [name for name in FUSED if name in score]
    if backend in ("sdpa", "flex"):
        return plans(of=of, score=fused, select=["softmax"], bias=bias, rule=rule)
    tiled = plans(of=of, score=["additive"], select=["softmax"], bias=bias, rule=rule)
    if rule is not None:
        return tiled
    local = [name for name in LOCAL if name in select]
    return tiled | plans(of=of, score=fused, select=local, bias=bias, rule=near_trees())


def near_trees() -> st.SearchStrategy[Tree]:
    """A rule that keeps near, alone or under `both` with any others."""
    near = st.sampled_from(NEAR)
    return near | st.tuples(st.just("both"), near, trees())
