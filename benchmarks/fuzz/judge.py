"""Is what came back right? Held to the truth in float64: it may err by what rounding explains.

Rounding is that of sums in float32 or better, whatever is stored (`bounds.py`): an eager program in
half precision errs by far more.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.fuzz import bounds, gradients, ours, truth
from benchmarks.fuzz.bounds import Units
from benchmarks.fuzz.chance import DTYPES, rounded
from benchmarks.fuzz.choices import nearest_choice
from benchmarks.fuzz.draws import Call
from benchmarks.fuzz.errors import Wrong
from benchmarks.fuzz.truth import Answer, Array

FOLDING = ("scaled_dot", "dot", "cosine", "general", "location")
DISCRETE = ("hard", "straight_through", "top_k")


def units(call: Call, *, formed: bool = False) -> Units:
    """The spacings that a call may have; `formed` for the weights of a look.

    Sums run in float32 or better, whatever is stored. The factors of a score are rounded to that
    where q and k are projected first, and where the score is the user's; weights, where a fused
    kernel reads with them.
    """
    dtype = "bfloat16" if lowered(call) else call.dtype
    stored = bounds.EPS[dtype]
    wide = min(stored, bounds.EPS["float32"]) if dtype != "float64" else 32 * stored
    score = effective_score(call)
    name = score[1][0] if score[0] == "clipped" else score[0]
    fused = call.function == "attend" and not formed and call.backend != "reference"
    fused = fused and effective_select(call)[0] == "softmax" and score[0] in FOLDING
    fused = fused and dtype in ("bfloat16", "float16")
    rounds_weight = lowered(call) or call.score_dtype is not None
    times = (name in ("cosine", "general")) + (name == "location" and rounds_weight)
    times += 8 * (score[0] == "own")
    return Units(wide, times * stored / 2, wide, stored * fused, stored)


def as_lowered(call: Call) -> Call:
    """The call with its inputs rounded as autocast rounds them: that is the call it makes of it."""
    if not lowered(call):
        return call
    q, k, v = (rounded(x, "bfloat16") for x in (call.q, call.k, call.v))
    return replace(call, q=q, k=k, v=v)


def lowered(call: Call) -> bool:
    """True if autocast rounds the inputs of this call."""
    return call.autocast and call.dtype != "float64"


def answer(call: Call) -> Answer:
    with np.errstate(all="ignore"):
        return truth.attention(call)


def floor(call: Call, exact: Answer, of: Units) -> dict[str, Array]:
    """What rounding explains, of logits, weights and what is read."""
    select = effective_select(call)
    off = bounds.of_scores(call, of, exact)
    unforced = replace(exact, weights=exact.unforced)
    weights = bounds.of_weights(select, unforced, off, of)
    if select[0] in DISCRETE[:2]:
        weights = 0 * weights
    if any(each[0] == "force" for each in call.edits):
        with np.errstate(all="ignore"):
            weights, unsure = bounds.of_forced(call, exact, weights)
        if (unsure >= 1).any():
            call.notes.add("force where rounding may empty the rest")
        weights = weights + 4 * of.weights * exact.weights
    read = bounds.of_reading(exact, weights, call.v, of.weights)
    return {"scores": off, "weights": weights, "out": read}


def compare(
    call: Call, what: str, got: Tensor, exact: Array, allowed: Array, stored: float
) -> None:
    """Raise if any number is farther off than allowed."""
    if tuple(got.shape) != exact.shape:
        raise Wrong(f"{what}: shape {tuple(got.shape)}, expected {exact.shape}")
    mine = got.detach().double().numpy()
    dtype = "bfloat16" if lowered(call) else call.dtype
    infinite = np.isinf(exact)
    beyond = np.abs(exact) >= bounds.LARGEST[dtype] * (1 - stored)
    with np.errstate(all="ignore"):
        error = np.abs(mine - exact)
        # rounded once, to the nearest: half a spacing
        limit = allowed * (1 + stored) + stored / 2 * np.abs(exact) + 4 * bounds.SMALLEST[dtype]
        right = np.where(infinite, mine == exact, error <= limit)
        right |= beyond & (np.sign(mine) == np.sign(exact)) & (np.abs(mine) > np.abs(exact) * 0.9)
    if not right.all():
        worst = np.unravel_index(np.argmin(right.reshape(-1)), exact.shape)
        raise Wrong(
            f"{what}{[int(i) for i in worst]} is {mine[worst]:.9g}, truth {exact[worst]:.9g}, "
            f"allowed ± {np.broadcast_to(limit, exact.shape)[worst]:.1e}; "
            f"{int((~right).sum())} of {right.size} wrong"
        )


def judge(call: Call) -> str:
    """Raise `Wrong`, or say what the call came to: right, or refused in words."""
    reason = None
    try:
        result = ours.run(call, call.backend)
    except ValueError as error:
        reason = str(error)
    except Exception as error:
        raise Wrong(f"{type(error).__name__}: {str(error)[:200]}") from error
    if reason is not None:
        check_refusal(call, reason)
        call.backend = "auto"  # drawn is drawn: it may as well be answered
        judge(call)
        return "refused"
    call = as_lowered(call)
    exact = answer(call)
    check_value(call, result, exact)
    if call.looked:
        check_look(call, result, exact)
    if call.gradient:
        with ours.cut_small(call):
            gradients.check(call, result.value, result.leaves, units(call))
    return "right"


def check_refusal(call: Call, reason: str) -> None:
    """A backend asked for by name that cannot do it says why; nothing else is refused."""
    if call.backend in ("auto", "reference"):
        raise Wrong(f"{call.backend} refused: {reason[:200]}")
    if f"{call.backend!r}" not in reason:
        raise Wrong(f"backend {call.backend} refused without its name: {reason[:200]}")
    if call.function == "attend" and not call.edits:
        known = ours.why(call).reasons[call.backend]
        if known is None or known not in reason:
            raise Wrong(f"{call.backend} refused with {reason[:150]!r}, `why` says {known!r}")


def check_value(call: Call, result: ours.Result, exact: Answer) -> None:
    """The value of the call, by its kind."""
    of = units(call)
    dtype = "bfloat16" if lowered(call) else call.dtype
    if result.value.dtype != DTYPES[dtype]:
        raise Wrong(f"dtype {result.value.dtype}, expected {dtype}")
    if call.select[0] == "sampled" and call.function in ("attend", "weigh"):
        return check_draw(call, result, exact)
    if call.edits and call.function in ("logits", "log_probability"):
        return check_edited_logits(call, result, exact, of)
    exact = resolved(call, result, exact, of)
    room = floor(call, exact, of)
    with np.errstate(all="ignore"):
        what, true, allowed = values(call, exact, room, of)
    return compare(call, what, result.value, true, allowed, of.stored)


def values(call: Call, exact: Answer, room: Any, of: Units) -> tuple[str, Array, Array]:
    """What the call gives, its truth, and what rounding explains."""
    if call.function == "attend":
        return "out", exact.out, room["out"]
    if call.function == "weigh":
        return "weights", exact.weights, room["weights"]
    if call.function == "logits":
        return "logits", exact.logits, room["scores"]
    log = truth.log_probability(exact.logits, call.index)
    off = room["scores"].max(-1, initial=0) if call.full[3] else np.zeros(call.full[:3])
    top = np.where(exact.seen, np.abs(exact.logits), 0).max(-1, initial=0)
    return "log", log, 2 * off + 4 * of.scores * (top + np.log(call.full[3] + 1) + 1)


def check_edited_logits(call: Call, result: ours.Result, exact: Answer, of: Units) -> None:
    """Under an edit the softmax of logits is the edited weights; an ablated head says 0."""
    if effective_select(call)[0] in DISCRETE:
        off = bounds.of_scores(call, of, exact)
        must, may_not, _ = open_choice(call, exact, off)
        if not (must | may_not).all():
            return  # the choice is judged where the weights are asked for
    value = result.value.detach().double().numpy()
    room = floor(call, exact, of)["weights"]
    there = heard(call) & exact.seen.any(-1)
    if call.function == "logits":
        hidden = ~exact.seen
        silent = np.where(exact.seen & ~heard(call)[..., None], value, 0)
        if (value[hidden] != -np.inf).any() or silent.any():
            raise Wrong("edited logits: a hidden key or an ablated head has a score")
        # what the dtype cannot hold is infinite; its sign is all that can be held to
        beyond = np.abs(exact.logits) >= bounds.LARGEST[call.dtype] * (1 - of.stored)
        fits = exact.seen & beyond & np.isinf(value) & (np.sign(value) == np.sign(exact.logits))
        value = np.where(fits, exact.logits, value)
        size = np.abs(np.where(np.isfinite(value), value, 0)).max(-1, keepdims=True, initial=0)
        moved = 4 * of.stored * size
        log = np.log(np.where(exact.weights > 0, exact.weights, 1e-320))
        room = room + bounds.of_softmax(log, np.where(exact.seen, moved, 0))
        weights = torch.from_numpy(truth.softmax(np.where(there[..., None], value, -np.inf)))
        total = exact.weights.sum(-1, keepdims=True)  # one forced weight may be all of a row
        weights = weights * torch.from_numpy(total)
        compare(call, "edited logits", weights, exact.weights, room, of.stored)
        return
    chosen = call.index >= 0
    at = np.maximum(call.index, 0)[..., None]
    total = exact.weights.sum(-1, keepdims=True)
    shares = exact.weights / np.where(total == 0, 1, total)
    true, off = (np.take_along_axis(x, at, -1)[..., 0] for x in (shares, room))
    there &= chosen
    size = np.where(np.isfinite(value), np.abs(value), 0)
    off = np.where(there, off + true * np.expm1(np.minimum(4 * of.stored * size, 50)), 0)
    weights = np.where(there, np.exp(np.where(there, value, 0)), 0)
    exp = torch.from_numpy(weights)
    compare(call, "edited log", exp, np.where(there, true, 0), off, of.stored)


# Selects that choose: any choice is right that is the best within rounding.


def open_choice(call: Call, exact: Answer, off: Array) -> tuple[Array, Array, int]:
    """Keys that must be chosen, keys that may not be, and how many there are to choose."""
    spec = effective_select(call)
    n = spec[1] if spec[0] == "top_k" else 1
    low = np.where(exact.seen, exact.logits - off, -np.inf)
    high = np.where(exact.seen, exact.logits + off, -np.inf)
    rival = high[..., None, :] >= low[..., :, None]
    better = low[..., None, :] > high[..., :, None]
    # equals that nothing rounds, as scores of zeros are, are cut by order
    sure = exact.seen & (off == 0)
    equal = (exact.logits[..., None, :] == exact.logits[..., :, None]) & sure[..., None, :]
    equal &= sure[..., :, None]
    earlier = np.tri(exact.logits.shape[-1], k=-1, dtype=bool)
    rival &= ~equal | earlier
    better |= equal & earlier
    rivals, betters = rival.sum(-1) - ~sure, better.sum(-1)
    return exact.seen & (rivals < n), ~exact.seen | (betters >= n), n


def effective_score(call: Call) -> Any:
    """The score after the edits."""
    return next((each[1] for each in call.edits if each[0] == "score"), call.score)


def effective_select(call: Call) -> Any:
    """The select after the edits."""
    return next((each[1] for each in call.edits if each[0] == "select"), call.select)


def resolved(
    call: Call, result: ours.Result, exact: Answer, of: Units, *, look: bool = False
) -> Answer:
    """The truth for the keys that were chosen, once they are found to be as good as the best."""
    selects = look or call.function in ("attend", "weigh")
    if effective_select(call)[0] not in DISCRETE or not selects:
        return exact
    off = bounds.of_scores(call, of, exact)
    must, may_not, n = open_choice(call, exact, off)
    if (must | may_not).all():  # equals are cut by order
        return exact

    def among(only: Array) -> Answer:
        """The answer where these keys alone may be chosen; a row that has none sees none."""
        with np.errstate(all="ignore"):
            return truth.attention(call, only=np.where(only.any(-1, keepdims=True), only, True))

    forced = any(each[0] == "force" for each in call.edits)
    if forced or (call.function == "attend" and not look):
        # a look, or another backend, may round a tie to the other side: what came back tells
        part = "out" if call.function == "attend" and not look else "weights"
        found = (result.seen if look else result.value).detach().double().numpy()
        known = [] if forced else [(support(call, result) & exact.seen & ~may_not) | must]
        read = lambda keys: getattr(among(keys), part)  # noqa: E731
        smallest = bounds.SMALLEST[call.dtype]
        only = nearest_choice(must, may_not, n, read, found, of.stored, known, smallest=smallest)
        return among(only)
    chosen = support(call, result) & exact.seen
    if (chosen & may_not).any():
        where = [int(i) for i in np.argwhere(chosen & may_not)[0]]
        raise Wrong(f"select {effective_select(call)[0]}: key {where} is not among the best {n}")
    only = chosen | must
    if (only.sum(-1) > n).any() or (exact.seen.any(-1) & ~only.any(-1) & heard(call)).any():
        raise Wrong(f"select {effective_select(call)[0]}: not {n} of the best keys are read")
    return among(only)


def heard(call: Call) -> Array:
    """Which heads are not ablated (H, 1)."""
    lost = [h for each in call.edits if each[0] == "ablate" for h in each[1]]
    return ~np.isin(np.arange(call.full[1]), lost)[:, None]


def support(call: Call, result: ours.Result) -> Array:
    """The keys that a choice read (B, H, Q, K): by the weights, or by a look at the same call."""
    if call.function == "weigh":
        return result.value.detach().double().numpy() != 0
    if result.seen is not None:
        return result.seen.detach().double().numpy() != 0
    looked = Call(**{**call.__dict__, "looked": True, "gradient": False})
    return ours.run(looked, call.backend).seen.double().numpy() != 0


def check_draw(call: Call, result: ours.Result, exact: Answer) -> None:
    """One key is read, one that is seen and that the softmax could give; a blind row reads none."""
    v = truth.share_heads(call.v, call.full[1])
    value = result.value.detach().double().numpy()
    possible = exact.weights > 1e-12
    if call.function == "weigh":
        one_hot = ((value == 0) | (value == 1)).all() and (
            value.sum(-1) == exact.seen.any(-1)
        ).all()
        if not one_hot or (value.astype(bool) & ~exact.seen).any():
            raise Wrong("sampled: weights are not one-hot on a key that is seen")
        if (value.astype(bool) & ~possible).any() and call.dtype in ("float32", "float64"):
            raise Wrong("sampled: a key was drawn that is all but impossible")
        call.luck = luck(call, exact, value)
        return
    eps = units(call).stored
    near = np.abs(value[..., None, :] - v[:, :, None]) <= eps * np.abs(v[:, :, None]) + 1e-37
    fits = (near.all(-1) & exact.seen).any(-1) | ~exact.seen.any(-1)
    blind = np.where(exact.seen.any(-1, keepdims=True), 0, value)
    if not fits.all() or blind.any():
        raise Wrong("sampled: what is read is not the value of one key that is seen")
    apart = np.abs(v[:, :, :, None] - v[:, :, None]) > 4 * eps * np.abs(v).max(initial=0)
    if v.size and (apart.any(-1) | np.eye(v.shape[2], dtype=bool)).all():  # each tells its key
        call.luck = luck(call, exact, near.all(-1) & exact.seen)


def luck(call: Call, exact: Answer, drawn: Array) -> tuple[float, float]:
    """How much oftener than expected the likeliest key of a row was drawn, and the variance."""
    best = exact.weights.max(-1, initial=0)
    hit = (drawn * (exact.weights == best[..., None])).sum(-1)
    count = (exact.weights == best[..., None]).sum(-1) * best
    open_rows = exact.seen.any(-1) & (call.tags["magnitude"] == "one") & (not call.autocast)
    surplus = np.where(open_rows, hit - count, 0)
    spread = np.where(open_rows, count * (1 - count), 0)
    return float(surplus.sum()), float(spread.sum())


def check_look(call: Call, result: ours.Result, exact: Answer) -> None:
    """A look changes no bit, its rows are its weights, and they are those that were read."""
    if call.select[0] != "sampled" and not same_bits(result.value, result.unlooked):
        raise Wrong("the output differs under a look")
    seen = result.seen
    if tuple(seen.shape) != call.full:
        raise Wrong(f"look: weights of shape {tuple(seen.shape)}, expected {call.full}")
    if result.rows is not None:
        b, h, queries = result.picked
        difference = (
            (result.rows.double() - seen[b, h, queries].double()).abs().max().item()
            if (result.rows.numel())
            else 0.0
        )
        of = units(call, formed=True)
        room = 2 * floor(call, exact, of)["weights"].max(initial=0) + 2 * of.stored
        if effective_select(call)[0] in DISCRETE:  # of a tie they may choose another key
            must, may_not, _ = open_choice(call, exact, bounds.of_scores(call, of, exact))
            room = room if (must | may_not)[b, h, queries].all() else 1.0 + room
        if not difference <= room:
            raise Wrong(f"look: rows differ from weights by {difference:.1e}")
    if result.top is not None:
        check_summaries(call, result, exact)
    if effective_select(call)[0] == "sampled":
        read = seen.double().numpy() @ truth.share_heads(call.v, call.full[1])
        if call.function == "attend":
            size = np.abs(read) * units(call).stored + 1e-37
            compare(call, "read by the look", result.value, read, size, units(call).stored)
        return
    check_look_is_run(call, result, exact)
    of = units(call, formed=True)
    exact = resolved(call, result, exact, units(call), look=True)
    compare(call, "look", seen, exact.weights, 2 * floor(call, exact, of)["weights"], of.stored)


def check_look_is_run(call: Call, result: ours.Result, exact: Answer) -> None:
    """A look and the run multiply the same numbers: what is folded is rounded alike in both.

    Rows of which rounding of the sums may choose other keys are left out.
    """
    of, select = units(call), effective_select(call)[0]
    forced = any(each[0] == "force" for each in call.edits)
    if call.function != "attend" or select in ("sparsemax", "own") or forced:
        return
    if effective_score(call)[0] in FOLDING:
        of = replace(of, factors=0.0)
    room = sum(floor(call, exact, each)["weights"] for each in (of, replace(of, reading=0.0)))
    seen = result.seen.detach().double().numpy()
    read = seen @ truth.share_heads(call.v, call.full[1])
    sure = np.abs(read) < bounds.LARGEST[call.dtype] / 2
    if select in DISCRETE:
        must, may_not, _ = open_choice(call, exact, 2 * bounds.of_scores(call, of, exact))
        sure &= (must | may_not).all(-1, keepdims=True)
    known = replace(exact, weights=seen)
    room = room + of.stored / 2 * seen + bounds.SMALLEST[call.dtype]  # weights are as stored
    allowed = bounds.of_reading(known, room, call.v, of.weights)
    value = torch.from_numpy(np.where(sure, result.value.detach().double().numpy(), 0))
    what = "read with the weights of a look"
    compare(call, what, value, np.where(sure, read, 0), allowed, of.stored)


def check_summaries(call: Call, result: ours.Result, exact: Answer) -> None:
    """The best keys and the entropy of a look are those of its weights."""
    of, seen = units(call, formed=True), result.seen.double()
    room = 2 * floor(call, exact, of)["weights"].max(initial=0) + 2 * of.stored
    if effective_select(call)[0] in DISCRETE:  # of a tie they may choose another key
        must, may_not, _ = open_choice(call, exact, bounds.of_scores(call, of, exact))
        room = room if (must | may_not).all() else 1.0 + room
    weights, keys = result.top.weights.double(), result.top.keys
    best = seen.sort(-1, descending=True).values[..., : keys.shape[-1]]
    there = seen.gather(-1, keys)
    difference = max((weights - best).abs().max().item(), (weights - there).abs().max().item())
    if not difference <= room:
        raise Wrong(f"look: top differs from weights by {difference:.1e}")
    # no summand of an entropy is steeper than between 0 and what its weight may be off
    steepest = room * (1 - np.log(min(room, 1.0))) if room else 0.0
    allowed = call.full[3] * (steepest + 4 * bounds.EPS["float32"])
    difference = (result.entropy.double() - torch.special.entr(seen).sum(-1)).abs().max().item()
    if not difference <= allowed:
        raise Wrong(f"look: entropy differs from that of weights by {difference:.1e}")


def same_bits(a: Tensor, b: Tensor | None) -> bool:
    return (
        b is not None
        and a.dtype == b.dtype
        and torch.equal(a.nan_to_num(nan=12345.0), b.nan_to_num(nan=12345.0))
    )
