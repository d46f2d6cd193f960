"""Attention in plain numpy float64, written from the papers and the contract alone.

Nothing of regard is imported here. A mechanism is a tuple, its name first (`draws.py` makes them).
What is smooth is analytic, so an imaginary step in the inputs gives the derivative exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Spec = tuple[Any, ...]
Array = np.ndarray


@dataclass
class Answer:
    """All that one call has to give; hidden logits are -inf."""

    logits: Array  # (B, H, Q, K)
    seen: Array  # (B, H, Q, K), by the rule and by the bias
    weights: Array  # (B, H, Q, K)
    out: Array  # (B, H, Q, Dv)
    unforced: Array  # the weights before one of them was forced


def arrays(spec: Any, change: Callable[[Any], Any]) -> Any:
    """A mechanism with each of its float arrays changed, in a fixed order."""
    if isinstance(spec, tuple):
        return tuple(arrays(each, change) for each in spec)
    is_float = isinstance(spec, np.ndarray) and spec.dtype.kind == "f"
    return change(spec) if is_float else spec


def share_heads(x: Array, heads: int) -> Array:
    """Keys or values (B, G, K, D) as each query head sees them (B, H, K, D)."""
    return np.repeat(x, heads // x.shape[1], axis=1) if x.shape[1] else x


# Scores (B, H, Q, K).


def dot(q: Array, k: Array, scale: float) -> Array:
    return scale * (q @ k.swapaxes(-1, -2))


def scaled_dot(q: Array, k: Array) -> Array:
    return dot(q, k, 1 / np.sqrt(q.shape[-1] or 1))


def unit(x: Array) -> Array:
    """Vectors of length one; zeros stay zeros. Divided twice, so that no square overflows."""
    if not x.shape[-1]:
        return x
    largest = np.abs(x.real).max(-1, keepdims=True)
    x = x / np.where(largest == 0, 1, largest)
    length = np.sqrt((x * x).sum(-1, keepdims=True))
    return x / np.where(largest == 0, 1, length)


def cosine(q: Array, k: Array, strength: Any) -> Array:
    strength = np.broadcast_to(np.asarray(strength), q.shape[:3])
    return strength[..., None] * (unit(q) @ unit(k).swapaxes(-1, -2))


def general(q: Array, k: Array, weight: Array) -> Array:
    return q @ weight @ k.swapaxes(-1, -2)


def location(q: Array, k: Array, weight: Array) -> Array:
    return (q @ weight)[..., : k.shape[2]]


def additive(q: Array, k: Array, vector: Array) -> Array:
    hidden = np.tanh(q[:, :, :, None] + k[:, :, None])
    return (hidden * vector[:, None, None]).sum(-1)


def by_distance(table: Array, Q: int, K: int) -> Array:
    """What is there for each distance (H, N, …), for each pair (H, Q, K, …)."""
    reach = table.shape[1] // 2
    distance = np.arange(K) - (np.arange(Q)[:, None] + K - Q)
    return table[:, np.minimum(np.maximum(distance, -reach), reach) + reach]


def relative(q: Array, k: Array, keys: Array, scale: float | None) -> Array:
    scale = 1 / np.sqrt(q.shape[-1] or 1) if scale is None else scale
    r = by_distance(keys, q.shape[2], k.shape[2])
    return scale * (q[:, :, :, None] * (k[:, :, None] + r)).sum(-1)


def factors(q: Array, k: Array, query_key: bool, *tables: Array | None) -> Array:
    distances, key, position = tables
    Q, K = q.shape[2], k.shape[2]
    total: Any = np.zeros((*q.shape[:3], K), dtype=q.dtype)
    if query_key:
        total = total + q @ k.swapaxes(-1, -2)
    if distances is not None:
        total = total + (q[:, :, :, None] * by_distance(distances, Q, K)).sum(-1)
    if key is not None:
        total = total + (key[:, None] * k).sum(-1)[:, :, None]
    if position is not None:
        total = total + by_distance(position, Q, K)
    return total / np.sqrt(q.shape[-1] or 1)


def clipped(q: Array, k: Array, inner: Spec, bound: float) -> Array:
    return bound * np.tanh(scores(inner, q, k))


def closeness(q: Array, k: Array) -> Array:
    difference = q[:, :, :, None] - k[:, :, None]
    return -(difference * difference).sum(-1)


SCORES = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "cosine": cosine,
    "general": general,
    "location": location,
    "additive": additive,
    "relative": relative,
    "factors": factors,
    "clipped": clipped,
    "own": closeness,
}


def scores(spec: Spec, q: Array, k: Array) -> Array:
    name, *given = spec
    return SCORES[name](q, k, *given)


# Rules: which keys may be seen, for index i at position p of query, along four axes.


@dataclass
class Grid:
    """Where queries and keys stand, each along its own axis of (B, H, Q, K)."""

    b: Array
    h: Array
    i: Array
    p: Array
    k: Array
    K: int


def grid(B: int, H: int, Q: int, K: int) -> Grid:
    b, h, i, k = np.ogrid[:B, :H, :Q, :K]
    return Grid(b, h, i, i + K - Q, k, K)


def padding(g: Grid, lengths: Array, side: str) -> Array:
    real = lengths[g.b]
    return g.k < real if side == "right" else g.k >= g.K - real


def documents(g: Grid, ids: Array) -> Array:
    """A position before the first key belongs to no document."""
    own = np.where(g.p >= 0, ids[g.b, np.maximum(g.p, 0)], np.iinfo(np.int64).min)
    return own == ids[g.b, g.k]


def at(g: Grid, inner: Spec, positions: Array) -> Array:
    p = positions[None, None, :, None] if positions.ndim == 1 else positions[:, None, :, None]
    return seen_on(inner, Grid(g.b, g.h, g.i, p, g.k, g.K))


def both(g: Grid, *inner: Spec) -> Array:
    result = seen_on(inner[0], g)
    for each in inner[1:]:
        result = result & seen_on(each, g)
    return result


def either(g: Grid, *inner: Spec) -> Array:
    result = seen_on(inner[0], g)
    for each in inner[1:]:
        result = result | seen_on(each, g)
    return result


RULES = {
    "causal": lambda g: g.k <= g.p,
    "window": lambda g, reach: np.abs(g.p - g.k) <= reach,
    "prefix": lambda g, n: (g.k < n) & (g.i >= 0),
    "padding": padding,
    "documents": documents,
    "around": lambda g, centre, reach: np.abs(g.k - centre[g.b, g.h, g.i]) <= reach,
    "at": at,
    "mask": lambda g, mask: mask,
    "both": both,
    "either": either,
    "own": lambda g: (g.p + g.k + g.b + g.h) % 3 > 0,
}


def seen_on(spec: Spec, g: Grid) -> Array:
    name, *given = spec
    return RULES[name](g, *given)


def seen(spec: Spec | None, B: int, H: int, Q: int, K: int) -> Array:
    """Whether each query may see each key (B, H, Q, K)."""
    if spec is None or not B * H * Q * K:
        return np.ones((B, H, Q, K), dtype=bool)
    return np.broadcast_to(seen_on(spec, grid(B, H, Q, K)), (B, H, Q, K))


# Biases: what is added to the scores.


def slopes(heads: int) -> Array:
    """Press et al. 2022: 2^(-8/n), 2^(-16/n), …; other numbers fill up from the next power."""
    power = 2 ** int(np.floor(np.log2(heads)))
    first = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    rest = [2.0 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)]
    return np.array(first + rest[: heads - power])


def bucket(distance: int, count: int, ahead: bool, farthest: int) -> int:
    """Raffel et al. 2020: half of the buckets exact, half logarithmic; in whole numbers."""
    first = 0
    if ahead:
        count //= 2
        first = count if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return first + distance
    # floor(log(d / exact) / log(farthest / exact) · wide), without a logarithm
    wide, step = count - exact, 0
    while step + 1 < wide and (
        distance**wide * exact ** (step + 1) >= farthest ** (step + 1) * exact**wide
    ):
        step += 1
    return first + exact + step


def buckets(count: int, ahead: bool, farthest: int, Q: int, K: int) -> Array:
    """The bucket of each pair (Q, K); what is equally far has the same."""
    found = [bucket(d, count, ahead, farthest) for d in range(-K - Q, K + Q + 1)]
    distance = np.arange(K) - (np.arange(Q)[:, None] + K - Q)
    return np.array(found, dtype=int)[distance + K + Q]


def added(spec: Spec | None, B: int, H: int, Q: int, K: int) -> Array:
    """What the bias adds, to be broadcast to (B, H, Q, K)."""
    if spec is None:
        return np.zeros(())
    name, *given = spec
    g = grid(B, H, Q, K)
    if name == "alibi":
        return -slopes(H)[:, None, None] * np.abs(g.p - g.k)
    if name == "relative":
        table, ahead, farthest = given
        return table[:, buckets(table.shape[1], ahead, farthest, Q, K)]
    if name == "tensor":
        return given[0]
    return (g.p - g.k) * 0.125 + g.h - 0.5 * g.b


# Selects: scores, -inf where hidden, to weights.


def softmax(s: Array) -> Array:
    hidden = s.real == -np.inf
    top = np.where(hidden, -np.inf, s.real).max(-1, keepdims=True, initial=-np.inf)
    shifted = np.where(hidden, 0, s - np.where(top == -np.inf, 0, top))
    powers = np.where(hidden, 0, np.exp(shifted))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def sparsemax(s: Array) -> Array:
    order = np.argsort(-s.real, axis=-1, kind="stable")
    ranked = np.take_along_axis(s, order, -1)
    there = ranked.real > -np.inf
    top = np.where(there[..., :1], ranked[..., :1], 0)
    ranked = np.where(there, ranked - top, 0)  # shifted: digits are kept where scores are huge
    count = np.arange(1, s.shape[-1] + 1)
    sums = np.cumsum(ranked, -1)
    support = there & (1 + count * ranked.real > sums.real)
    n = np.maximum(support.sum(-1, keepdims=True), 1)
    threshold = (np.where(support, ranked, 0).sum(-1, keepdims=True) - 1) / n
    shifted = np.where(s.real > -np.inf, s - top, -np.inf)
    return np.where(shifted.real > threshold.real, shifted - threshold, 0)


def best(s: Array, n: int) -> Array:
    """The n best seen keys of each query, as a mask; of equals the first."""
    rank = np.argsort(np.argsort(-s.real, axis=-1, kind="stable"), axis=-1, kind="stable")
    return (rank < n) & (s.real > -np.inf)


def top_k(s: Array, n: int) -> Array:
    return softmax(np.where(best(s, n), s, -np.inf))


def hard(s: Array) -> Array:
    return best(s, 1).astype(s.dtype)


def straight_through(s: Array) -> Array:
    """One-hot; along the imaginary axis, where the derivative is taken, the softmax."""
    chosen = best(s, 1).astype(float)
    return chosen + 1j * softmax(s).imag if np.iscomplexobj(s) else chosen


def gaussian(s: Array, centre: Array, width: float) -> Array:
    away = np.arange(s.shape[-1]) - centre[..., None]
    return softmax(s) * np.exp(-(away * away) / (2 * width * width))


SELECTS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "top_k": top_k,
    "hard": hard,
    "straight_through": straight_through,
    "gaussian": gaussian,
    "sampled": softmax,  # the probabilities; which key is drawn is for the judge
    "own": lambda s: softmax(2 * s),
}


# Edits, in the order: another score, cells hidden, another select, heat, force, heads ablated.


def cells(Q: int, K: int, H: int, where: tuple[Any, ...], heads: Any) -> Array:
    """True at a cell (query or None, key) of some heads, or of all (H, Q, K)."""
    query, key = where
    found = np.zeros((H, Q, K), dtype=bool)
    rows = slice(None) if query is None else slice(query, query + 1)
    for head in range(H) if heads is None else heads:
        found[head, rows, key] = True
    return found


def force(weights: Array, seen: Array, cell: Array, value: float) -> Array:
    """One weight of a row is given; the others are scaled to keep the sum of the row."""
    cell = cell & seen
    rest = np.where(cell, 0, weights)
    left, total = rest.sum(-1, keepdims=True), weights.sum(-1, keepdims=True)
    some = left.real > 0
    others = seen & ~cell
    count = others.sum(-1, keepdims=True)
    room = np.where(total.real > value, total - value, 0)
    scaled = rest / np.where(some, left, 1) * room
    alike = others * (room / np.maximum(count, 1))
    changed = np.where(cell, value, np.where(some, scaled, alike))
    return np.where(cell.any(-1, keepdims=True), changed, weights)


def attention(call: Any, given: Any = None, only: Array | None = None) -> Answer:
    """The answer to a call.

    Args:
        call: the call, from `draws.py`.
        given: q, k, v, score, select and bias, if others than the call's are to be used.
        only: the keys among which the select may choose (B, H, Q, K).
    """
    own = (call.q, call.k, call.v, call.score, call.select, call.bias)
    q, k, v, score, select, bias = given or own
    B, H, Q, K = call.full
    k = share_heads(k, H)
    edits = {name: given for name, *given in call.edits}
    if "score" in edits:
        (score,) = edits["score"]
    if "select" in edits:
        (select,) = edits["select"]
    plus = np.broadcast_to(added(bias, B, H, Q, K), (B, H, Q, K))
    visible = seen(call.rule, B, H, Q, K) & (plus.real > -np.inf)
    for each in edits.get("hide", [()])[0]:
        visible = visible & ~cells(Q, K, H, each, edits["hide"][1])
    found = scores(score, q, k) + np.where(visible, plus, 0)
    heat = edits["heat"][0] if "heat" in edits else 1.0
    name, *parameters = select
    open_to = visible if only is None else visible & only
    weights = SELECTS[name](np.where(open_to, found / heat, -np.inf), *parameters)
    unforced = weights
    if "force" in edits:
        query, key, value, heads = edits["force"]
        weights = force(weights, visible, cells(Q, K, H, (query, key), heads), value)
    if "ablate" in edits:
        weights = np.where(np.isin(np.arange(H), edits["ablate"][0])[:, None, None], 0, weights)
    out = weights @ share_heads(v, H)
    return Answer(np.where(visible, found / heat, -np.inf), visible, weights, out, unforced)


def log_probability(logits: Array, index: Array) -> Array:
    """The log of the softmax at one key a query; -inf where hidden, 0 where the index is -1."""
    if not logits.shape[-1]:
        return np.zeros(index.shape)
    hidden = logits.real == -np.inf
    top = logits.real.max(-1, keepdims=True)
    top = np.where(top == -np.inf, 0, top)
    powers = np.where(hidden, 0, np.exp(np.where(hidden, 0, logits - top)))
    total = powers.sum(-1)
    at_index = np.take_along_axis(logits, np.maximum(index, 0)[..., None], -1)[..., 0]
    there = (at_index.real > -np.inf) & (index >= 0)
    log = np.where(there, at_index - top[..., 0] - np.log(np.where(there, total, 1)), -np.inf)
    return np.where(index < 0, 0, log)
