"""What Bahdanau's score costs: `attend` beside the eager formula that everybody writes."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from benchmarks import additive_gpu
from benchmarks.additive_gpu import attended, formula
from benchmarks.measure import Row, gradients, peak, race

T, D = 512, 256


def rows() -> Iterable[Row]:
    """The claims about the additive score, for the machine at hand."""
    return additive_gpu.rows() if torch.cuda.is_available() else [_cpu()]


def ours(training: bool) -> Callable[[], Any]:
    """Through `attend`."""
    return _runner(attended, training)


def theirs(training: bool) -> Callable[[], Any]:
    """As it is written everywhere."""
    return _runner(formula, training)


def our_training() -> Callable[[], Any]:
    """Forward and backward, for its memory."""
    return ours(True)


def their_training() -> Callable[[], Any]:
    """The eager one, for its memory."""
    return theirs(True)


def _cpu() -> Row:
    forward = race(ours(False), theirs(False), rounds=9)
    both = race(ours(True), theirs(True), rounds=7)
    share = peak("additive", "our_training") / peak("additive", "their_training")
    measured = (
        f"{forward.times_faster:.1f} × forward ({forward}), {both.times_faster:.1f} × forward and "
        f"backward ({both}), {share:.1%} of the memory"
    )
    return Row(
        f"Additive, (2, 1, {T}, {T}), D = {D}, over eager `tanh(q + k) @ vector`",
        "≥ 4 × forward, ≥ 3 × forward and backward, peak memory ≤ 1/20",
        "≥ 6 × and 5 ×",
        measured,
        forward.times_faster >= 4 and both.times_faster >= 3 and share <= 1 / 20,
    )


def _runner(run: Callable[..., Tensor], training: bool) -> Callable[[], Any]:
    leaves = [torch.randn(2, 1, T, D, requires_grad=training) for _ in range(3)]
    leaves.append(torch.randn(1, D, requires_grad=training))

    def once(length: int = T) -> Any:
        q, k, v, vector = leaves
        out = run(q[:, :, :length], k[:, :, :length], v[:, :, :length], vector)
        return gradients(out, *leaves) if training else out

    once(20)  # what is imported at the first call is not part of it
    return once
