"""Where kernels for one query of each row run: a decoder's step, in as few launches as can be.

Triton is imported only where one runs. Each has a twin in plain PyTorch, named in its file.
"""

from functools import cache

import torch
from torch import Tensor

from regard.kernels import following
from regard.kernels.flex import has_triton

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# On a CPU, PyTorch's softmax and small products go number by number where there are fewer keys.
LEAST = 16


def takes(*tensors: Tensor) -> bool:
    """Whether the kernels may have these: on a card, to learn nothing, and nobody follows.

    They are one launch for what is many operations elsewhere. A look, a compiler, autocast and
    functorch want to be asked about each of those, so they get them.
    """
    x = tensors[0]
    if x.device.type not in DEVICES or x.dtype not in DTYPES or not has_triton():
        return False
    return _alone(tensors) and not (x.is_cuda and _too_old(x.device))


def on_cpu(*tensors: Tensor) -> bool:
    """Whether a CPU may take the short way of `one_query_plain` with these: the same is asked."""
    x = tensors[0]
    return x.device.type == "cpu" and x.dtype == torch.float32 and _alone(tensors)


def _alone(tensors: tuple[Tensor, ...]) -> bool:
    """Whether tensors are alike, learn nothing, and nobody follows what is done with them."""
    x = tensors[0]
    alike = all(y.dtype == x.dtype and y.device == x.device for y in tensors)
    learns = torch.is_grad_enabled() and any(y.requires_grad for y in tensors)
    return alike and not learns and not _followed(*tensors)


def _followed(*tensors: Tensor) -> bool:
    """Whether someone follows each operation on such tensors."""
    casts = torch.is_autocast_enabled(tensors[0].device.type)
    return casts or following.watched() or following.dispatched(*tensors)


@cache
def _too_old(device: torch.device) -> bool:
    return torch.version.hip is not None or torch.cuda.get_device_capability(device)[0] < 8
