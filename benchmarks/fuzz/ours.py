"""A drawn call in regard's own words: its tensors, its values, its backend; and what comes back."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

import regard
from benchmarks.fuzz.chance import DTYPES, rounded
from benchmarks.fuzz.draws import Call, spoiled
from benchmarks.fuzz.truth import Array, Spec, arrays
from regard import biases, edits, rules, scores, selects
from regard.kernels.additive import reference_tiled
from regard.kernels.backends import chunked


@dataclass
class Result:
    """What came back, what a look saw of it, and the leaves to take gradients of."""

    value: Tensor
    leaves: list[Tensor]
    seen: Any = None  # weights (B, H, Q, K)
    rows: Any = None  # weights of some queries of one head
    picked: tuple[int, int, list[int]] | None = None
    unlooked: Tensor | None = None
    top: Any = None  # the two best keys of each query and their weights
    entropy: Any = None  # of each query (B, H, Q)


class Probe(nn.Module):
    """A model that does nothing but attend, so that it can be edited."""

    def forward(self, function: Any, *given: Any, **named: Any) -> Tensor:
        return function(*given, **named)


def closeness(q: Tensor, k: Tensor) -> Tensor:
    return -(q[:, :, :, None] - k[:, :, None]).square().sum(-1)


def score(spec: Spec) -> Any:
    name, *given = spec
    made = {
        "scaled_dot": lambda: scores.scaled_dot,
        "dot": lambda scale: scores.dot if scale == 1 else scores.Dot(scale),
        "cosine": scores.Cosine,
        "general": scores.General,
        "location": scores.Location,
        "additive": scores.Additive,
        "relative": scores.Relative,
        "factors": scores.Factors,
        "clipped": lambda inner, bound: scores.Clipped(score(inner), bound),
        "own": lambda: closeness,
    }
    return made[name](*given)


def narrowest(x: Array) -> Tensor:
    """Numbers in bfloat16 if it holds them all, else in float32."""
    fits = np.array_equal(rounded(x, "bfloat16"), x)
    return torch.from_numpy(x).to(torch.bfloat16 if fits else torch.float32)


def whole(x: Array) -> Tensor:
    """Whole numbers in one of the dtypes that hold them, told by the numbers themselves."""
    kinds = (torch.int8, torch.int16, torch.int32)
    fits = [each for each in kinds if x.max(initial=0) <= torch.iinfo(each).max]
    return torch.from_numpy(x).to([torch.int64, *fits][int(x.sum()) % (len(fits) + 1)])


def rule(spec: Spec | None) -> Any:
    if spec is None:
        return None
    name, *given = spec
    made = {
        "causal": lambda: rules.causal,
        "window": rules.window,
        "prefix": rules.prefix,
        "padding": lambda lengths, side: rules.padding(whole(lengths), side=side),
        "documents": lambda ids: rules.documents(whole(ids)),
        "around": lambda centre, reach: rules.around(narrowest(centre), reach),
        "at": lambda inner, places: rules.at(rule(inner), whole(places)),
        "mask": lambda mask: torch.from_numpy(np.array(mask)),
        "both": lambda *inner: rules.both(*map(rule, inner)),
        "either": lambda *inner: rules.either(*map(rule, inner)),
        "own": lambda: lambda b, h, q, k: (q + k + b + h) % 3 > 0,
    }
    return made[name](*given)


def bias(spec: Spec | None, heads: int) -> Any:
    if spec is None:
        return None
    name, *given = spec
    made = {
        "alibi": lambda: biases.alibi(heads),
        "relative": lambda table, ahead, far: biases.relative(
            table, bidirectional=ahead, max_distance=far
        ),
        "tensor": lambda values: values,
        "own": lambda: lambda b, h, q, k: (q - k) * 0.125 + h - 0.5 * b,
    }
    return made[name](*given)


def select(spec: Spec, seed: int) -> Any:
    name, *given = spec
    made = {
        "softmax": lambda: selects.softmax,
        "sparsemax": lambda: selects.sparsemax,
        "top_k": selects.top_k,
        "hard": lambda: selects.hard,
        "straight_through": lambda: selects.straight_through,
        "gaussian": selects.gaussian,
        "sampled": lambda: selects.sampled(torch.Generator().manual_seed(seed)),
        "own": lambda: lambda s: selects.softmax(2 * s),
    }
    return made[name](*given)


def change(call: Call) -> Any:
    """The edits of a call, chained."""
    made = {
        "score": lambda spec: edits.score(score(spec)),
        "hide": lambda cells, heads: edits.hide(cells, heads=heads),
        "select": lambda spec: edits.select(select(spec, call.direction_seed)),
        "heat": edits.heat,
        "force": lambda query, key, weight, heads: edits.force(query, key, weight, heads=heads),
        "ablate": lambda heads: edits.ablate(*heads),
    }
    return edits.chain(*(made[name](*given) for name, *given in call.edits))


def strided(x: Tensor, form: str) -> Tensor:
    """The same numbers in memory of another form."""
    if form == "heads last":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if form == "sliced":
        wide = x.new_full((*x.shape[:2], 2 * x.shape[2], x.shape[3] + 1), 7.0)
        wide[:, :, ::2, :-1] = x
        return wide[:, :, ::2, :-1]
    if form == "shifted":  # no address that a vector unit likes
        flat = x.new_full((x.numel() + 3,), 7.0)
        flat[3:] = x.flatten()
        return flat[3:].view(x.shape)
    return x[:1].expand(x.shape) if form == "expanded" else x


def unread_places(keys: Array, queries: Array, i: int, x: Tensor) -> Tensor:
    """Where input i may hold anything: keys no query sees (B, K), queries that see none."""
    hidden = np.broadcast_to(keys[:, None], x.shape[:3]) if i in (1, 2) else queries
    return torch.from_numpy(np.array(hidden))


def tensors(call: Call, *, spoil: bool) -> tuple[Any, list[Tensor]]:
    """q, k, v, score, select and bias with tensors in them, and the tensors in their order."""
    found: list[Tensor] = []
    dtype = DTYPES[call.dtype]
    others = [dtype] * 64
    centre_at, bias_at = -1, -1
    order: list[str] = []

    def note(x: Array) -> Array:
        order.append("")
        return x

    arrays((call.q, call.k, call.v, call.score), note)
    others[3 : len(order)] = [DTYPES[call.score_dtype or call.dtype]] * (len(order) - 3)
    centre_at = len(order) if call.select[0] == "gaussian" else -1
    arrays(call.select, note)
    if call.bias is not None:
        bias_at = len(order)
    if centre_at >= 0 and not np.array_equal(rounded(call.select[1], call.dtype), call.select[1]):
        others[centre_at] = torch.float32
    if bias_at >= 0:
        others[bias_at] = DTYPES[call.bias_dtype]
    dirty = spoiled(call) if spoil and call.spoil is not None else None

    def tensor(x: Array) -> Tensor:
        i = len(found)
        made = torch.from_numpy(np.array(x)).to(others[i])
        if dirty is not None and i in (0, 1, 2, centre_at):
            made[unread_places(*dirty, i, made)] = call.spoil
        if i < 3:
            made = strided(made, call.strides if dirty is None else "plain")
        if i < 3 and call.gradient:
            made = made.detach().requires_grad_()
        elif call.gradient:
            made.requires_grad_()
        found.append(made)
        return made

    specs = (call.q, call.k, call.v, call.score, call.select, call.bias)
    return arrays(specs, tensor), found


def named(call: Call, made: Any) -> dict[str, Any]:
    """The arguments that are passed by name."""
    found: dict[str, Any] = {}
    if call.score != ("scaled_dot",):
        found["score"] = score(made[3])
    if call.select != ("softmax",):
        found["select"] = select(made[4], call.direction_seed)
    if call.rule is not None:
        found["rule"] = rule(call.rule)
    if call.bias is not None:
        found["bias"] = bias(made[5], call.full[1])
    return found


def function(call: Call, made: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function of regard that is called, and what it is given in order."""
    q, k, v = made[:3]
    if call.function == "attend":
        return regard.attend, (q, k, v)
    if call.function == "log_probability":
        return regard.log_probability, (q, k, torch.from_numpy(call.index))
    return {"weigh": regard.weigh, "logits": regard.logits}[call.function], (q, k)


