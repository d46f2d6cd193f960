"""Dot-product attention in one fused call of PyTorch: the twin of `functional.attention`.

Takes every score that folds into a dot product (dot, scaled dot, cosine, general, location) with
the softmax. A rule other than `causal`, and any bias, is spelled out as a (Q, K) mask.
"""

import math

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard import check
from regard.functional import attention as plain
from regard.functional.call import Call, repeat_kv_heads
from regard.functional.precision import cast_finite, no_autocast, to_float32
from regard.functional.rules import Causal
from regard.functional.scores import DOT_PRODUCT_SCORES, root_scale
from regard.functional.selects import HIDDEN, softmax
from regard.kernels.guards import is_differentiated_by_transform

# Up to so many tokens a sentence is short.
SHORT_MAX_TOKENS = 40
# A bound on scores from which on their rounding shows in gradients.
LARGE_SCORE = 2**13


def why_not(call: Call) -> str | None:
    """The reason this cannot run the call, or None if it can."""
    if call.select is not softmax:
        return "only the softmax is fused"
    if not isinstance(call.score, DOT_PRODUCT_SCORES):
        return "only dot, scaled_dot, Cosine, General and Location fold into a dot product"
    return None


def attention(call: Call) -> Tensor:
    """What each query reads (B, H, Q, Dv)."""
    if call.bias is not None or not (call.rule is None or isinstance(call.rule, Causal)):
        return _masked_attention(call)
    q, k, v, scale = _fold_score(call, call.q, call.k, call.v)
    return fused_attention(q, k, v, scale=scale, causal=call.rule is not None, dropout=call.dropout)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Without a mask that would have to be spelled out, wherever that can be."""
    if not causal or q.shape[2] == 1:
        return _matmul_or_kernel(q, k, v, None, scale, dropout)
    if scale is not None and not scale > 0:
        q, scale = _with_positive_scale(q, scale)
    Q, K = q.shape[2], k.shape[2]
    if Q < K or (Q == K and not dropout and _is_short_on_gpu(q, k)):
        return _matmul_or_kernel(q, k, v, _lower_right_mask(q, k), scale, dropout)
    out = run_kernel(q[:, :, Q - K :], k, v, None, dropout, scale=scale, causal=True)
    # queries that stand before the first key see nothing
    return F.pad(out, (0, 0, Q - K, 0)) if Q > K else out


def _matmul_or_kernel(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, dropout: float
) -> Tensor:
    if dropout == 0 and (_is_cpu_decode_step(q, k) or _is_short_on_gpu(q, k)):
        return _matmul_attention(q, k, v, mask, root_scale(q) if scale is None else scale)
    return run_kernel(q, k, v, mask, dropout, scale=scale)


def _mask_for_kernel(mask: Tensor, q: Tensor) -> Tensor:
    """The mask in a dtype that PyTorch's kernels take beside these queries.

    On a CPU that is float32 or better. Elsewhere the mask must have the dtype of the queries; so
    that half precision rounds little of it, the largest of each row is moved to 0 first, which
    changes no softmax.
    """
    if q.device.type == "cpu":
        return cast_finite(mask, to_float32(q[:0]).dtype)
    if mask.dtype == q.dtype:
        return mask
    return cast_finite(mask - mask.detach().amax(-1, keepdim=True), q.dtype)


def run_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout: float,
    *,
    scale: float | None,
    causal: bool = False,
) -> Tensor:
    """The output of PyTorch's fused call, with gradients that are right for scores of any size.

    On a CPU its backward rounds a scaled product otherwise than its forward, unless the scale is a
    power of two. The exponential of large scores makes that wrong from 10⁴ on, and infinite from
    10⁸ on. There the scale is multiplied into queries in float32 or better, for both alike.

    Forward derivatives and second ones of `torch.func` run on plain products: no kernel has them.
    """
    grouped = _is_grouped(q, k)
    # asked in two steps, the first of them cheap: a decoder asks at every token
    is_transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    if is_transformed and is_differentiated_by_transform(2):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(
                q, k, v, mask, dropout, causal, scale=scale, enable_gqa=grouped
            )
    if not _needs_equal_products(q, k, v, scale):
        return F.scaled_dot_product_attention(
            q, k, v, mask, dropout, causal, scale=scale, enable_gqa=grouped
        )
    scaled = to_float32(q) * (root_scale(q) if scale is None else scale)
    with no_autocast(q.device):
        out = F.scaled_dot_product_attention(
            scaled,
            to_float32(k),
            to_float32(v),
            mask,
            dropout,
            causal,
            scale=1.0,
            enable_gqa=grouped,
        )
    return out.to(v.dtype)


def _needs_equal_products(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> bool:
    """True if gradients are wanted of scores that may be large, on a CPU."""
    if q.device.type != "cpu" or _is_power_of_two(q.shape[-1], scale):
        return False
    learns = q.requires_grad or k.requires_grad or v.requires_grad
    if not (learns and torch.is_grad_enabled()):
        return False
    if not (check.can_read_values(q) and check.can_read_values(k)):
        # a compiler and a transform have no values: half precision would take twice the memory
        return q.dtype not in (torch.bfloat16, torch.float16)
    if not (q.numel() and k.numel()):
        return False
    factor = root_scale(q) if scale is None else scale
    return abs(factor) * q.shape[-1] * _max_abs(q) * _max_abs(k) > LARGE_SCORE


def _max_abs(x: Tensor) -> float:
    """The largest magnitude in a tensor."""
    return max(abs(float(end)) for end in x.detach().aminmax())


def _is_power_of_two(width: int, scale: float | None) -> bool:
    """True if the scale is a power of two, as 1/√D is where D is one of four."""
    if scale is None:
        return width > 0 and width & (width - 1) == 0 and width % 3 == 1
    return abs(math.frexp(scale)[0]) == 0.5


def _is_grouped(q: Tensor, k: Tensor) -> bool:
    # branched on, since where shapes are dynamic a compiler's comparison is no bool for PyTorch
    if q.shape[1] != k.shape[1]:  # noqa: SIM103
        return True
    return False


def _with_positive_scale(q: Tensor, scale: float) -> tuple[Tensor, float]:
    """Queries and a scale above 0 for the same scores: PyTorch's causal kernels take no other.

    They multiply by the scale what they have hidden with −inf, and a product of −inf with a
    negative number hides nothing.
    """
    return (-q, -scale) if scale < 0 else (q * scale, 1.0)


def _is_cpu_decode_step(q: Tensor, k: Tensor) -> bool:
    """Whether a CPU is asked by one query of many heads: PyTorch's kernel works on a tile of them.

    Measured on two cores: from 16 keys on two products and a softmax take two thirds of its time.
    """
    single = q.device.type == "cpu" and q.dtype == torch.float32 and q.shape[2] == 1
    return (
        single and q.shape[0] * q.shape[1] >= 128 and q.shape[1] == k.shape[1] and k.shape[2] >= 16
    )


def _is_short_on_gpu(q: Tensor, k: Tensor) -> bool:
    """Whether a GPU is asked about short sentences in float32, of which its kernel fills no tile.

    Measured on one H200 with 16 to 40 tokens: two products and a softmax, forward and backward,
    take a third to nine tenths of its time.
    """
    exact = q.is_cuda and q.dtype == torch.float32 and q.shape[1] == k.shape[1]
    return exact and 1 < q.shape[2] <= SHORT_MAX_TOKENS and k.shape[2] <= SHORT_MAX_TOKENS


def _matmul_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Vaswani et al. 2017, eq. 1, as it is written."""
    scores = (q * scale) @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, HIDDEN) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ v


