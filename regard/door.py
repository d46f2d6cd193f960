"""The one door: every attention comes through here, and here alone a backend is chosen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

from torch import Tensor

from regard import check, looking, mkl
from regard.functional import attention as plain
from regard.functional.biases import Bias
from regard.functional.call import Call, Why, checked, dropping, heard, ordinary, spread
from regard.functional.edited import drawn, logs
from regard.functional.rules import Rule, causal
from regard.functional.scores import Additive, Score, scaled_dot
from regard.functional.selects import HIDDEN, Select, softmax
from regard.kernels import chunked, flex, fused, one_query, one_query_plain, sdpa, tour

Backend = Literal["auto", "reference", "sdpa", "flex", "triton", "chunked"]

mkl.ready()

# A plain variable: torch.compile guards on it and follows it, which it cannot do with a ContextVar.
_asked: Backend = "auto"

# Layers and models know the door alone: by this, a method beside `forward` has a name for looks.
named = looking.named


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
    if everyday and _asked == "auto" and not looking.watched():
        # what most models ask for, most often: a microsecond counts where a token is decoded
        if score is scaled_dot and (rule is None or rule is causal) and ordinary(q, k, v):
            return sdpa.fused(q, k, v, causal=rule is causal)
        if isinstance(score, Additive) and rule is None and fused.takes(q, k, v, score):
            return fused.everything(q, k, v, score)
    with looking.aside():
        call = checked(q, k, v, score=score, select=select, rule=rule, bias=bias)
        call = _drawn(looking.edited(dropping(call, dropout)))
        backend = _chosen(call)
        looking.show(call, partial(_why, call, backend))
        return heard(call, _run(backend, call))


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
    with looking.aside():
        call = checked(q, k, None, score=score, select=select, rule=rule, bias=bias, where="weigh")
        call = _drawn(looking.edited(call))
        return _formed(call, "weigh", lambda: heard(call, call.select(_logits(call))))


def logits(
    q: Tensor,
    k: Tensor,
    *,
    score: Score = scaled_dot,
    rule: Rule | Tensor | None = None,
    bias: Bias | Tensor | None = None,
) -> Tensor:
    """The scores before selecting (B, H, Q, K), −inf where not seen; arguments as in `attend`."""
    with looking.aside():
        call = checked(q, k, None, score=score, rule=rule, bias=bias, where="logits")
        call = _drawn(looking.edited(call))
        return _formed(call, "logits", lambda: _said(call))


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
    with looking.aside():
        call = checked(q, k, None, score=score, rule=rule, bias=bias, where="log_probability")
        call = _drawn(looking.edited(call))
        B, H, Q, K = call.sizes
        check.integers("log_probability", "index", index)
        check.shape("log_probability", "index", index, B=B, H=H, Q=Q)
        if check.readable(index) and bool(((index < -1) | (index >= K)).any()):
            raise ValueError(f"log_probability: expected index from -1 to K - 1 = {K - 1}")
        why = _pointing(call)
        looking.show(call, lambda: why)
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
    call = dropping(checked(q, k, v, score=score, select=select, rule=rule, bias=bias), dropout)
    return _why(call, _chosen(call))


def swift(*tensors: Tensor) -> bool:
    """Whether rows may ask `grown`, `read_once` and `read_few`: nobody looks, nothing learns.

    Their kernels are those of the fused dot product, so another backend by name stands against it.
    """
    if _asked not in ("auto", "sdpa") or looking.watched():
        return False
    return one_query.takes(*tensors) or one_query.on_cpu(*tensors)


def grown(new: Tensor, k: Tensor, v: Tensor, free: Tensor, length: Tensor) -> Tensor:
    """What one more token of each row reads (B, E), in the launch that writes its key and value.

    Where it is `swift`, on a card; arguments as in `kernels.one_query_attention.grown`.
    """
    from regard.kernels import one_query_attention

    return one_query_attention.grown(new, k, v, free, length)


def read_once(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """What one query of each row (B, E) reads, where it is `swift`, on a card.

    Each sees at least one key; arguments as in `kernels.one_query_attention.read`.
    """
    from regard.kernels import one_query_attention

    return one_query_attention.read(q, k, v, bias)


def read_few(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """What a few queries of each row read, where it is `swift`, on a CPU: (B·W, H·D).

    Each sees at least one key; arguments as in `kernels.one_query_plain.read`.
    """
    return one_query_plain.read(q, k, v, bias)


def alone() -> bool:
    """Whether nobody looks and nothing is edited, so that a way past this door may be taken."""
    return not looking.watched()


def walked(
    tables: tour.Tables, sizes: tour.Sizes, *, starts: Tensor | None = None, drawn: bool = False
) -> Tensor:
    """Whole tours by attention (B, S, N), where it is `alone`; nothing learns.

    Arguments as in `kernels.tour.walked`.
    """
    return tour.walked(tables, sizes, starts=starts, drawn=drawn)


def tours_at_once(tables: tour.Tables, sizes: tour.Sizes) -> bool:
    """Whether one kernel may say how likely tours were: nobody looks, nor asks for a backend."""
    return _asked == "auto" and alone() and tour.fused(tables, sizes)


def tours_said(tables: tour.Tables, sizes: tour.Sizes, tours: Tensor, taken: Tensor) -> Tensor:
    """How likely each step of tours (B, S, T) was, where that goes at once.

    Arguments as in `kernels.tour.log_probability`.
    """
    return tour.log_probability(tables, sizes, tours, taken)


@contextmanager
def use_backend(backend: Backend) -> Iterator[None]:
    """Run every call inside with this backend, or raise an error that says why it cannot."""
    global _asked
    if not isinstance(backend, str) or backend not in get_args(Backend):
        raise ValueError(
            f"use_backend: expected one of {', '.join(get_args(Backend))}, "
            f"got {check.brief_text(backend)}"
        )
    before, _asked = _asked, backend
    try:
        yield
    finally:
        _asked = before


def why_not(backend: str, call: Call) -> str | None:
    """The reason `backend` cannot run this call, or None if it can."""
    return _WHY_NOT[backend](call)


def _chosen(call: Call) -> str:
    if _asked == "auto":
        return next(name for name in _order(call) if why_not(name, call) is None)
    reason = why_not(_asked, call)
    if reason is not None:
        raise ValueError(f"attend: backend {_asked!r} cannot run this: {reason}")
    return _asked


def _order(call: Call) -> tuple[str, ...]:
    """The backends in the order in which `auto` asks them."""
    if flex.pays(call):
        return ("triton", "flex", "chunked", "sdpa", "reference")
    if chunked.pays(call):
        return ("triton", "chunked", "sdpa", "reference")
    return ("triton", "sdpa", "chunked", "reference")


def _drawn(call: Call) -> Call:
    """The call with its keys drawn already, so that a look keeps the very ones that are read."""
    if not looking.watched():
        return call
    return replace(call, select=drawn(call.select, partial(_logits, call)))


def _why(call: Call, backend: str) -> Why:
    return Why(backend, {name: why_not(name, call) for name in _WHY_NOT})


def _run(backend: str, call: Call) -> Tensor:
    if 0 in call.sizes:
        return plain.of(call)  # nothing to compute: zeros, whoever was asked
    return _RUN[backend](call)


def _logits(call: Call) -> Tensor:
    k = spread(call.k, call.q.shape[1])
    score = call.score
    if isinstance(score, Additive) and _asked != "reference":
        score = chunked.InParts(score)
    return plain.logits(call.q, k, score=score, rule=call.rule, bias=call.bias)


def _said(call: Call) -> Tensor:
    """The logits as an edit leaves them: their softmax is what its select gives.

    A head that is not heard says nothing: 0 for all that it sees.
    """
    scores = _logits(call)
    said = scores if call.select is softmax else logs(call.select, scores)
    if call.heads is None:
        return said
    return said.where(call.heads[:, None, None], scores.masked_fill(scores != HIDDEN, 0))


def _plain_log_probability(call: Call, index: Tensor) -> Tensor:
    if _edited(call):
        return plain.log_share(_said(call), index)
    k = spread(call.k, call.q.shape[1])
    return plain.log_probability(call.q, k, index, score=call.score, rule=call.rule, bias=call.bias)


def _edited(call: Call) -> bool:
    """Whether an edit made of a softmax what no kernel of it knows."""
    return call.select is not softmax or call.heads is not None


def _pointing(call: Call) -> Why:
    """Who gives log-probabilities for the call."""
    if _edited(call):
        return _only("log_probability", "an edit made it other than a softmax", ["reference"])
    refused = fused.why_not_pointing(call)
    able = ["reference", "chunked", *([] if refused else ["triton"])]
    return _only("log_probability", "it only reads values", able, triton=refused)


def _formed(call: Call, where: str, run: Callable[[], Tensor]) -> Tensor:
    """What has to be formed whole (B, H, Q, K)."""
    tiled = isinstance(call.score, Additive)
    why = _only(where, "it never forms (Q, K)", ["reference", *(["chunked"] if tiled else [])])
    looking.show(call, lambda: why)
    return run().to(call.q.dtype)


def _only(where: str, reason: str, able: list[str], **others: str | None) -> Why:
    """The last of the backends that are able to, or the one asked for, or an error.

    What is not able is so for this reason, or for one of its own.
    """
    backend = able[-1] if _asked == "auto" else _asked
    reasons = {n: None if n in able else others.get(n) or reason for n in _WHY_NOT}
    if backend not in able:
        raise ValueError(f"{where}: backend {_asked!r} cannot run this: {reasons[backend]}")
    return Why(backend, reasons)


_WHY_NOT: dict[str, Callable[[Call], str | None]] = {
    "reference": lambda call: None,
    "sdpa": sdpa.why_not,
    "flex": flex.why_not,
    "triton": fused.why_not,
    "chunked": chunked.why_not,
}
_RUN: dict[str, Callable[[Call], Tensor]] = {
    "reference": plain.of,
    "sdpa": sdpa.attention,
    "flex": flex.attention,
    "triton": fused.attention,
    "chunked": chunked.attention,
}
_LOG_PROBABILITY: dict[str, Callable[[Call, Tensor], Tensor]] = {
    "reference": _plain_log_probability,
    "chunked": chunked.log_probability,
    "triton": fused.log_probability,
}
