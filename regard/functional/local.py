"""Attention that stays near: a window costs what the window costs.

Both functions here rewrite a call whose rule lets each query see only keys close to some place into
a call over small dense pieces, and say how to put the pieces back together. Memory grows linearly
with the length.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.check import Number
from regard.functional import biases, rules
from regard.functional.call import Call, repeat_kv_heads
from regard.functional.precision import to_float32
from regard.functional.rules import Around, Both, Causal, DenseMask, Rule, Window, leaf_rules
from regard.functional.scores import DOT_PRODUCT_SCORES, Dot
from regard.functional.selects import Gaussian

Join = Callable[[Tensor], Tensor]


def with_dot_product(call: Call) -> Call:
    """The same call with a plain dot product where the score folds, and a key head a query head."""
    H = call.q.shape[1]
    q, k, score = call.q, call.k, call.score
    if isinstance(score, DOT_PRODUCT_SCORES):
        q, k, scale = score.fold(q, k)
        score = Dot(scale)
    return replace(call, q=q, k=repeat_kv_heads(k, H), v=repeat_kv_heads(call.v, H), score=score)


def split_into_blocks(call: Call, *, block: int) -> tuple[Call, Join]:
    """A rule with a finite band, as blocks of queries over the stretch of keys they may see.

    The pieces are (B · n, H, block, ·) over (B · n, H, stretch, ·) for n blocks, where a stretch is
    the block itself and as many whole blocks before and after it as the band reaches into.
    """
    call = with_dot_product(call)
    B, H, Q, K = call.sizes
    back, ahead = (math.ceil(reach / block) * block for reach in visible_band(call))
    n, stretch = -(-Q // block), back + block + ahead
    first = K - Q - back  # the position of the first key that block 0 may see
    length = (n - 1) * block + stretch
    unseen = max(0, K - Q - int(visible_band(call)[0]))  # keys that even query 0 is beyond
    stretches = _TracedStretches if torch.compiler.is_compiling() else _Stretches
    filled = F.pad(call.q, (0, 0, 0, n * block - Q))
    q = filled.unflatten(2, (n, block)).transpose(1, 2).flatten(0, 1)
    k, v = (
        stretches.apply(
            _padded_slice(x[:, :, unseen:], first - unseen, length), block, stretch // block
        )
        for x in (call.k, call.v)
    )
    starts = torch.arange(n, device=q.device)[:, None, None] * block  # (n, 1, 1)
    at_q = K - Q + starts + torch.arange(block, device=q.device)[:, None]  # (n, block, 1)
    at_k = first + starts + torch.arange(stretch, device=q.device)  # (n, 1, stretch)
    inside = (at_k >= 0) & (at_k < K)
    b = torch.arange(B, device=q.device)[:, None, None, None, None]
    h = torch.arange(H, device=q.device)[:, None, None, None]
    # queries that only fill the last block stand on the last key: none of them is blind for it
    places = (b, h, at_q.clamp_max(K - 1), at_k.clamp(0, K - 1))
    assert call.rule is not None
    if is_translation_invariant(call.rule):
        # every block has the same view of its stretch
        near = call.rule(b, h, at_q[0], at_k[0]) & inside  # (n, block, stretch)
        near[-1, block - (n * block - Q) :] = True
    else:
        near = call.rule(*places) & inside
    seen = DenseMask(_blocks_to_batch(near, B))
    bias = None
    if call.bias is not None:
        bias = biases.DenseBias(_blocks_to_batch(biases.in_float32(call.bias)(*places), B))

    def join(out: Tensor) -> Tensor:
        Dv = out.shape[-1]
        whole = out.view(B, n, H, block, Dv).transpose(1, 2)
        return whole.reshape(B, H, n * block, Dv)[:, :, :Q]

    return Call(q, k, v, call.score, call.select, seen, bias, call.dropout), join


def split_into_single_queries(call: Call, around: Around) -> tuple[Call, Join]:
    """A rule with a centre for each query, as single queries over the keys gathered around it.

    The pieces are (B · Q, H, 1, ·) over (B · Q, H, 2 · reach + 1, ·).
    """
    call = with_dot_product(call)
    B, H, Q, K = call.sizes
    first = torch.ceil(to_float32(around.centre) - around.reach).long()  # (B, H, Q)
    stretch = min(math.floor(2 * around.reach) + 1, K)
    # a window that hangs over either end is moved inside: the rule still hides what is out of reach
    first = first.clamp(0, K - stretch)
    index = first[..., None] + torch.arange(stretch, device=first.device)  # (B, H, Q, stretch)
    b, h, q, _ = rules.index_grid(B, H, Q, K, device=first.device)
    assert call.rule is not None
    seen = DenseMask(_queries_to_batch(call.rule(b, h, q, index).expand(B, H, Q, stretch)))
    bias = None
    if call.bias is not None:
        near_bias = biases.in_float32(call.bias)(b, h, q, index)
        bias = biases.DenseBias(_queries_to_batch(near_bias.expand(B, H, Q, stretch)))
    select = call.select
    if isinstance(select, Gaussian):
        # in float64 where the queries are: float32 does not hold every digit of a difference
        centre = select.centre.to(
            torch.promote_types(to_float32(call.q[:0]).dtype, select.centre.dtype)
        )
        select = Gaussian(_queries_to_batch(centre - first)[..., 0], select.width)

    def take(x: Tensor) -> Tensor:
        rows = index.flatten(2)[..., None].expand(-1, -1, -1, x.shape[-1])
        # a key gathers the gradients of all queries near it: summed in float32, rounded once
        picked = to_float32(x).gather(2, rows).to(x.dtype).view(B, H, Q, stretch, x.shape[-1])
        return picked.transpose(1, 2).reshape(B * Q, H, stretch, x.shape[-1])

    def join(out: Tensor) -> Tensor:
        return out.view(B, Q, H, out.shape[-1]).transpose(1, 2)

    k, v = take(call.k), take(call.v)
    return Call(_queries_to_batch(call.q), k, v, call.score, select, seen, bias, call.dropout), join


def visible_band(call: Call) -> tuple[Number, Number]:
    """The most keys back and ahead that a query may see, no more than there are."""
    _, _, Q, K = call.sizes
    back, ahead = rules.band(call.rule)
    # of min(…) a compiler of dynamic shapes makes a formula, and everything after it grows with it
    return back if back < K else K - 1, ahead if ahead < Q else Q - 1


def is_translation_invariant(rule: Rule | None) -> bool:
    """Whether a rule goes by how far apart a query and a key are, and by nothing else."""
    return all(isinstance(part, Window | Causal) for part in leaf_rules(rule))


def find_around_rule(rule: Rule | None) -> Around | None:
    """The part of a rule that keeps every query near a centre, if it has one."""
    if isinstance(rule, Both):
        return next(
            (found for found in map(find_around_rule, rule.rules) if found is not None), None
        )
    # compared: a compiler of dynamic numbers cannot ask `isfinite`
    return rule if isinstance(rule, Around) and rule.reach < math.inf else None


def _padded_slice(x: Tensor, first: int, length: int) -> Tensor:
    """`length` keys from position `first` on; zeros stand for those that do not exist."""
    last = first + length
    return F.pad(x[:, :, max(first, 0) : last], (0, 0, max(-first, 0), max(last - x.shape[2], 0)))


class _TracedStretches(torch.autograd.Function):
    """Stretches of `count` blocks that overlap: (B, H, K, D) -> (B · n, H, count · block, D).

    What PyTorch derives for `unfold` adds one element after the other; whole blocks are quicker.
    A compiler follows no function with forward derivatives, so those are in `_Stretches`.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, block: int, count: int) -> Tensor:
        _, H, _, D = x.shape
        views = x.unfold(2, block * count, block)  # (B, H, n, D, count · block)
        rows = views.shape[0] * views.shape[2]
        return views.permute(0, 2, 1, 4, 3).reshape(rows, H, block * count, D)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: Tensor) -> None:
        x, ctx.block, ctx.count = inputs
        B, H, _, D = x.shape
        ctx.sizes = B, H, D

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None, None]:
        B, H, D = ctx.sizes
        parts = grad[0].view(B, grad[0].shape[0] // B, H, ctx.count, ctx.block, D)
        n = parts.shape[1]
        wide_dtype = to_float32(grad[0][:0]).dtype  # sums are rounded once
        whole = grad[0].new_zeros(B, H, n + ctx.count - 1, ctx.block, D, dtype=wide_dtype)
        for i in range(ctx.count):
            whole[:, :, i : i + n] += parts[:, :, :, i].transpose(1, 2)
        return whole.flatten(2, 3).to(grad[0].dtype), None, None


class _Stretches(_TracedStretches):
    """The same with forward derivatives."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _Stretches.apply(tangents[0], ctx.block, ctx.count)


def _blocks_to_batch(x: Tensor, B: int) -> Tensor:
    """A mask or bias over (B, H, n, block, stretch) for the pieces: (B · n, H, block, stretch)."""
    x = x[(None,) * (5 - x.dim())]
    _, H, n, block, stretch = x.shape
    return x.transpose(1, 2).expand(B, n, H, block, stretch).reshape(B * n, H, block, stretch)


def _queries_to_batch(x: Tensor) -> Tensor:
    """Each query a batch row of its own: (B, H, Q, ·) -> (B · Q, H, 1, ·)."""
    x = x[..., None] if x.dim() == 3 else x
    return x.transpose(1, 2).reshape(x.shape[0] * x.shape[2], x.shape[1], 1, x.shape[3])
