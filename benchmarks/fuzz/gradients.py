"""Are gradients right? Held to plain PyTorch in float64, which itself is held to the numpy truth.

The truth is analytic, so one imaginary step along a random direction gives the slope there to the
last digit; plain PyTorch's float64 gradients along that direction must be the same. They are then
the truth of every single number of ours.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.fuzz import bounds, plain, truth
from benchmarks.fuzz.chance import DTYPES
from benchmarks.fuzz.draws import Call
from benchmarks.fuzz.errors import Wrong
from benchmarks.fuzz.mechanisms import rule_names
from benchmarks.fuzz.truth import Answer, Array

WIDE = bounds.Units(*(factor * bounds.EPS["float64"] for factor in (1, 2, 1, 0, 1)))
SIGNS = 3  # patterns of signs that noise is drawn with: one alone may cancel by luck
STEP = 1e-40  # nothing is subtracted, so the step may be as small as can be


def check(call: Call, value: Tensor, leaves: list[Tensor], of: Any) -> None:
    """Raise if a gradient is not finite, or farther off than rounding explains."""
    direction = cotangent(call, value)
    mine: Sequence[Tensor] = [torch.zeros_like(x) for x in leaves]
    if value.requires_grad:  # what has none is held to be zero
        mine = torch.autograd.grad(value, leaves, direction, materialize_grads=True)
    for i, each in enumerate(mine):
        if not each.isfinite().all() and is_tame(call):
            raise Wrong(f"gradient of input {i} is not finite")
    lowered = call.autocast and call.dtype != "float64"
    if call.edits and not lowered and can_be_judged(call, edited=True):
        confirm_edited(call, direction, mine, of)
        return
    if not can_be_judged(call):
        return
    with np.errstate(all="ignore"):
        exact = truth.attention(call)
        if is_on_an_edge(call, exact, of):
            return
        true, noise = plainly_wide(call, direction, of, exact)
    theirs = plainly(call, direction, exact)
    confirm(call, direction, true, exact)
    for i, (got, each, their, rough) in enumerate(zip(mine, true, theirs, noise, strict=True)):
        compare(i, got, each, their, rough, call)


def cotangent(call: Call, value: Tensor) -> Tensor:
    """A random direction of the output, exact in its dtype; zero where it cannot be judged."""
    random = np.random.default_rng(call.direction_seed)
    g = torch.from_numpy(random.standard_normal(tuple(value.shape))).to(value.dtype)
    if call.function != "log_probability" or call.edits:  # whose -inf passes nothing on by itself
        g = g.masked_fill(~value.isfinite(), 0)
    if call.edits and call.function == "logits":  # which are given but for a sum for each row
        g = g - value.isfinite() * (
            g.sum(-1, keepdim=True) / value.isfinite().sum(-1, keepdim=True)
        )
        g = g.nan_to_num(0)
    return g


def is_tame(call: Call) -> bool:
    """True if no gradient can be beyond the call's dtype."""
    return call.tags["magnitude"] in ("one", "small") and call.spoil is None


def can_be_judged(call: Call, *, edited: bool = False) -> bool:
    """False where the slope is that of another function, or one that depends on a choice."""
    small = np.prod(call.full) * max(call.q.shape[3], 1) <= 30000
    plain_sizes = min(call.full) > 0 and min(call.q.shape[3], call.k.shape[3], call.v.shape[3]) > 0
    drawn = call.select[0] == "sampled"
    cosine = call.score[0] == "cosine" or ("score", ("cosine", 2.0)) in call.edits
    zeros = cosine and not (call.q.any(-1).all() and call.k.any(-1).all())
    huge = call.tags["magnitude"] in ("huge", "tiny") and call.dtype == "float16"
    another = bool(call.edits) and not edited
    return bool(small and plain_sizes and not drawn and not zeros and not huge and not another)


