"""tanh by oneDNN: exact for small numbers as PyTorch's own is, and quick on every x86.

PyTorch hands tanh to MKL, which is slow on AMD processors. oneDNN works on memory that it has
allocated itself, so a dense tensor is laid over that memory. Errors and times: `docs/kernels.md`.
"""

import ctypes
import platform
from math import prod

import torch
from torch import Tensor

# Of fewer numbers PyTorch takes tanh on one thread; oneDNN would have all threads meet for any.
MIN_TANH_COUNT = 2**15
# The most numbers that `tanh_` takes at a time: 256 KiB, which stay in a core's second-level cache.
TANH_CHUNK_COUNT = 2**16


def can_take(x: Tensor, count: int) -> bool:
    """True if oneDNN can take the tanh of `count` numbers like x: many, float32, on an x86 CPU."""
    fits = x.device.type == "cpu" and x.dtype == torch.float32 and count >= MIN_TANH_COUNT
    return fits and is_available()


def is_available() -> bool:
    """True on an x86 with oneDNN; on other processors its tanh is another, of unknown error."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    return x86 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "data_ptr")


def tanh_(x: Tensor) -> Tensor:
    """tanh of a contiguous x in its place; it must be one that oneDNN can take."""
    dense, opaque = _shared_buffers(TANH_CHUNK_COUNT)
    numbers = x.view(-1)
    for chunk in numbers.split(TANH_CHUNK_COUNT):
        part = dense[: chunk.numel()]
        part.copy_(chunk)
        opaque.tanh_()
        chunk.copy_(part)
    return x


class Workspace:
    """Memory for one sum at a time, of which tanh is taken in place.

    Args:
        count: how many numbers the largest sum has.
        like: a tensor of the dtype and device of the sums.
    """

    def __init__(self, count: int, like: Tensor) -> None:
        self._count = count
        self._plain = None if can_take(like, count) else like.new_empty(count)
        self._buffers: dict[int, tuple[Tensor, Tensor]] = {}

    def tanh_of_sum(self, a: Tensor, b: Tensor) -> Tensor:
        """tanh(a + b), which lasts until the next one; a and b have as many axes."""
        shape = [m if n == 1 else n for m, n in zip(a.shape, b.shape, strict=True)]
        dense, opaque = self._buffers_for(prod(shape))
        out = torch.add(a, b, out=dense.view(shape))
        opaque.tanh_()
        return out

    def _buffers_for(self, count: int) -> tuple[Tensor, Tensor]:
        """A dense tensor of `count` numbers, and one whose `tanh_` acts on them."""
        if self._plain is not None:
            dense = self._plain[:count]
            return dense, dense
        # oneDNN has no views: tanh goes over all of a buffer. One of half the size for sums of up
        # to half the numbers and so on: twice the memory at most, and half of the work at least
        # is for numbers that were asked for.
        size = self._count
        while size // 2 >= max(MIN_TANH_COUNT, count):
            size //= 2
        if size not in self._buffers:
            self._buffers[size] = _shared_buffers(size)
        dense, opaque = self._buffers[size]
        dense = dense[:count]
        return dense, opaque if count >= MIN_TANH_COUNT else dense


def _shared_buffers(count: int) -> tuple[Tensor, Tensor]:
    """Float32 numbers as a dense tensor and as a tensor of oneDNN, over the same memory."""
    layout: torch.layout = torch._mkldnn  # type: ignore[attr-defined]
    opaque = torch.empty(count, dtype=torch.float32, device="cpu", layout=layout)
    memory = (ctypes.c_float * count).from_address(torch.ops.mkldnn.data_ptr(opaque))
    memory.owner = opaque  # type: ignore[attr-defined]  # the dense tensor keeps `memory` alive
    return torch.frombuffer(memory, dtype=torch.float32), opaque
