"""Random scores, rules, biases, selects and edits: tuples of a name and what it is given."""

from typing import Any

import numpy as np

from benchmarks.fuzz.chance import Draw, rounded
from benchmarks.fuzz.truth import Array, Spec

SCALES = (-1.0, 0.0, 1.0, 1.0, 0.5, 2.0, -0.125, 3.0, 1e-3)

SCORE_ODDS = {
    "dot": 2,
    "cosine": 2,
    "general": 1.5,
    "additive": 2.5,
    "location": 1,
    "relative": 1.5,
    "clipped": 1,
    "factors": 1,
    "own": 0.6,
}


def score(draw: Draw, call: Any, dtype: str, *, near_one: bool = True) -> Spec:
    """A score other than the default, with random weights."""
    name = draw.of(tuple(SCORE_ODDS), tuple(SCORE_ODDS.values()))
    (B, H, Q, K), D = call.full, call.q.shape[3]
    if name == "dot":
        return name, draw.of(SCALES)
    if name == "cosine":
        forms = ((), (H, 1), (B, 1, 1), (B, H, Q), (Q,), None)
        form = draw.of(forms)
        strength = draw.of(SCALES) if form is None else draw.normal(dtype, *form, size=3)
        return name, strength
    if name == "general":
        return name, draw.normal(dtype, H, D, D)
    if name == "location":
        return name, draw.normal(dtype, H, D, K + draw.whole(0, 2))
    if name == "additive":
        return name, draw.normal(dtype, H, D)
    reach, own = draw.whole(0, 4), draw.of((1, H))
    if name == "relative":
        scale = draw.of((None, *SCALES))
        return name, draw.normal(dtype, own, 2 * reach + 1, D), scale
    if name == "clipped":
        inner = draw.of((("dot", 1.0), ("scaled_dot",), ("additive", draw.normal(dtype, H, D))))
        return name, inner, draw.of((10.0, 3.0, 0.5))
    if name == "factors":
        return name, *_factors(draw, dtype, H, D, reach)
    return ("own",) if near_one else ("dot", 1.0)


def _factors(draw: Draw, dtype: str, H: int, D: int, reach: int) -> tuple[Any, ...]:
    N, own = 2 * reach + 1, draw.of((1, H))
    there = [draw.chance(0.6) for _ in range(4)]
    there[0] = there[0] or not any(there)
    distances = draw.normal(dtype, own, N, D) if there[1] else None
    key = draw.normal(dtype, H, D) if there[2] else None
    position = draw.normal(dtype, own, N) if there[3] else None
    return there[0], distances, key, position


RULE_ODDS = {
    "causal": 3,
    "window": 2,
    "prefix": 1,
    "padding": 2.5,
    "documents": 1.2,
    "around": 1.5,
    "at": 1.2,
    "mask": 2.5,
    "both": 2,
    "either": 2,
    "own": 0.6,
}


def rule(draw: Draw, B: int, H: int, Q: int, K: int, depth: int = 0) -> Spec:
    """A rule, at times of several."""
    odds = [0 if depth > 1 and n in ("both", "either") else x for n, x in RULE_ODDS.items()]
    name = draw.of(tuple(RULE_ODDS), odds)
    if name in ("both", "either"):
        count = draw.of((2, 2, 3, 1))
        return name, *(rule(draw, B, H, Q, K, depth + 1) for _ in range(count))
    if name == "at":
        shape = draw.of(((Q,), (B, Q)))
        inner = draw.of(
            (("causal",), ("window", draw.whole(0, 3)), ("documents",), ("prefix", 2), ("own",)),
            (3, 2, 1, 0.5, 0.5),
        )
        if inner[0] == "documents" and K:
            ids = draw.whole(0, 2, B, K + 2)
            return name, ("documents", ids), draw.whole(0, K - 1, *shape)
        inner = ("causal",) if inner[0] == "documents" else inner
        return name, inner, draw.whole(-1, K + 1, *shape)
    return _simple_rule(draw, name, (B, H, Q, K))


def rule_names(rule: Spec | None) -> list[str]:
    """The name of a rule, and of those inside of it."""
    if rule is None:
        return ["none"]
    return [rule[0], *(n for part in rule[1:] if isinstance(part, tuple) for n in rule_names(part))]


