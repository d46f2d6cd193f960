"""Where the kernels of one decoding step run. Whether they may is asked of `regard.fast_path`.

Triton is imported only where a kernel runs. Each kernel has a plain twin, named in its file.
"""

from functools import cache

import torch
from torch import Tensor

from regard.kernels.backends.flex import has_triton

# Where the kernels run; tests add the CPU, where Triton's interpreter runs them.
DEVICES = ("cuda",)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# On a CPU, PyTorch's softmax and small products are scalar loops where there are fewer keys.
CPU_MIN_KEYS = 16


def supports_gpu(x: Tensor) -> bool:
    """True if the Triton kernels run on the device of `x` and in its dtype."""
    if x.device.type not in DEVICES or x.dtype not in DTYPES or not has_triton():
        return False
    return not (x.is_cuda and _is_gpu_too_old(x.device))


def supports_cpu(x: Tensor) -> bool:
    """True if the short cut of a CPU, `attention_cpu`, runs in the dtype of `x`."""
    return x.device.type == "cpu" and x.dtype == torch.float32


@cache
def _is_gpu_too_old(device: torch.device) -> bool:
    return torch.version.hip is not None or torch.cuda.get_device_capability(device)[0] < 8
