"""The backend `triton`: which calls our own kernels take, and the call as they take it.

Triton is imported only where a kernel runs.
"""

from functools import cache

import torch
from torch import Tensor

from regard.functional import attention as plain
from regard.functional.call import Call, ordinary
from regard.functional.precision import cast_finite
from regard.functional.scores import Additive
from regard.functional.selects import softmax
from regard.kernels import seen
from regard.kernels.additive_plan import FEW
from regard.kernels.flex import has_triton
from regard.kernels.following import is_differentiated_by_transform

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
WIDEST, WIDEST_VALUES = 1024, 512
# Few queries form no tile with their values, so these may be wider.
WIDEST_OF_FEW = 2048
_ALL = seen.Seen()


def why_not(call: Call) -> str | None:
    """The reason this cannot run the call, or None if it can."""
    if not isinstance(call.score, Additive):
        return "the one kernel of our own is for additive scores"
    if call.select is not softmax:
        return "only the softmax is fused"
    if call.dropout:
        return "the kernel has no dropout"
    return _why_no_score(call.q) or _why_no_values(call.q, call.v)


def why_not_pointing(call: Call) -> str | None:
    """The reason this cannot give log probabilities for the call, or None if it can."""
    if not isinstance(call.score, Additive):
        return "the one kernel of our own is for additive scores"
    return _why_no_score(call.q)


def takes(q: Tensor, k: Tensor, v: Tensor, score: Additive) -> bool:
    """Whether a call without rule, bias and dropout on the softmax plainly is for the kernel."""
    if not ordinary(q, k, v) or score.vector.shape != (q.shape[1], q.shape[3]):
        return False
    return not (_why_no_score(q) or _why_no_values(q, v))


def everything(q: Tensor, k: Tensor, v: Tensor, score: Additive) -> Tensor:
    """What each query reads (B, H, Q, Dv), where it sees all keys."""
    from regard.kernels import additive

    return additive.attention(q, k, v, vector=score.vector, seen=_ALL)


def attention(call: Call) -> Tensor:
    """What each query reads (B, H, Q, Dv)."""
    from regard.kernels import additive

    assert isinstance(call.score, Additive)
    return additive.attention(
        call.q,
        call.k,
        call.v,
        vector=call.score.vector,
        seen=seen.of(call.rule, call.q, call.k),
        bias=_bias(call),
    )


def log_probability(call: Call, index: Tensor) -> Tensor:
    """The log of the softmax at one key a query (B, H, Q)."""
    from regard.kernels import additive

    assert isinstance(call.score, Additive)
    return additive.log_probability(
        call.q,
        call.k,
        index,
        vector=call.score.vector,
        seen=seen.of(call.rule, call.q, call.k),
        bias=_bias(call),
    )


def _bias(call: Call) -> Tensor | None:
    if call.bias is None:
        return None
    bias = plain.addend(call.q, call.k, call.bias)
    return cast_finite(bias, torch.float32) if bias.dtype == torch.float64 else bias


def _why_no_score(q: Tensor) -> str | None:
    D = q.shape[3]
    if q.device.type not in DEVICES:
        return f"the kernel needs a CUDA card, and the call is on {q.device.type}"
    if not has_triton():
        return "Triton is not installed"
    if is_differentiated_by_transform():
        return "the kernel has no forward-mode derivative, and none for torch.func"
    if q.is_cuda and _too_old(q.device):
        return "the kernel needs an NVIDIA card of compute capability 8.0 or newer"
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the kernel has no {str(q.dtype).removeprefix('torch.')}"
    if D > WIDEST:
        return f"the kernel takes D up to {WIDEST}, got {D}"
    return None


def _why_no_values(q: Tensor, v: Tensor) -> str | None:
    most = WIDEST_OF_FEW if q.shape[2] <= FEW else WIDEST_VALUES
    return f"the kernel takes Dv up to {most}, got {v.shape[3]}" if v.shape[3] > most else None


def _too_old(device: torch.device) -> bool:
    # a compiler follows the question, and warns of what is kept
    return _is_old(device) if torch.compiler.is_compiling() else _was_old(device)


def _is_old(device: torch.device) -> bool:
    return torch.version.hip is not None or torch.cuda.get_device_properties(device).major < 8


_was_old = cache(_is_old)