def is_on_an_edge(call: Call, exact: Answer, of: Any) -> bool:
    """True if rounding may decide which keys are read, and with them the slope."""
    if call.function not in ("attend", "weigh") and not call.edits:
        return False
    name = call.select[0]
    off = 8 * bounds.of_scores(call, of, exact)
    if name in ("hard", "straight_through", "top_k"):
        n = call.select[1] if name == "top_k" else 1
        low = np.where(exact.seen, exact.logits - off, -np.inf)
        high = np.where(exact.seen, exact.logits + off, -np.inf)
        rivals = (high[..., None, :] >= low[..., :, None]).sum(-1) - 1
        better = (low[..., None, :] > high[..., :, None]).sum(-1)
        sure = (exact.seen & (rivals < n)) | ~exact.seen | (better >= n)
        return not bool(sure.all())
    if name == "sparsemax":
        on = exact.unforced > 0
        count = np.maximum(on.sum(-1, keepdims=True), 1)
        s = np.where(on, exact.logits, 0)
        threshold = (s.sum(-1, keepdims=True) - 1) / count
        reach = 2 * off.max(-1, keepdims=True) + 1e-9
        return bool((np.abs(exact.logits - threshold) <= reach).any())
    return False


def loss(call: Call, found: dict[str, Tensor], exact: Answer, g: Tensor) -> Tensor:
    """The sum that is differentiated, of what plain PyTorch found."""
    if call.function == "attend":
        return (found["out"] * g).sum()
    if call.function == "weigh":
        return (found["weights"] * g).sum()
    hidden = ~torch.from_numpy(np.array(exact.seen))
    logits = found["scores"].masked_fill(hidden, -torch.inf)
    if call.function == "logits":
        return (found["scores"].masked_fill(hidden, 0) * g).sum()
    index = torch.from_numpy(call.index)
    blind = hidden.all(-1, keepdim=True)
    log = logits.masked_fill(blind, 0).log_softmax(-1)
    at = log.gather(-1, index.clamp_min(0)[..., None])[..., 0]
    return (at.masked_fill((index < 0) | blind[..., 0] | at.isinf(), 0) * g).sum()


def differentiable(call: Call, dtype: torch.dtype) -> tuple[Any, list[Tensor]]:
    """The leaves of plain PyTorch, each with a gradient, also in a list."""
    made = plain.leaves(call, dtype)
    found: list[Tensor] = []

    def walk(spec: Any) -> None:
        if isinstance(spec, tuple):
            for each in spec:
                walk(each)
        elif isinstance(spec, Tensor) and spec.is_floating_point():
            found.append(spec.requires_grad_())

    walk(made)
    return made, found


def plainly(call: Call, g: Tensor, exact: Answer) -> list[Array]:
    """Plain PyTorch's gradients in the call's dtype."""
    made, leaves = differentiable(call, DTYPES[call.dtype])
    with torch.autocast("cpu", torch.bfloat16, enabled=call.autocast):
        found = plain.attention(call, DTYPES[call.dtype], made, exact.seen)
        total = loss(call, found, exact, g)
    if not total.requires_grad:
        return [np.zeros(each.shape) for each in leaves]
    grads = torch.autograd.grad(total, leaves, materialize_grads=True)
    return [each.double().numpy() for each in grads]


