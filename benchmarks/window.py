"""What a window costs: `window(128)` beside the fused call with the dense mask."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

import regard
from benchmarks.measure import Row, gradients, peak, race
from regard import rules

REACH = 128


def rows() -> list[Row]:
    """The claims about windows, for the machine at hand."""
    return [_gpu()] if torch.cuda.is_available() else [_cpu()]


def ours(length: int) -> Callable[[], Any]:
    """Forward and backward through `attend`."""
    q, k, v = (torch.randn(1, 8, length, 64, requires_grad=True) for _ in range(3))
    return lambda: gradients(regard.attend(q, k, v, rule=rules.window(REACH)), q, k, v)


def theirs(length: int) -> Callable[[], Any]:
    """Forward and backward through SDPA with the mask spelled out before."""
    q, k, v = (torch.randn(1, 8, length, 64, requires_grad=True) for _ in range(3))
    mask = rules.dense(rules.window(REACH), 1, 1, length, length)
    return lambda: gradients(F.scaled_dot_product_attention(q, k, v, mask), q, k, v)


def once() -> Callable[[], Any]:
    """The window at T = 8192, for its memory."""
    return ours(8192)


def twice() -> Callable[[], Any]:
    """The window at twice that length."""
    return ours(16384)


def _cpu() -> Row:
    found = race(ours(8192), theirs(8192), rounds=5, warm=1)
    growth = peak("window", "twice") / peak("window", "once")
    return Row(
        "`window(128)`, T = 8192, over SDPA with the dense mask, forward and backward",
        "≥ 8 × faster, memory linear",
        "14 ×",
        f"{found.times_faster:.1f} × ({found}); twice the length takes {growth:.2f} × the memory",
        found.times_faster >= 8 and growth <= 2.3,
    )


def _gpu() -> Row:
    T = 16384
    q, k, v = (torch.randn(1, 8, T, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    rule = rules.window(REACH)
    mask = rules.dense(rule, 1, 1, T, T, device=q.device)

    def dense() -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask)

    found = race(lambda: regard.attend(q, k, v, rule=rule), dense, rounds=30, inner=5, warm=3)
    backend = regard.why(q, k, v, rule=rule).backend
    return Row(
        "`window(128)`, T = 16384, bf16, 8 heads of 64, over SDPA with the dense mask, forward",
        "≥ 10 ×",
        "flex",
        f"{found.times_faster:.1f} × ({found}; {backend})",
        found.times_faster >= 10,
    )
