"""MKL's vector functions, called once by one thread before several call them together.

torch hands exp, tanh and their like to MKL on x86, which chooses its code at the first call of a
process. If several threads make that call at once, one of them may compute its share with code of
low accuracy, for that one call (pytorch/pytorch#188792, MKL 2024.2). With two threads that hit 2 to
12 of 60 processes: `python -m benchmarks.first`.
"""

import torch

# Those that torch gives to MKL in one version or another.
FUNCTIONS = (
    *(torch.acos, torch.asin, torch.atan, torch.cos, torch.cosh, torch.erf, torch.erfc),
    *(torch.erfinv, torch.exp, torch.expm1, torch.lgamma, torch.log, torch.log10, torch.log1p),
    *(torch.log2, torch.sin, torch.sinh, torch.sqrt, torch.tan, torch.tanh),
)


def warm_up() -> None:
    """Have MKL choose its code now, on the calling thread."""
    for dtype in (torch.float32, torch.float64):
        one = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for function in FUNCTIONS:
            function(one)
