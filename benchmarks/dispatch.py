"""The overhead of `attend` over the fused call that it makes."""

import torch
from torch.nn import functional as F

import regard
from benchmarks.measure import Row, in_words, race


def rows() -> list[Row]:
    """The claims about the overhead of `attend`."""
    return [_large(), _small()]


def _large() -> Row:
    q, k, v = (torch.randn(2, 8, 512, 64) for _ in range(3))
    found = race(
        lambda: regard.attend(q, k, v),
        lambda: F.scaled_dot_product_attention(q, k, v),
        rounds=60,
        inner=3,
        warm=5,
    )
    return Row(
        "`attend` over calling SDPA directly, (2, 8, 512, 64) fp32",
        "≤ 1.03 × time",
        "1.00",
        f"{found.times_the_time:.3f} × ({found})",
        found.times_the_time <= 1.03,
    )


def _small() -> Row:
    q, k, v = (torch.randn(1, 8, 1, 64) for _ in range(3))
    found = race(
        lambda: regard.attend(q, k, v),
        lambda: F.scaled_dot_product_attention(q, k, v),
        rounds=60,
        inner=300,
        warm=5,
    )
    extra = found.ours - found.theirs
    return Row(
        "overhead of one call at T = 1",
        "≤ 30 µs",
        "≤ 10 µs",
        f"{in_words(extra)} ({found})",
        extra <= 30e-6,
    )
