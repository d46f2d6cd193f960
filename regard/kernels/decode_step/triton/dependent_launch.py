"""Kernels of a recorded step, each begun while the one before it is still at work.

A GPU that allows it (capability 9) starts the programs of a launch early: what no kernel of the
step writes, such as weights, is fetched before the programs wait for the launch before their own.
Only while a graph is recorded: there all launches of a step are known to follow one another.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def wait_for_previous_launch(CHAINED: tl.constexpr):
    """Wait for all that was launched before; from here on the next launch may begin."""
    if CHAINED:
        gdc_wait()
        gdc_launch_dependents()


def launch_options(x: Tensor) -> dict[str, Any]:
    """How a kernel of a step is launched."""
    if x.is_cuda and torch.cuda.is_current_stream_capturing() and _can_launch_early(x.device):
        return {"CHAINED": True, "launch_pdl": True}
    return {"CHAINED": False}


@cache
def _can_launch_early(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] >= 9
