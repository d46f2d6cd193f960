"""Additive attention on a GPU, fused: nothing of size (Q, K, D) is formed, nothing (Q, K) kept.

The twin is `regard.functional.attention` with `scores.Additive` and `selects.softmax`. No dropout,
no float64, no second derivative. Which kernel is in which file, the derivation, and what was tried:
`docs/kernels.md`.
"""

from typing import Any

import torch
from torch import Tensor

from regard.kernels.additive.launch import Grads, launch_backward, launch_forward
from regard.kernels.additive.plan import plan_call
from regard.kernels.guards import is_intercepted
from regard.kernels.mask_spec import MaskSpec
from regard.kernels.operators import forbid_second_derivative

_RULE_SCHEMA = "Tensor? first, Tensor? last, Tensor? ids, Tensor? mask, Tensor? bias"
# Defined by hand: what `custom_op` wraps around an operator takes longer than a small call.
torch.library.define(
    "regard::additive_fused",
    f"(Tensor q, Tensor k, Tensor? v, Tensor? index, Tensor vector, {_RULE_SCHEMA}, int back, int "
    "ahead)"
    " -> (Tensor, Tensor)",
)
torch.library.define(
    "regard::additive_fused_backward",
    f"(Tensor d_out, Tensor q, Tensor k, Tensor? v, Tensor? index, Tensor vector, {_RULE_SCHEMA},"
    " Tensor lse, int back, int ahead, bool bias_wanted)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_forward = torch.ops.regard.additive_fused.default
_backward = torch.ops.regard.additive_fused_backward.default


def _run_forward(
    q: Tensor, k: Tensor, v: Tensor | None, index: Tensor | None, vector: Tensor, *rule: Any
) -> tuple[Tensor, Tensor]:
    """What is read from v (B, H, Q, Dv), or the log softmax at index (B, H, Q); the log-sum-exp."""
    *hidden, bias, back, ahead = rule
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    with torch.cuda.device_of(q):
        call = plan_call(q, k, v, index, vector, MaskSpec(back, ahead, *hidden), bias)
        return launch_forward(*call, lse), lse


@torch.library.register_fake("regard::additive_fused")
def _(q: Tensor, k: Tensor, v: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    rows = q.shape[:3]
    out = q.new_empty(rows if v is None else (*rows, v.shape[3]))
    return out, q.new_empty(rows, dtype=torch.float32)


def _run_backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    index: Tensor | None,
    vector: Tensor,
    *rule: Any,
) -> tuple[Tensor, ...]:
    """Gradients of q, k, v (empty if there is none), vector and bias (empty if not wanted)."""
    *hidden, bias, lse, back, ahead, bias_wanted = rule
    call = (q, k, v, index, vector, MaskSpec(back, ahead, *hidden), bias)
    dq, dk, dv, d_vector, d_bias = _unrounded_gradients(d_out, call, lse, bias_wanted)
    return (
        dq,
        dk.to(k.dtype),
        q.new_empty(0) if dv is None else dv.to(q.dtype),
        d_vector.to(vector.dtype),
        q.new_empty(0) if d_bias is None else d_bias.to(bias.dtype),
    )


def _unrounded_gradients(
    d_out: Tensor, call: tuple[Any, ...], lse: Tensor | None, bias_wanted: bool
) -> Grads:
    """Gradients, where float32 may stand for what is smaller."""
    of, plan = plan_call(*call)
    with torch.cuda.device_of(d_out):
        return launch_backward(of, plan, d_out.contiguous(), lse, bias_wanted)


@torch.library.register_fake("regard::additive_fused_backward")
def _(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    index: Tensor | None,
    vector: Tensor,
    *rule: Any,
) -> tuple[Tensor, ...]:
    *_, bias, _, _, _, bias_wanted = rule
    return (
        q.new_empty(q.shape),
        k.new_empty(k.shape),
        q.new_empty(0) if v is None else v.new_empty(v.shape),
        vector.new_empty(vector.shape),
        q.new_empty(0) if bias is None or not bias_wanted else bias.new_empty(bias.shape),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.back, ctx.ahead = inputs
    out, lse = output
    pointing = inputs[2] is None
    ctx.save_for_backward(*tensors, lse, out if pointing else None)


def _autograd_backward(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, lse, chosen = ctx.saved_tensors
    wanted = ctx.needs_input_grad[9]
    dq, dk, dv, d_vector, d_bias = _backward(
        _masked_output_grad(d_out, chosen), *tensors, lse, ctx.back, ctx.ahead, wanted
    )
    dv = dv if chosen is None else None
    d_bias = d_bias if wanted else None
    return dq, dk, dv, None, d_vector, None, None, None, None, d_bias, None, None


def _masked_output_grad(d_out: Tensor, chosen: Tensor | None) -> Tensor:
    """The gradient of the output; a choice that may not be seen, −inf, passes nothing on."""
    return d_out if chosen is None else d_out.masked_fill(chosen == -torch.inf, 0)


class _AdditiveAttention(torch.autograd.Function):
    """The same without an operator, which takes longer than a small call."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor | None,
        vector: Tensor,
        bias: Tensor | None,
        index: Tensor | None,
        spec: MaskSpec,
    ) -> Tensor:
        of, plan = plan_call(q, k, v, index, vector, spec, bias)
        lse = None if plan.can_skip_lse else q.new_empty(q.shape[:3], dtype=torch.float32)
        with torch.cuda.device_of(q):
            out = launch_forward(of, plan, lse)
        hidden = (spec.first, spec.last, spec.ids, spec.mask)
        chosen = out if v is None else None
        ctx.save_for_backward(q, k, v, vector, bias, index, lse, chosen, *hidden)
        ctx.reach = spec.back, spec.ahead
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, vector, bias, index, lse, chosen, *hidden = ctx.saved_tensors
        wanted, d_out = ctx.needs_input_grad[4], _masked_output_grad(d_out, chosen)
        found: tuple[Tensor | None, ...]
        if torch.is_grad_enabled() or is_intercepted(d_out):
            lse = q.new_empty(0) if lse is None else lse
            rule = (*hidden, bias, lse, *ctx.reach, wanted)
            found = _backward(d_out, q, k, v, index, vector, *rule)
        else:
            call = (q, k, v, index, vector, MaskSpec(*ctx.reach, *hidden), bias)
            found = _unrounded_gradients(d_out, call, lse, wanted)
        dq, dk, dv, d_vector, d_bias = found
        return dq, dk, None if v is None else dv, d_vector, d_bias if wanted else None, None, None


def _apply(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    index: Tensor | None,
    vector: Tensor,
    spec: MaskSpec,
    bias: Tensor | None,
) -> Tensor:
    out: Tensor
    if is_intercepted(q, k, vector if v is None else v, vector):
        rule = (spec.first, spec.last, spec.ids, spec.mask, bias, spec.back, spec.ahead)
        out = _forward(q, k, v, index, vector, *rule)[0]
    else:
        out = _AdditiveAttention.apply(q, k, v, vector, bias, index, spec)
    return out


torch.library.impl("regard::additive_fused", ("cpu", "cuda"), _run_forward)
torch.library.impl("regard::additive_fused_backward", ("cpu", "cuda"), _run_backward)
torch.library.register_autograd(
    "regard::additive_fused", _autograd_backward, setup_context=_setup_context
)
forbid_second_derivative("additive_fused_backward", "additive attention: the fused kernel")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    vector: Tensor,
    spec: MaskSpec,
    bias: Tensor | None = None,
) -> Tensor:
    """Bahdanau et al. 2015, A.1.2: read v by the softmax of `vector · tanh(q + k)`.

    Args:
        q: projected queries (B, H, Q, D).
        k: projected keys (B, G, K, D); heads of queries share them in groups.
        v: values (B, G, K, Dv).
        vector: (H, D).
        spec: who may see whom. A query that sees nothing reads zeros.
        bias: float, spreads to (B, H, Q, K); added to the scores.
    """
    return _apply(q, k, v, None, vector, spec, bias)


def log_probability(
    q: Tensor,
    k: Tensor,
    index: Tensor,
    *,
    vector: Tensor,
    spec: MaskSpec,
    bias: Tensor | None = None,
) -> Tensor:
    """Log softmax of `vector · tanh(q + k)` at the key `index` (B, H, Q) of each query.

    It is −inf, with no gradient, where that key may not be seen. Other arguments as in `attention`.
    """
    return _apply(q, k, None, index, vector, spec, bias)