def plainly_wide(call: Call, g: Tensor, of: Any, exact: Answer) -> tuple[list[Array], list[float]]:
    """Plain PyTorch's gradients in float64, and how far rounding may move each of them.

    Between the steps of a call, what flows back is rounded to what is stored where the factors of
    a score are, where a kernel is fused and where heads share their keys; else sums are wide.

    What flows back into the scores is a difference of numbers as large as `terms`; each is off by
    the spacing of the dtype, half of it in each of two roundings, and by what the weights are off.
    That noise, with random signs, is sent on to the leaves.
    """
    made, leaves = differentiable(call, torch.float64)
    found = plain.attention(call, torch.float64, made, exact.seen)
    total = loss(call, found, exact, g.double())
    if not total.requires_grad:
        return [np.zeros(each.shape) for each in leaves], [0.0] * len(leaves)
    grads = torch.autograd.grad(total, leaves, materialize_grads=True, retain_graph=True)
    if not found["scores"].requires_grad:
        return [x.numpy() for x in grads], [0.0] * len(leaves)
    off = np.where(exact.seen, bounds.of_scores(call, of, exact), 0)
    grouped = call.k.shape[1] != call.full[1]
    near = bool({"around", "window"} & set(rule_names(call.rule)))
    stored = of.factors or of.reading or grouped or near or call.score[0] == "location"
    between = of.stored if stored else of.weights
    spread = off.max(-1, keepdims=True) + between
    of_slope = bounds.of_clipped_slope(call, of) if call.score[0] == "clipped" else 0.0
    terms, of_factor = flowing(call, g, exact), 0.0
    if call.select[0] == "gaussian":
        of_factor = bounds.of_distance(call.select, call.full[3], of.weights)
    random = np.random.default_rng(call.direction_seed + 1)
    rough = [0.0] * len(leaves)
    for _ in range(SIGNS):
        sign = np.where(random.random(exact.logits.shape) < 0.5, -1.0, 1.0)
        through = torch.from_numpy(terms * np.minimum(spread + of_factor + of_slope, 2.0) * sign)
        noise = torch.autograd.grad(
            found["scores"], leaves, through, materialize_grads=True, retain_graph=True
        )
        # a parameter is one sum over all rows, in which signs may be less even than they were drawn
        for i, x in enumerate(noise):
            rough[i] = max(rough[i], (2 if i < 3 else 4) * x.abs().max().item())
    read = torch.autograd.grad(found["out"], leaves[2], reading(call, g), materialize_grads=True)
    if call.score[0] == "additive":  # 1 − tanh², which is off by a spacing of 1 where it vanishes
        flat = terms * float(np.abs(call.score[1]).max(initial=0)) * 4 * of.scores
        rough[0] += float(flat.sum(-1).max(initial=0))
        rough[1] += float(flat.sum((1, 2)).max(initial=0))
    if call.score[0] == "cosine":  # what flows along a vector cancels
        turned = terms.sum() * float(np.abs(call.score[1]).max(initial=0)) * 8
        rough[0] += turned * max(of.scores, of.stored) / np.linalg.norm(call.q, axis=-1).min()
        rough[1] += turned * max(of.scores, of.stored) / np.linalg.norm(call.k, axis=-1).min()
    if call.select[0] == "gaussian":  # its centre, next to the scores and the values
        away = np.arange(call.full[3]) - call.select[1][..., None]
        pulled = terms * np.minimum(spread + of_factor, 2.0) * np.abs(away) / call.select[2] ** 2
        rough[centre_place(call)] += 2 * float(pulled.sum(-1).max(initial=0))
        factor = (exact.weights * of_factor).swapaxes(-1, -2)
        rough[2] += 2 * float((factor @ reading(call, g).numpy()).max(initial=0))
    rough[2] += float(spread.max()) * read[0].abs().max().item() * 2
    return [x.numpy() for x in grads], rough


def centre_place(call: Call) -> int:
    """Which of the leaves is the centre of a gaussian select."""
    found: list[Array] = []

    def note(x: Array) -> Array:
        found.append(x)
        return x

    truth.arrays((call.q, call.k, call.v, call.score), note)
    return len(found)


def reading(call: Call, g: Tensor) -> Tensor:
    """The magnitudes that flow back through what is read."""
    if call.function == "attend":
        return g.double().abs()
    return torch.zeros(*call.full[:3], call.v.shape[3], dtype=torch.float64)