def _simple_rule(draw: Draw, name: str, full: tuple[int, int, int, int]) -> Spec:
    B, H, Q, K = full
    if name == "window":
        return name, draw.of((0, 1, 2, 3, 5, K, 40))
    if name == "prefix":
        return name, draw.whole(0, K + 2)
    if name == "padding":
        return name, draw.whole(0, K, B), draw.of(("right", "left"))
    if name == "documents":
        ids = draw.whole(0, 2, B, max(K + draw.whole(0, 2), 1))
        return name, np.sort(ids) if draw.chance(0.7) else ids
    if name == "around":
        centre = draw.random.uniform(-2, K + 1, (B, H, Q))
        if draw.chance(0.5):
            centre = np.round(centre * 4) / 4  # so that some keys stand on the edge
        dtype = draw.of(("float32", "bfloat16"))
        return name, rounded(centre, dtype), draw.of((0, 0.5, 1, 1.25, 2, 7.0))
    if name == "mask":
        shape = [n if draw.chance(0.6) else 1 for n in full]
        return name, draw.mask(*shape[draw.whole(0, 4) :])
    return (name,)


def bias(draw: Draw, B: int, H: int, Q: int, K: int, dtype: str) -> tuple[Spec, str]:
    """A bias, and the dtype of its tensor."""
    name = draw.of(("alibi", "relative", "tensor", "own"), (2, 2, 3, 0.7))
    own = "float32" if dtype != "float64" and draw.chance(0.3) else dtype
    if name == "relative":
        count, ahead = draw.of((4, 8, 12)), draw.chance(0.5)
        farthest = draw.of((7, 13, 20, 128))
        return (name, draw.normal(own, H, count), ahead, farthest), own
    if name == "tensor":
        shape = [n if draw.chance(0.7) else 1 for n in (B, H, Q, K)]
        values = draw.normal(own, *shape, size=draw.of((1.0, 1.0, 10.0)))
        if draw.chance(0.3):
            values = np.where(draw.mask(*shape), values, -np.inf)
        cut = 0 if values.size == 0 else draw.whole(0, 3)
        return (name, values[(0,) * cut]), own
    return (name,), own


def select(draw: Draw, call: Any) -> Spec:
    """A select other than the default."""
    names = ("sparsemax", "top_k", "hard", "straight_through", "gaussian", "sampled", "own")
    name = draw.of(names, (2, 2, 2, 1.5, 2, 1.5, 0.5))
    if name == "top_k":
        return name, draw.of((1, 2, 3, 5, 20))
    if name == "gaussian":
        centre = draw.random.uniform(-1, call.full[3] + 1, call.full[:3])
        dtype = draw.of(("float32", "float32" if call.dtype == "float64" else call.dtype))
        return name, rounded(centre, dtype), draw.of((0.5, 1.0, 2.5, 20.0))
    return (name,)


def index(draw: Draw, call: Any) -> Array:
    """The key of each query whose log-probability is asked for; -1 is none."""
    B, H, Q, K = call.full
    return draw.whole(-1, K - 1, B, H, Q) if K else np.full((B, H, Q), -1)


def edits(draw: Draw, call: Any) -> tuple[Spec, ...]:
    """Some edits, in the order in which the truth applies them."""
    _, H, Q, K = call.full

    def heads() -> tuple[int, ...] | None:
        return draw.of((None, (draw.whole(0, H - 1),)))

    def cell() -> tuple[int | None, int]:
        return draw.of((None, draw.whole(0, Q - 1))), draw.whole(0, K - 1)

    sums_to_one = call.select[0] != "sampled"
    made = {
        "score": lambda: ("score", draw.of((("dot", 0.5), ("scaled_dot",), ("cosine", 2.0)))),
        "hide": lambda: ("hide", tuple(cell() for _ in range(draw.whole(1, 3))), heads()),
        "select": lambda: ("select", draw.of((("softmax",), ("hard",), ("sparsemax",)))),
        "heat": lambda: ("heat", draw.of((0.5, 2.0, 3.0))),
        "force": lambda: ("force", *cell(), draw.of((0.0, 0.25, 0.9, 1.0)), heads()),
        "ablate": lambda: ("ablate", tuple(sorted({draw.whole(0, H - 1) for _ in range(2)}))),
    }
    if call.k.shape[3] != call.q.shape[3]:
        made.pop("score")
    wanted = [name for name in made if draw.chance(0.3)] or [draw.of(tuple(made))]
    if not sums_to_one and "select" not in wanted:
        wanted = [name for name in wanted if name != "force"] or ["hide"]
    changes = [made[name]() for name in wanted]
    chosen = next((each[1] for each in changes if each[0] == "select"), call.select)[0]
    # a forced key hides which was chosen, and has another meaning where all others read nothing
    choices = ("hard", "straight_through", "top_k", "sparsemax")
    if chosen in choices and call.dtype != "float64":
        changes = [each for each in changes if each[0] != "force"] or [made["hide"]()]
    return tuple(changes)
