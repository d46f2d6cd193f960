"""Which decoder of a model is the fastest; `regard.decode` asks here once a call."""

from typing import Any

from regard.fast_decode import cpu, gpu, packed_linear
from regard.fast_decode.cpu import CpuDecoder
from regard.fast_decode.gpu import GpuDecoder
from regard.fast_decode.stack import find_stack


def fast_decoder(model: Any, *, static: bool = False) -> Any:
    """An object with `start` and `step` that decodes as `model` does, or the model itself.

    Args:
        model: what is to be decoded.
        static: True if `start` takes a `size`, so that no shape changes from step to step.
    """
    stack = find_stack(model)
    if stack is None:
        return model
    if static:
        return GpuDecoder(model, stack) if gpu.runs_here(stack) else model
    if not cpu.can_decode(stack):
        return model
    return CpuDecoder(model, stack, cpu.pack(stack, packed_linear.plain))
