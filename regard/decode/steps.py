"""What can be decoded, and what every way of decoding asks of a step."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard import check


@runtime_checkable
class Steps(Protocol):
    """What can be decoded. A state is a tree of tensors with the batch first.

    A tree is made of tuples, lists, dicts, NamedTuples and dataclasses. Plain values (None, a
    number, a word) and tensors of no axes are the same for all rows, and pass through.
    """

    def start(self, source: Any) -> Any:
        """The state before the first token, one row a source."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits (B, V) of what follows `tokens` (B,), and the state after them."""


def limits(where: str, longest: int | Tensor, rows: int, device: torch.device) -> Tensor:
    """The most tokens of each source's hypotheses (B,)."""
    given = torch.as_tensor(longest, device=device)
    if given.dim():
        check.shape(where, "longest", given, B=rows)
    if int(given.min()) < 1:
        raise ValueError(f"{where}: expected longest >= 1, got {int(given.min())}")
    return given.expand(rows)


def checked(where: str, logits: Tensor, rows: int, end: int) -> Tensor:
    """The logits (B, V) in float32 or better, if they are logits at all."""
    check.floats(where, "logits", logits)
    check.shape(where, "logits", logits, B=rows, V=None)
    if not 0 <= end < logits.shape[1]:
        raise ValueError(
            f"{where}: expected end from 0 to V - 1 = {logits.shape[1] - 1}, got {end}"
        )
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def over(where: str, done: Tensor, lost: Tensor, step: int) -> bool:
    """Whether all rows are done: the one place that waits for the device, once a step."""
    over, broken = torch.stack([done.all(), lost.any()]).tolist()
    if broken:
        raise ValueError(
            f"{where}: expected logits with a token to take, got NaN or only -inf at step {step}"
        )
    return bool(over)
