"""The backend `triton`: which calls our own kernels take, and the call as they take it.

Triton is imported only where a kernel runs.
"""

from functools import cache

import torch
from torch import Tensor

from regard.functional import attention as plain
from regard.functional.call import Call, is_standard
from regard.functional.precision import cast_finite
from regard.functional.scores import Additive
from regard.functional.selects import softmax
from regard.kernels import mask_spec
from regard.kernels.additive.plan import DECODE_MAX_QUERIES
from regard.kernels.backends.flex import has_triton
from regard.kernels.guards import is_differentiated_by_transform

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
MAX_QUERY_WIDTH, MAX_VALUE_WIDTH = 1024, 512
# Few queries form no tile with their values, so these may be wider.
DECODE_MAX_VALUE_WIDTH = 2048
_ALL_VISIBLE = mask_spec.MaskSpec()


def why_not(call: Call) -> str | None:
    """The reason this cannot run the call, or None if it can."""
    if not isinstance(call.score, Additive):
        return "the one kernel of our own is for additive scores"
    if call.select is not softmax:
        return "only the softmax is fused"
    if call.dropout:
        return "the kernel has no dropout"
    return _why_not_inputs(call.q) or _why_not_values(call.q, call.v)


def why_not_log_probability(call: Call) -> str | None:
    """The reason this cannot give log probabilities for the call, or None if it can."""
    if not isinstance(call.score, Additive):
        return "the one kernel of our own is for additive scores"
    return _why_not_inputs(call.q)


def can_attend_unmasked(q: Tensor, k: Tensor, v: Tensor, score: Additive) -> bool:
    """Whether a call without rule, bias and dropout on the softmax plainly is for the kernel."""
    if not is_standard(q, k, v) or score.vector.shape != (q.shape[1], q.shape[3]):
        return False
    return not (_why_not_inputs(q) or _why_not_values(q, v))


def attend_unmasked(q: Tensor, k: Tensor, v: Tensor, score: Additive) -> Tensor:
    """What each query reads (B, H, Q, Dv), where it sees all keys."""
    from regard.kernels.additive import api as additive

    return additive.attention(q, k, v, vector=score.vector, spec=_ALL_VISIBLE)


def attention(call: Call) -> Tensor:
    """What each query reads (B, H, Q, Dv)."""
    from regard.kernels.additive import api as additive

    assert isinstance(call.score, Additive)
    return additive.attention(
        call.q,
        call.k,
        call.v,
        vector=call.score.vector,
        spec=mask_spec.from_rule(call.rule, call.q, call.k),
        bias=_dense_bias(call),
    )


def log_probability(call: Call, index: Tensor) -> Tensor:
    """The log of the softmax at one key a query (B, H, Q)."""
    from regard.kernels.additive import api as additive

    assert isinstance(call.score, Additive)
    return additive.log_probability(
        call.q,
        call.k,
        index,
        vector=call.score.vector,
        spec=mask_spec.from_rule(call.rule, call.q, call.k),
        bias=_dense_bias(call),
    )


def _dense_bias(call: Call) -> Tensor | None:
    if call.bias is None:
        return None
    bias = plain.dense_bias(call.q, call.k, call.bias)
    return cast_finite(bias, torch.float32) if bias.dtype == torch.float64 else bias


def _why_not_inputs(q: Tensor) -> str | None:
    D = q.shape[3]
    if q.device.type not in DEVICES:
        return f"the kernel needs a CUDA GPU, and the call is on {q.device.type}"
    if not has_triton():
        return "Triton is not installed"
    if is_differentiated_by_transform():
        return "the kernel has no forward-mode derivative, and none for torch.func"
    if q.is_cuda and _is_gpu_too_old(q.device):
        return "the kernel needs an NVIDIA GPU of compute capability 8.0 or newer"
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the kernel has no {str(q.dtype).removeprefix('torch.')}"
    if D > MAX_QUERY_WIDTH:
        return f"the kernel takes D up to {MAX_QUERY_WIDTH}, got {D}"
    return None


def _why_not_values(q: Tensor, v: Tensor) -> str | None:
    most = DECODE_MAX_VALUE_WIDTH if q.shape[2] <= DECODE_MAX_QUERIES else MAX_VALUE_WIDTH
    return f"the kernel takes Dv up to {most}, got {v.shape[3]}" if v.shape[3] > most else None


def _is_gpu_too_old(device: torch.device) -> bool:
    # a compiler follows the question, and warns of what is kept
    return (
        _lacks_compute_capability(device)
        if torch.compiler.is_compiling()
        else _lacks_compute_capability_cached(device)
    )


def _lacks_compute_capability(device: torch.device) -> bool:
    return torch.version.hip is not None or torch.cuda.get_device_properties(device).major < 8


_lacks_compute_capability_cached = cache(_lacks_compute_capability)