def flowing(call: Call, g: Tensor, exact: Answer) -> Array:
    """The magnitudes of what flows back into each score, before anything cancels (B, H, Q, K)."""
    size = np.abs(g.double().numpy())
    if call.function == "logits":
        return np.where(exact.seen, size, 0)
    soft = truth.softmax(exact.logits)
    if call.function == "log_probability":
        one = np.arange(call.full[3]) == call.index[..., None]
        return size[..., None] * (soft + one * exact.seen)
    if call.function == "attend":
        v = np.abs(truth.share_heads(call.v, call.full[1]))
        size = size @ v.swapaxes(-1, -2)
    w = soft if call.select[0] in ("straight_through", "hard") else exact.weights
    if call.select[0] == "sparsemax":
        w = (w > 0).astype(float)
        return w * (size + (w * size).sum(-1, keepdims=True))
    return w * (size + (w * size).sum(-1, keepdims=True))


def confirm_edited(call: Call, g: Tensor, mine: Any, of: Any) -> None:
    """Hold our gradients under an edit to the slope of the numpy truth."""
    chosen = [each[1] for each in call.edits if each[0] == "select"]
    judged = replace(call, select=chosen[0]) if chosen else call
    with np.errstate(all="ignore"):
        exact = truth.attention(call)
        if is_on_an_edge(judged, exact, of):
            return
        if any(each[0] == "force" for each in call.edits):
            off = 8 * bounds.of_scores(call, of, exact)
            unforced = replace(exact, weights=exact.unforced)
            off = bounds.of_weights(judged.select, unforced, off, of)
            if (bounds.of_forced(call, exact, off)[1] >= 0.1).any():
                call.notes.add("gradient of a force where rounding may empty the rest")
                return
    small = exact.weights[exact.weights > 0].min(initial=1) < 1e-6
    if judged.select[0] == "softmax":  # what underflows here may have a log there
        small |= exact.unforced[exact.seen].min(initial=1) < 1e-6
    # all of a row but the rounding of its sum is forced
    small |= any(each[0] == "force" and each[3] > 1 - 1e-6 for each in call.edits)
    if small and call.function in ("logits", "log_probability"):
        call.notes.add("gradient of the log of a weight that all but vanishes")
        return
    mine = [each.double().numpy() for each in mine]
    confirm(call, g, mine, exact, WIDE if call.dtype == "float64" else of, edited=True)


def confirm(
    call: Call,
    g: Tensor,
    true: list[Array],
    exact: Answer,
    of: bounds.Units = WIDE,
    *,
    edited: bool = False,
) -> None:
    """Hold gradients to the slope of the numpy truth along a random direction.

    Both are sums over all scores of what flows back into a score, times how it moves. What flows
    back is a difference of numbers as large as `terms`, each off by the spacing and by what
    rounding leaves open of the scores: where it cancels, no more can be asked of either.
    """
    random = np.random.default_rng(call.direction_seed + 2)
    ways: list[Array] = []

    def stepped(x: Array) -> Array:
        ways.append(random.standard_normal(x.shape))
        return x + 1j * STEP * ways[-1]

    own = (call.q, call.k, call.v, call.score, call.select, call.bias)
    with np.errstate(all="ignore"):
        found = truth.attention(call, truth.arrays(own, stepped))
        weight = g.double().numpy()
        moved = {"attend": found.out, "weigh": found.weights, "logits": found.logits}
        value = moved.get(call.function)
        if edited and call.function in ("logits", "log_probability"):
            value = log_of_shares(call, found.weights)
        elif value is None:
            value = truth.log_probability(found.logits, call.index)
        reach = np.where(np.isfinite(value.real), np.abs(value.real), 0) + 1e-6
        slopes = np.where(np.isfinite(value.real), value.imag, 0) * weight
        slope = float(slopes.sum()) / STEP
    parts = [float((a * b).sum()) for a, b in zip(true, ways, strict=True)]
    size = sum(float(np.abs(a * b).sum()) for a, b in zip(true, ways, strict=True))
    size += float(np.abs(slopes).sum()) / STEP + 1e-6 * float(np.abs(weight * reach).sum())
    noise = slope_noise(call, g, exact, found.logits.imag / STEP, of)
    if noise > 0.1 * size:
        call.notes.add("slope that rounding leaves open by more than a tenth")
    # sums over queries and keys, in float64 beneath what is asked anyway
    slack = (1e-7 if edited else 1e-8) + (sum(call.full) + 8) * of.weights + 2 * of.stored
    if edited and call.function in ("logits", "log_probability"):
        selects = [each[1] for each in call.edits if each[0] == "select"]
        slack += bounds.of_log(call, selects[0] if selects else call.select, exact, of)
    if not abs(sum(parts) - slope) <= slack * size + noise + 1e-200:
        whose = "gradients under an edit" if edited else "gradients of plain PyTorch"
        raise Wrong(
            f"slope {slope:.9g} of the truth, {whose} say {sum(parts):.9g}, "
            f"allowed ± {slack * size + noise:.1e}"
        )


