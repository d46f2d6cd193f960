"""How far a careful computation may be off: first-order bounds of rounding, in plain numpy.

A sum of n products in a precision of spacing eps is off by at most (n + 2) · eps / 2 times the sum
of the products' magnitudes (Higham 2002, 3.5). `magnitude` has these sums for each score; the rest
follows how an error of the scores goes through the select and the reading.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.fuzz.truth import (
    Answer,
    Array,
    Spec,
    added,
    by_distance,
    cells,
    factors,
    scores,
    share_heads,
    unit,
)

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
LARGEST = {"float64": 1.7e308, "float32": 3.4e38, "bfloat16": 3.38e38, "float16": 65504.0}
SMALLEST = {"float64": 5e-324, "float32": 1.2e-38, "bfloat16": 1.2e-38, "float16": 6e-8}


@dataclass(frozen=True)
class Units:
    """Spacings of floating point in a call.

    Args:
        scores: of sums of products.
        factors: what the factors of a score are rounded to before, 0 if they are taken as given.
        weights: of exponentials and their sums.
        reading: what a fused kernel rounds weights to before a product, 0 for others.
        stored: of the result.
    """

    scores: float
    factors: float
    weights: float
    reading: float
    stored: float


def magnitude(spec: Spec, q: Array, k: Array, eps: float) -> Array:
    """The sums of magnitudes behind each score (B, H, Q, K), or what bounds them."""
    name, *given = spec
    if name in ("additive", "clipped"):
        return {"additive": _additive, "clipped": _clipped}[name](q, k, eps, *given)
    q, k, D = np.abs(q), np.abs(k), q.shape[-1] or 1
    if name in ("dot", "scaled_dot"):
        return abs(given[0] if given else D**-0.5) * (q @ k.swapaxes(-1, -2))
    if name == "cosine":
        strength = np.broadcast_to(np.abs(given[0]), q.shape[:3])[..., None]
        return 2 * strength * (unit(q) @ unit(k).swapaxes(-1, -2)) + 1e-30
    if name == "general":
        return 2 * (q @ np.abs(given[0]) @ k.swapaxes(-1, -2))
    if name == "location":
        return (q @ np.abs(given[0]))[..., : k.shape[2]]
    return SUMS[name](q, k, *given)


def steepest(x: Array, off: Array) -> Array:
    """The largest slope of tanh within `off` of x."""
    return 1 / np.cosh(np.minimum(np.maximum(np.abs(x) - off, 0), 300)) ** 2


def _additive(q: Array, k: Array, eps: float, vector: Array) -> Array:
    q, k = q[:, :, :, None], k[:, :, None]
    size = np.abs(q) + np.abs(k)
    hidden = np.minimum(size * steepest(q + k, eps * size), 2 / eps) + np.abs(np.tanh(q + k))
    return (hidden * np.abs(vector)[:, None, None]).sum(-1)


def _clipped(q: Array, k: Array, eps: float, inner: Spec, bound: float) -> Array:
    size, inside = magnitude(inner, q, k, eps), scores(inner, q, k)
    return bound * (size * steepest(inside, eps * size) + np.abs(np.tanh(inside)))


def _relative(q: Array, k: Array, keys: Array, scale: float | None) -> Array:
    scale = (q.shape[-1] or 1) ** -0.5 if scale is None else scale
    r = by_distance(np.abs(keys), q.shape[2], k.shape[2])
    return abs(scale) * (q[:, :, :, None] * (k[:, :, None] + r)).sum(-1)


def _factors(q: Array, k: Array, query_key: bool, *tables: Array | None) -> Array:
    return factors(q, k, query_key, *(None if t is None else np.abs(t) for t in tables))


def _closeness(q: Array, k: Array) -> Array:
    return ((q[:, :, :, None] + k[:, :, None]) ** 2).sum(-1)


SUMS = {
    "relative": _relative,
    "factors": _factors,
    "own": _closeness,
}


def of_factors(score: Spec, q: Array, k: Array) -> Array:
    """The sums of magnitudes of the factors that are rounded before their product (B, H, Q, K)."""
    name, *given = score
    if name == "general":
        return np.abs(q @ given[0]) @ np.abs(k).swapaxes(-1, -2)
    return magnitude(score, q, k, EPS["float64"])


def of_scores(call: Any, of: Any, answer: Answer) -> Array:
    """How far each logit may be off (B, H, Q, K), if it is computed with these spacings."""
    edits = {name: given for name, *given in call.edits}
    score = edits["score"][0] if "score" in edits else call.score
    heat = edits["heat"][0] if "heat" in edits else 1.0
    k = share_heads(call.k, call.full[1])
    eps = of.scores * (call.q.shape[3] + 6) / 2
    plus = np.abs(np.where(answer.seen, added(call.bias, *call.full), 0))
    off = eps * magnitude(score, call.q, k, eps) + 4 * of.scores * plus
    if of.factors:
        off = off + of.factors * of_factors(score, call.q, k)
    if call.dtype == "float16" and of.factors:  # whose smallest numbers are a fixed step apart
        off = off + 2.0**-24 * (np.abs(k).sum(-1)[:, :, None] + np.abs(call.q).sum(-1)[..., None])
    return np.minimum(off, 2 * score[2] if score[0] == "clipped" else np.inf) / heat


def of_clipped_slope(call: Any, of: Any) -> Array:
    """How far the slope 1 − tanh² of clipped scores may be off, as a share of it (B, H, Q, K).

    It moves by twice its share with what tanh is asked of, and is off by a spacing of 1.
    """
    inner, k = call.score[1], share_heads(call.k, call.full[1])
    off = of.scores * (call.q.shape[3] + 6) / 2 * magnitude(inner, call.q, k, of.scores)
    return 2 * off + of.scores / steepest(scores(inner, call.q, k), np.zeros(()))


def of_log(call: Any, select: Spec, answer: Answer, of: Units) -> float:
    """How far the slope of a log of weights that are differences may be off, as a share of it."""
    if select[0] != "sparsemax":
        return 0.0
    room = of_weights(select, answer, of_scores(call, of, answer), of)
    read = answer.weights > 0
    return float((room[read] / answer.weights[read]).max(initial=0))


def of_weights(select: Spec, answer: Answer, off: Array, of: Units) -> Array:
    """How far each weight may be off, if the logits are off by `off` and the rest by rounding."""
    off = np.where(answer.seen, off, 0)
    if select[0] == "sparsemax":
        return of_sparsemax(answer, off, of)
    K = answer.logits.shape[-1]
    seen = answer.seen
    if select[0] == "top_k":  # a weight that vanished is of one of the chosen, or of none
        largest = off.max(-1, keepdims=True, initial=0)
        seen = seen & ((answer.weights > 0) | (largest > 0.5))
    off, factor, away = np.where(seen, off, 0), np.ones(()), np.zeros(())
    logits = np.where(seen, answer.logits, -np.inf)
    if select[0] == "own":
        off, logits = 2 * off, 2 * logits
    if select[0] == "gaussian":
        _, centre, width = select
        factor = np.exp(-((np.arange(K) - centre[..., None]) ** 2) / (2 * width**2))
        away = of_distance(select, K, of.weights)
    below, log = below_and_log(logits, answer.weights > 0 if select[0] == "top_k" else seen)
    moved = of_softmax(log, off)
    # exp(s) itself is off by eps times the distance from the largest score, at most some 100
    # a fused kernel rounds to the nearest, and one key that is seen alone weighs 1 exactly
    read = of.reading / 2 * (answer.seen.sum(-1, keepdims=True) > 1)
    relative = (8 + K / 2 + np.minimum(below, 750)) * of.weights + read + away
    room = factor * (moved + (np.exp(log) + moved) * np.minimum(relative, 50))
    if of.reading == EPS["float16"]:  # whose smallest numbers are a fixed step apart
        room = room + 2.0**-24
    lost = SMALLEST["float32"] if of.weights >= EPS["float32"] else 2.3e-308
    room = room + lost * (answer.weights > 0)  # what is smaller underflows
    return seen * np.minimum(room, 2.0)


def below_and_log(logits: Array, summed: Array) -> tuple[Array, Array]:
    """How far logits (B, H, Q, K) are below the largest, and their log softmax, over some keys."""
    top = np.where(summed, logits, -np.inf).max(-1, keepdims=True, initial=-np.inf)
    below = np.where(np.isfinite(logits), np.where(np.isfinite(top), top, 0) - logits, 0)
    powers = np.where(summed, np.exp(-np.maximum(below, 0)), 0).sum(-1, keepdims=True)
    log = np.where(np.isfinite(logits), -below - np.log(np.where(powers > 0, powers, 1)), -np.inf)
    return np.maximum(below, 0), np.minimum(log, 0)


def of_softmax(log: Array, off: Array) -> Array:
    """How far a softmax may be off (B, H, Q, K), whose logits are off by `off` each of its own.

    A weight w grows at most by exp(off) while the sum of its row shrinks by Σ w exp(−off), of which
    the inverse is at most Σ w exp(off): together by exp(off + log Σ w exp(off)), and never beyond
    1. It shrinks at most as much. A key far below the others adds nothing to that sum, however far
    its logit is off; one whose logit is off by more than it is below them may be all of its row.
    """
    sums = (np.exp(log) * np.expm1(np.minimum(off, 600))).sum(-1, keepdims=True)
    shift = np.maximum(np.log1p(sums), (log + off).max(-1, keepdims=True, initial=0))
    room, weight = off + shift, np.exp(log)
    whole = np.exp(np.minimum(log + room, 0)) - weight
    grown = np.where(room < 1, weight * np.expm1(np.minimum(room, 1)), whole)
    return np.maximum(np.minimum(grown, 1 - weight), -weight * np.expm1(-room))


def of_sparsemax(answer: Answer, off: Array, of: Units) -> Array:
    """How far each weight of a sparsemax may be off.

    A weight is what its score is above a threshold, at which all weights sum to one. If scores move
    by M at most, so does the threshold, and keys below it by their own reach and M stay unread. The
    others alone decide, and the threshold moves by the most that one of them does.
    """
    s = np.where(answer.seen, answer.logits, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    s = np.where(answer.seen, s - np.where(np.isfinite(top), top, 0), -np.inf)
    read = answer.weights > 0
    count = np.maximum(read.sum(-1, keepdims=True), 1)
    threshold = (np.where(read, s, 0).sum(-1, keepdims=True) - 1) / count
    most, own = off.max(-1, keepdims=True, initial=0), (4 + answer.logits.shape[-1]) * of.weights
    may_be = answer.seen & (s + off + most + own >= threshold)
    theirs = np.where(may_be, off, 0).max(-1, keepdims=True, initial=0)
    return may_be * np.minimum(off + theirs + own + of.reading * answer.weights, 1.0)


def of_distance(select: Spec, K: int, eps: float) -> Array:
    """How far the factor of a gaussian may be off (B, H, Q, K), as a share of it."""
    _, centre, width = select
    away = np.arange(K) - centre[..., None]
    return eps * 4 * (away * away + np.abs(away * centre[..., None])) / width**2


def of_forced(call: Any, answer: Answer, off: Array) -> tuple[Array, Array]:
    """How far each weight may be off once one of its row is forced, and how much of the rest is.

    The rest is divided by its sum R, which is off by the sum E of the errors e of its parts: so a
    share is off by (e + share · E) / (R − E). Where E reaches R, rounding decides whether the rest
    is zero, which is shared alike instead: a jump. The second result is E / R (B, H, Q, 1).

    Args:
        call: with a `force` among its edits.
        answer: the truth.
        off: how far the weights may be off before.
    """
    query, key, value, heads = next(given for name, *given in call.edits if name == "force")
    _, H, Q, K = call.full
    cell = cells(Q, K, H, (query, key), heads) & answer.seen
    before = answer.unforced
    # softmax is computed in float32 or better, whose smallest numbers are lost
    lost = np.finfo(np.float64 if call.dtype == "float64" else np.float32).tiny
    off = off + lost * (before > 0)
    rest, error = np.where(cell, 0, before), np.where(cell, 0, off)
    total, noise = rest.sum(-1, keepdims=True), error.sum(-1, keepdims=True)
    unsure = np.where(noise > 0, noise / np.maximum(total, 1e-300), 0)
    share = rest / np.where(total > 0, total, 1)
    moved = (error + share * noise) / np.maximum(total - noise, 1e-300)
    left = np.maximum(before.sum(-1, keepdims=True) - value, 0)
    around = off.sum(-1, keepdims=True)
    scaled = left * np.minimum(np.where(noise > 0, moved, 0), 1) + share * around
    scaled = np.where(unsure >= 1, answer.seen * (left + around), scaled)
    rows = cell.any(-1, keepdims=True)
    return np.where(rows, np.where(cell, 0, scaled), off), np.where(rows, unsure, 0)


def of_reading(answer: Answer, off: Array, v: Array, eps: float) -> Array:
    """How far each output (B, H, Q, Dv) may be off, if weights are off by `off` and sums by eps."""
    v = share_heads(v, answer.logits.shape[1])
    summing = answer.weights @ np.abs(v) * ((v.shape[2] + 4) / 2 * eps)
    size = np.abs(v).max(2, keepdims=True, initial=0) if v.shape[2] else 0
    return summing + np.minimum(off @ np.abs(v), 2 * size)