def autocast(call: Call) -> Any:
    return torch.autocast("cpu", torch.bfloat16, enabled=call.autocast)


def cut_small(call: Call) -> ExitStack:
    """A context in which a few numbers are cut into tiles, chunks and blocks as millions are."""
    stack, cut = ExitStack(), np.random.default_rng(call.direction_seed)
    if not call.tiled:
        return stack
    stack.enter_context(patch.object(chunked, "UNTILED_MAX_TERMS", 0))
    stack.enter_context(patch.object(chunked, "BLOCK_QUERIES", int(cut.choice((2, 4, 32)))))
    for name in ("CHUNK_MAX_PAIRS", "SCORE_CHUNK_MAX_TERMS"):
        stack.enter_context(patch.object(chunked, name, int(cut.choice((16, 128, 1 << 22)))))
    tile = {"cpu": int(cut.choice((256, 2048, 2**23)))}
    stack.enter_context(patch.object(reference_tiled, "TILE_BYTES", tile))
    return stack


def run(call: Call, backend: str) -> Result:
    """The call on this backend; looked at and edited as it was drawn."""
    made, leaves = tensors(call, spoil=True)
    run_it, given = function(call, made)
    model = Probe()
    with ExitStack() as stack:
        stack.enter_context(autocast(call))
        stack.enter_context(cut_small(call))
        if backend != "auto":
            stack.enter_context(regard.use_backend(backend))
        if call.edits:
            stack.enter_context(regard.edit(model, {"Probe": change(call)}))
        if not call.looked:
            return Result(model(run_it, *given, **named(call, made)), leaves)
        unlooked = model(run_it, *given, **named(call, made))
        with regard.look(model) as seen:
            value = model(run_it, *given, **named(call, made))
        result = Result(value, leaves, unlooked=unlooked)
        sight = seen["Probe"]
        result.seen = sight.weights()
        if min(call.full[:3]) > 0:
            b, h = call.direction_seed % call.full[0], call.direction_seed % call.full[1]
            queries = sorted({0, call.full[2] - 1, call.direction_seed % call.full[2]})
            result.rows, result.picked = sight.rows(b, h, queries), (b, h, queries)
        if min(call.full) > 0:
            result.top, result.entropy = sight.top(2), sight.entropy()
    return result


def why(call: Call) -> Any:
    """Which backend would run it, and what stands against the others."""
    made, _ = tensors(call, spoil=False)
    with autocast(call):
        return regard.why(*made[:3], **named(call, made))
