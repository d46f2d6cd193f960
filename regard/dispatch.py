"""`attend` and its kin: check a call, choose a backend, show it to open looks, run it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

from torch import Tensor

from regard import check, looking
from regard.functional import attention as plain
from regard.functional.biases import Bias
from regard.functional.call import (
    Call,
    Why,
    build_call,
    is_standard,
    repeat_kv_heads,
    with_dropout,
    zero_ablated_heads,
)
from regard.functional.edited_selects import log_weights, with_drawn_keys
from regard.functional.rules import Rule, causal
from regard.functional.scores import Additive, Score, scaled_dot
from regard.functional.selects import HIDDEN, Select, softmax
from regard.kernels.backends import chunked, flex, sdpa, triton
from regard.runtime import mkl

Backend = Literal["auto", "reference", "sdpa", "flex", "triton", "chunked"]

mkl.warm_up()

# A plain variable: torch.compile guards on it and follows it, which it cannot do with a ContextVar.
_requested_backend: Backend = "auto"

# For layers and models: attention inside a method beside `forward` gets that module's path.
as_module_call = looking.as_module_call


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = scaled_dot,
    select: Select = softmax,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """What each query reads: score, select, read, under a rule.

    Args:
        q: queries (B, H, Q, D).
        k: keys (B, H, K, D); fewer heads than q are shared by groups of query heads.
        v: values (B, H, K, Dv), with the heads of k.
        score: how well a query matches a key, from `regard.scores`, or any callable on q and k.
        select: how scores become weights, from `regard.selects`, or any callable on scores.
        rule: which keys may be seen, from `regard.rules`, any callable, or a bool tensor with True
            where a key may be seen; None lets all be seen.
        bias: what is added to the scores, from `regard.biases`, any callable, or a float tensor.
        dropout: the share of weights dropped; pass 0 in evaluation.

    Returns:
        (B, H, Q, Dv); zeros for a query that may see nothing.

    Raises:
        ValueError: shapes disagree, or the backend asked for cannot do this.
    """
    is_undropped = isinstance(dropout, (int, float)) and not dropout
    everyday = select is softmax and bias is None and is_undropped
    if everyday and _requested_backend == "auto" and not looking.is_observed():
        # what most models ask for, most often: a microsecond counts where a token is decoded
        if score is scaled_dot and (rule is None or rule is causal) and is_standard(q, k, v):
            return sdpa.fused_attention(q, k, v, causal=rule is causal)
        if (
            isinstance(score, Additive)
            and rule is None
            and triton.can_attend_unmasked(q, k, v, score)
        ):
            return triton.attend_unmasked(q, k, v, score)
    with looking.pause_observers():
        call = build_call(q, k, v, score=score, select=select, rule=rule, bias=bias)
        call = _call_with_drawn_keys(looking.apply_edits(with_dropout(call, dropout)))
        backend = _choose_backend(call)
        looking.show_call(call, partial(_why, call, backend))
        return zero_ablated_heads(call, _run_backend(backend, call))


def weigh(
    q: Tensor,
    k: Tensor,
    *,
    score: Score = scaled_dot,
    select: Select = softmax,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Tensor:
    """The weights (B, H, Q, K), for those who need them whole; arguments as in `attend`."""
    with looking.pause_observers():
        call = build_call(
            q, k, None, score=score, select=select, rule=rule, bias=bias, where="weigh"
        )
        call = _call_with_drawn_keys(looking.apply_edits(call))
        return _compute_dense(
            call, "weigh", lambda: zero_ablated_heads(call, call.select(_logits(call)))
        )


def logits(
    q: Tensor,
    k: Tensor,
    *,
    score: Score = scaled_dot,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Tensor:
    """The scores before selecting (B, H, Q, K), −inf where not seen; arguments as in `attend`."""
    with looking.pause_observers():
        call = build_call(q, k, None, score=score, rule=rule, bias=bias, where="logits")
        call = _call_with_drawn_keys(looking.apply_edits(call))
        return _compute_dense(call, "logits", lambda: _logits_after_edit(call))


def log_probability(
    q: Tensor,
    k: Tensor,
    index: Tensor,
    *,
    score: Score = scaled_dot,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Tensor:
    """The log of the softmax at one key a query (B, H, Q), never forming the rest.

    Args:
        q: queries, as all other arguments like those of `attend`.
        k: keys.
        index: the key of each query (B, H, Q). A key that may not be seen gives −inf; −1, which is
            what `sampled` draws for a query that sees nothing, gives 0.
    """
    with looking.pause_observers():
        call = build_call(q, k, None, score=score, rule=rule, bias=bias, where="log_probability")
        call = _call_with_drawn_keys(looking.apply_edits(call))
        B, H, Q, K = call.sizes
        check.integers("log_probability", "index", index)
        check.shape("log_probability", "index", index, B=B, H=H, Q=Q)
        if check.can_read_values(index) and bool(((index < -1) | (index >= K)).any()):
            raise ValueError(f"log_probability: expected index from -1 to K - 1 = {K - 1}")
        why = _why_log_probability(call)
        looking.show_call(call, lambda: why)
        if 0 in call.sizes:
            return call.q.new_zeros(B, H, Q)
        found = _LOG_PROBABILITY[why.backend](call, index.long().clamp_min(0)).to(call.q.dtype)
        return found.masked_fill(index < 0, 0)


def why(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = scaled_dot,
    select: Select = softmax,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
    dropout: float = 0.0,
) -> Why:
    """Which backend `attend` would take for this call, and what stands against the others."""
    call = with_dropout(
        build_call(q, k, v, score=score, select=select, rule=rule, bias=bias), dropout
    )
    return _why(call, _choose_backend(call))


def requested_backend() -> Backend:
    """The backend that `use_backend` forces, or "auto"."""
    return _requested_backend


@contextmanager
def use_backend(backend: Backend) -> Iterator[None]:
    """Run every call inside with this backend, or raise an error that says why it cannot."""
    global _requested_backend
    if not isinstance(backend, str) or backend not in get_args(Backend):
        raise ValueError(
            f"use_backend: expected one of {', '.join(get_args(Backend))}, "
            f"got {check.brief_text(backend)}"
        )
    before, _requested_backend = _requested_backend, backend
    try:
        yield
    finally:
        _requested_backend = before


def why_not(backend: str, call: Call) -> str | None:
    """The reason `backend` cannot run this call, or None if it can."""
    return _WHY_NOT[backend](call)


def _choose_backend(call: Call) -> str:
    if _requested_backend == "auto":
        return next(name for name in _backend_order(call) if why_not(name, call) is None)
    reason = why_not(_requested_backend, call)
    if reason is not None:
        raise ValueError(f"attend: backend {_requested_backend!r} cannot run this: {reason}")
    return _requested_backend


def _backend_order(call: Call) -> tuple[str, ...]:
    """The backends in the order in which `auto` asks them."""
    if flex.is_profitable(call):
        return ("triton", "flex", "chunked", "sdpa", "reference")
    if chunked.is_profitable(call):
        return ("triton", "chunked", "sdpa", "reference")
    return ("triton", "sdpa", "chunked", "reference")


def _call_with_drawn_keys(call: Call) -> Call:
    """The call with its keys drawn already, so that a look keeps the very ones that are read."""
    if not looking.is_observed():
        return call
    return replace(call, select=with_drawn_keys(call.select, partial(_logits, call)))


def _why(call: Call, backend: str) -> Why:
    return Why(backend, {name: why_not(name, call) for name in _WHY_NOT})


def _run_backend(backend: str, call: Call) -> Tensor:
    if 0 in call.sizes:
        return plain.run_call(call)  # nothing to compute: zeros, whoever was asked
    return _ATTENTION[backend](call)


def _logits(call: Call) -> Tensor:
    k = repeat_kv_heads(call.k, call.q.shape[1])
    score = call.score
    if isinstance(score, Additive) and _requested_backend != "reference":
        score = chunked.ChunkedScore(score)
    return plain.logits(call.q, k, score=score, rule=call.rule, bias=call.bias)


def _logits_after_edit(call: Call) -> Tensor:
    """The logits as an edit leaves them: their softmax is what its select gives.

    A head that is not heard says nothing: 0 for all that it sees.
    """
    scores = _logits(call)
    said = scores if call.select is softmax else log_weights(call.select, scores)
    if call.heads is None:
        return said
    return said.where(call.heads[:, None, None], scores.masked_fill(scores != HIDDEN, 0))


def _reference_log_probability(call: Call, index: Tensor) -> Tensor:
    if _is_edited(call):
        return plain.log_softmax_at(_logits_after_edit(call), index)
    k = repeat_kv_heads(call.k, call.q.shape[1])
    return plain.log_probability(call.q, k, index, score=call.score, rule=call.rule, bias=call.bias)


def _is_edited(call: Call) -> bool:
    """Whether an edit made of a softmax what no kernel of it knows."""
    return call.select is not softmax or call.heads is not None


def _why_log_probability(call: Call) -> Why:
    """Who gives log-probabilities for the call."""
    if _is_edited(call):
        return _choose_among(
            "log_probability", "an edit made it other than a softmax", ["reference"]
        )
    refused = triton.why_not_log_probability(call)
    able = ["reference", "chunked", *([] if refused else ["triton"])]
    return _choose_among("log_probability", "it only reads values", able, triton=refused)


def _compute_dense(call: Call, where: str, compute: Callable[[], Tensor]) -> Tensor:
    """What has to be formed whole (B, H, Q, K)."""
    tiled = isinstance(call.score, Additive)
    why = _choose_among(
        where, "it never forms (Q, K)", ["reference", *(["chunked"] if tiled else [])]
    )
    looking.show_call(call, lambda: why)
    return compute().to(call.q.dtype)


def _choose_among(where: str, reason: str, able: list[str], **others: str | None) -> Why:
    """The last of the backends that are able to, or the one asked for, or an error.

    What is not able is so for this reason, or for one of its own.
    """
    backend = able[-1] if _requested_backend == "auto" else _requested_backend
    reasons = {n: None if n in able else others.get(n) or reason for n in _WHY_NOT}
    if backend not in able:
        raise ValueError(
            f"{where}: backend {_requested_backend!r} cannot run this: {reasons[backend]}"
        )
    return Why(backend, reasons)


_WHY_NOT: dict[str, Callable[[Call], str | None]] = {
    "reference": lambda call: None,
    "sdpa": sdpa.why_not,
    "flex": flex.why_not,
    "triton": triton.why_not,
    "chunked": chunked.why_not,
}
_ATTENTION: dict[str, Callable[[Call], Tensor]] = {
    "reference": plain.run_call,
    "sdpa": sdpa.attention,
    "flex": flex.attention,
    "triton": triton.attention,
    "chunked": chunked.attention,
}
_LOG_PROBABILITY: dict[str, Callable[[Call, Tensor], Tensor]] = {
    "reference": _reference_log_probability,
    "chunked": chunked.log_probability,
    "triton": triton.log_probability,
}
