"""Decoding that a card repeats: recorded once for each form of its source, and then replayed.

A step of a small model is a hundred little things that the host tells the card one by one; a CUDA
graph tells it all of them at once.
"""

import inspect
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from regard.decode import states, steps
from regard.decode.steps import Begin, Steps
from regard.kernels.following import watched
from regard.recording import aside, captured

# A recording takes as long as some steps do without it.
FEW = 8
# How many forms of source are remembered; each keeps a state on the card.
FORMS = 16
# Sizes go up by this much, so that limits which are nearly alike share a recording.
ROUND = 16


class Recorded:
    """The model, with what a card was told to decode remembered for as long as this is kept.

    `greedy` and `beam` take it in place of the model and give the same. They record by themselves
    where the model's `start` takes a `size` and its source lies on a card, once a call; with this,
    sources of the same form share a recording. While a look is open nothing is recorded.
    """

    def __init__(self, model: Steps):
        self.model = model
        self._kept: dict[Hashable, _Recording] = {}
        self._pool: Any = None

    def start(self, source: Any, **size: int) -> Any:
        """The state before the first token, as the model's own."""
        return self.model.start(source, **size)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits and the state after `tokens`, as the model's own."""
        return self.model.step(tokens, state)

    def run(self, where: str, how: Hashable, begin: Begin, inputs: Any, most: int) -> Any:
        """What `steps.run` gives, in memory that the next run writes over.

        Args:
            how: all that `begin` depends on beside its inputs.
        """
        form = (where, how, states.form(inputs), self._surroundings())
        recording = self._kept.pop(form, None)
        if recording is None:
            recording = _Recording(begin, states.copied(inputs), self._pool)
            self._pool = recording.pool
        self._kept[form] = recording
        if len(self._kept) > FORMS:
            self._kept.pop(next(iter(self._kept)))
        return recording.run(where, inputs, most)

    def _surroundings(self) -> Hashable:
        """What a recording took for granted: where the weights lie, and how they are computed."""
        casts = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")
        if not isinstance(self.model, nn.Module):
            return casts
        weights = chain(self.model.parameters(), self.model.buffers())
        return casts, self.model.training, tuple(x.data_ptr() for x in weights)


class _Recording:
    """The first state and the step from one to the next, for inputs of one form."""

    def __init__(self, begin: Begin, inputs: Any, pool: Any):
        self._inputs = inputs
        with _casting_each_time():
            aside(lambda: _refuse_growth(begin, inputs))
            self._first, (loop, advance) = captured(lambda: _apart(begin, inputs), pool)
            self.pool = self._first.pool() if pool is None else pool
            self._next, _ = captured(lambda: states.write(loop, advance(loop)), self.pool)
        self._loop = loop

    def run(self, where: str, inputs: Any, most: int) -> Any:
        states.write(self._inputs, inputs)
        self._first.replay()
        for step in range(1, most + 1):
            self._next.replay()
            # in the last step nobody waits for the answer
            if step % steps.EVERY == 0 and step < most and bool(self._loop.done.all()):
                break
        steps.over(where, self._loop)
        return self._loop


def of(model: Steps, source: Any, most: int) -> Recorded | None:
    """What records the decoding of this source, or None if it is to be done step by step.

    A replay would show nothing to someone who follows each operation, such as a look.
    """
    recorder = model if isinstance(model, Recorded) else Recorded(model)
    if (recorder is not model and most < FEW) or not on_card(source) or watched():
        return None
    return recorder if "size" in inspect.signature(recorder.model.start).parameters else None


def rounded(most: int) -> int:
    """The room that a recording has for `most` tokens."""
    return -(-most // ROUND) * ROUND


def on_card(source: Any) -> bool:
    """Whether a source lies on a card that may record."""
    found = [x for _, x in states.leaves(source) if isinstance(x, Tensor)]
    return bool(found) and all(x.is_cuda for x in found) and not _busy()


def _busy() -> bool:
    return torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing()


def _apart(begin: Begin, inputs: Any) -> tuple[Any, Callable[[Any], Any]]:
    loop, advance = begin(inputs)
    return states.apart(loop, inputs), advance


def _refuse_growth(begin: Begin, inputs: Any) -> None:
    """Go the first steps, and refuse a loop that does not keep its form."""
    loop, advance = begin(inputs)
    after = advance(advance(loop))
    for (name, *was), (_, *now) in zip(states.form(loop), states.form(after), strict=True):
        if was != now:
            raise ValueError(
                f"decode: expected a state that keeps its form where start is given a size, got "
                f"{name} of {now} after {was}"
            )


@contextmanager
def _casting_each_time() -> Iterator[None]:
    """Inside, autocast keeps no weights it has cast: they would be gone when they are replayed."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
