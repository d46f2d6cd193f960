"""Every mechanism, with sample arguments: what stands in these lists is held to every law.

A new score, select, rule, bias or backend gets all of `tests/test_laws.py` by one line here.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from regard import biases, rules, scores, selects
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

    @property
    def weighed(self) -> dict[str, Any]:
        return self.named

    def to(self, dtype: torch.dtype) -> "Asked":
        return Asked(*(x.to(dtype) for x in self.qkv), self.named)


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
    "cosine": lambda s: scores.Cosine(2.0),
    "cosine of strengths": lambda s: scores.Cosine(torch.rand(s.B, s.H, s.Q) * 3),
    "cosine of one strength": lambda s: scores.Cosine(torch.tensor(3.0)),
    "general": lambda s: scores.General(torch.randn(s.H, s.D, s.D)),
    "location": lambda s: scores.Location(torch.randn(s.H, s.D, s.K + 2)),
    "additive": lambda s: scores.Additive(torch.randn(s.H, s.D)),
    "relative": lambda s: scores.Relative(torch.randn(s.H, 5, s.D)),
    "relative shared": lambda s: scores.Relative(torch.randn(1, 3, s.D)),
    "one's own": lambda s: closeness,
}
# Scores that depend on the content of q and k alone, not on where they stand.
PLACELESS = [n for n in SCORES if not n.startswith(("location", "relative"))]

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
# Rules that keep a query near its own position or near a centre.
NEAR = ["window", "narrow window", "around"]

BIASES = {
    "alibi": lambda s: biases.alibi(s.H),
    "relative": lambda s: biases.relative(torch.randn(s.H, 8), farthest=6),
    "relative behind": lambda s: biases.relative(torch.randn(s.H, 4), ahead=False, farthest=6),
    "tensor (B, H, Q, K)": lambda s: torch.randn(s.full),
    "tensor (H, 1, K)": lambda s: torch.randn(s.H, 1, s.K),
    "tensor (Q, 1)": lambda s: torch.randn(s.Q, 1),
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
    drawn |= {"D": st.sampled_from([1, 2, 5]), "Dv": st.sampled_from([1, 3])}
    drawn = {name: st.just(fixed[name]) if name in fixed else s for name, s in drawn.items()}

    def built(heads: tuple[int, int], **others: int) -> Sizes:
        return Sizes(H=heads[0], G=heads[1], **others)

    return st.builds(built, heads, **drawn)


@st.composite
def some_rules(draw: st.DrawFn, s: Sizes, names: tuple[str, ...] = tuple(RULES)) -> Rule | Tensor:
    """One rule, or two or three under `both` and `either`."""
    chosen = [RULES[n](s) for n in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))]
    while len(chosen) > 1:
        join = draw(st.sampled_from([rules.both, rules.either]))
        chosen = [join(*chosen[:2]), *chosen[2:]]
    return chosen[0]


@st.composite
def calls(draw: st.DrawFn, *, of: st.SearchStrategy[Sizes] | None = None, **names: Any) -> Asked:
    """Any call at all: sizes, score, select, rules joined at random, bias.

    A name given here is the list to draw from; None among them leaves it out.
    """
    s = draw(sizes() if of is None else of)
    lists = {what: [*EVERYTHING[what], None] for what in ("score", "select", "bias")} | names
    ruled = lists.pop("rule", [*RULES, None])
    drawn = {what: draw(st.sampled_from(list(names))) for what, names in lists.items()}
    torch.manual_seed(draw(st.integers(0, 1000)))
    call = asked(s, **{what: name for what, name in drawn.items() if name is not None})
    if None in ruled and draw(st.integers(0, 3)) == 0:
        return call
    some = tuple(name for name in ruled if name is not None)
    return replace(call, named=call.named | ({"rule": draw(some_rules(s, some))} if some else {}))