def log_of_shares(call: Call, weights: Array) -> Array:
    """The logs of edited weights, or of those at the index; 0 where there is none."""
    there = weights.real > 0
    total = weights.sum(-1, keepdims=True)
    logs = np.where(there, np.log(np.where(there, weights / np.where(there, total, 1), 1)), 0)
    if call.function == "logits":
        return logs
    at = np.take_along_axis(logs, np.maximum(call.index, 0)[..., None], -1)[..., 0]
    return np.where(call.index >= 0, at, 0)


def slope_noise(call: Call, g: Tensor, exact: Answer, moved: Array, of: bounds.Units) -> float:
    """How far rounding may move a slope; `moved` is how each score moves with a step."""
    rounding = (call.full[3] + 8) * of.weights + 2 * of.stored
    with np.errstate(all="ignore"):
        off = np.where(exact.seen, bounds.of_scores(call, of, exact), 0)
        spread = np.minimum(2 * off.max(-1, keepdims=True) + rounding, 2.0)
        steps = np.abs(np.where(exact.seen, moved, 0)).max(-1, keepdims=True, initial=0)
        return 2 * float(np.nansum(flowing(call, g, exact) * spread * steps))


def may_err_as_plain(call: Call) -> bool:
    """True if a gradient may be off as that of plain PyTorch in the call's dtype is.

    Float32 may be summed as plain PyTorch does it; half precision may not. The slope of a tanh that
    clips is a difference from one.
    """
    return call.dtype in ("float32", "float64") or call.score[0] == "clipped"


def compare(i: int, got: Tensor, true: Array, their: Array, rough: float, call: Call) -> None:
    """Raise if a gradient is farther off than allowed."""
    dtype = "bfloat16" if call.autocast and call.dtype != "float64" else call.dtype
    mine = got.double().numpy()
    if mine.shape != true.shape:
        raise Wrong(f"gradient of input {i}: shape {mine.shape}, expected {true.shape}")
    if not true.size:
        return
    their = np.where(np.isfinite(their), their, true)
    error, plain_error = np.abs(mine - true), float(np.abs(their - true).max())
    wide = min(bounds.EPS[dtype], bounds.EPS["float32"]) if dtype != "float64" else 1e-12
    # rounded once, to the nearest: half a spacing
    limit = rough + 4 * wide * float(np.abs(true).max()) + 1e-37
    limit = limit + bounds.EPS[dtype] / 2 * np.abs(true)
    if may_err_as_plain(call):
        limit = limit + 2 * plain_error
    if call.dtype == "float16":
        limit = limit + 2**-22
    if not (error <= limit).all():
        at = np.unravel_index(
            int(np.nanargmax(np.where(np.isnan(error), np.inf, error - limit))), true.shape
        )
        allowed = np.broadcast_to(limit, true.shape)[at]
        raise Wrong(
            f"gradient of input {i} {[int(n) for n in at]} is {mine[at]:.9g}, "
            f"truth {true[at]:.9g}, allowed ± {allowed:.1e}, plain: {plain_error:.1e}"
        )
