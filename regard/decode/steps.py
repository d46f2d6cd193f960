"""What can be decoded, and what every way of decoding asks of a step."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard import check
from regard.decode import states

# On a GPU, after so many steps it is asked whether all rows are done: to ask is to wait for it.
POLL_EVERY_STEPS = 8


@runtime_checkable
class StepModel(Protocol):
    """What can be decoded. A state is a tree of tensors with the batch first.

    A tree is made of tuples, lists, dicts, NamedTuples and dataclasses. Plain values (None, a
    number, a word), parameters and tensors of no axes are the same for all rows, and pass through.
    A part with a method `expand_beams(width)` holds what the beams of a source share: it is asked
    for the same with `width` beams in place of each, and never moved.

    A `start` that takes `size` as well, how many tokens there must be room for, promises that then
    no tensor of the state changes its form and no step waits for the device: see `CudaGraphCache`.
    """

    def start(self, source: Any) -> Any:
        """The state before the first token, one row a source."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits (B, V) of what follows `tokens` (B,), and the state after them."""


@runtime_checkable
class LoopState(Protocol):
    """What is known after some steps, a tree of tensors; of which these are asked for."""

    @property
    def is_done(self) -> Tensor:
        """Which rows more steps would not change (B,)."""

    @property
    def invalid_steps(self) -> Tensor:
        """At which steps a row had no token to take (T,)."""


# From its source (and what else is a tensor) to a loop before its first step, and how it goes on.
LoopFactory = Callable[[Any], tuple[Any, Callable[[Any], Any]]]


def step_limit(where: str, longest: int | Tensor) -> int:
    """How many steps are needed at most."""
    given = torch.as_tensor(longest)
    least, most = map(int, given.aminmax())
    if least < 1:
        raise ValueError(f"{where}: expected longest >= 1, got {least}")
    return most


def limits_like(source: Any, longest: int | Tensor) -> Tensor:
    """The limits as a tensor on the device of the source."""
    found = (x.device for _, x in states.leaves(source) if isinstance(x, Tensor))
    if isinstance(longest, int):
        # filled there: a number that is copied from the host is waited for
        return torch.full((), longest, device=next(found))
    return torch.as_tensor(longest, device=next(found))


def row_limits(where: str, longest: int | Tensor, rows: int, device: torch.device) -> Tensor:
    """The most tokens of each source's hypotheses (B,)."""
    given = torch.as_tensor(longest, device=device)
    if given.dim():
        check.shape(where, "longest", given, B=rows)
    return given.expand(rows)


def check_logits(where: str, logits: Tensor, rows: int, end: int) -> Tensor:
    """The logits (B, V), if they are logits at all."""
    check.floats(where, "logits", logits)
    check.shape(where, "logits", logits, B=rows, V=None)
    if not 0 <= end < logits.shape[1]:
        raise ValueError(
            f"{where}: expected end from 0 to V - 1 = {logits.shape[1] - 1}, got {end}"
        )
    return logits


def to_float32(logits: Tensor) -> Tensor:
    """The logits in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def run_loop(where: str, make_loop: LoopFactory, inputs: Any, max_steps: int) -> Any:
    """The loop after so many steps that all rows are done, or after `max_steps`."""
    loop, advance = make_loop(inputs)
    for step in range(1, max_steps + 1):
        loop = advance(loop)
        if should_poll(loop.is_done, step, max_steps) and is_loop_done(where, loop):
            break
    return loop


def should_poll(is_done: Tensor, step: int, max_steps: int) -> bool:
    """Whether to ask after this step if all rows are done: on a GPU, that is to wait for it."""
    return not is_done.is_cuda or step % POLL_EVERY_STEPS == 0 or step == max_steps


def is_loop_done(where: str, loop: LoopState) -> bool:
    """Whether all rows are done: the one place that waits for the device."""
    done, *lost = torch.cat([loop.is_done.all()[None], loop.invalid_steps]).tolist()
    if any(lost):
        raise ValueError(
            f"{where}: expected logits with a token to take, got NaN or only -inf at step "
            f"{1 + lost.index(True)}"
        )
    return bool(done)