def _lower_right_mask(q: Tensor, k: Tensor) -> Tensor:
    Q, K = q.shape[2], k.shape[2]
    if q.is_cuda and not _is_short_on_gpu(q, k) and not torch.compiler.is_compiling():
        # imported here, since it brings the whole compiler with it
        from torch.nn.attention.bias import causal_lower_right

        return causal_lower_right(Q, K)  # a marker, no tensor: the flash kernel knows it
    return torch.ones(Q, K, dtype=torch.bool, device=q.device).tril(K - Q)


def _fold_score(
    call: Call, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor, float]:
    assert isinstance(call.score, DOT_PRODUCT_SCORES)
    q, k, scale = call.score.fold(q, k)
    if k.shape[1] != v.shape[1]:
        k, v = repeat_kv_heads(k, q.shape[1]), repeat_kv_heads(v, q.shape[1])
    return q, k, v, scale


def _masked_attention(call: Call) -> Tensor:
    q, k, v = call.q, call.k, call.v
    seen = plain.dense_mask(call.q, call.k, call.rule)
    if seen is not None and seen.shape[1] > 1:
        k, v = repeat_kv_heads(k, q.shape[1]), repeat_kv_heads(v, q.shape[1])
    k, v = plain.without_hidden_keys(k, seen), plain.without_hidden_keys(v, seen)
    if call.bias is not None:
        mask = plain.dense_bias(call.q, call.k, call.bias)
        # PyTorch's call wants at least a (Q, K) of whatever sizes
        mask = mask[(None,) * (4 - mask.dim())]
        mask = mask if mask.dtype == q.dtype else to_float32(mask)
        mask = mask if seen is None else mask.masked_fill(~seen, HIDDEN)
        blind = (mask == HIDDEN).all(-1, keepdim=True)
        mask = _mask_for_kernel(mask.masked_fill(blind, 0), q)
    else:
        assert seen is not None
        blind = ~seen.any(-1, keepdim=True)
        mask = seen | blind
    # kernels differ in what a blind row reads: it is opened before, and set to zero after
    q, k, v, scale = _fold_score(call, q.masked_fill(blind, 0), k, v)
    # autocast would round the mask to half precision as well
    with no_autocast(q.device):
        return _matmul_or_kernel(q, k, v, mask, scale, call.dropout).masked_fill(blind, 0)
